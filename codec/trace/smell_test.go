package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// evenTrace is a Mooncake file with equal gaps in ms and equal inputs.
func evenTrace(rows int, gapMS float64, input int) string {
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"timestamp":%.3f,"input_length":%d,"output_length":1}`+"\n", float64(i)*gapMS, input)
	}
	return b.String()
}

// TestUnitThresholds is just inside and just outside of each documented threshold.
func TestUnitThresholds(t *testing.T) {
	const minute, day = 60_000.0, 86_400_000.0
	for _, c := range []struct {
		name    string
		rows    int
		gapMS   float64
		input   int
		refused string // the unit that the message proposes
	}{
		{"one row", 1, 0, 10, ""},
		{"31 days", 2, 31 * day, 10, ""},
		{"over 31 days", 2, 31*day + 1, 10, "us"},
		{"a row a minute", 20, minute, 10, ""},
		{"slower than a row a minute", 20, minute + 1, 10, "us"},
		{"slower, but few rows", 19, minute + 1, 10, ""},
		{"all at one instant", 1000, 0, 100_000, ""},
		{"few rows at once", 99, 0.01, 100_000, ""},
		{"10M tokens a second", 100, 1, 9900, ""}, // 100 rows in 99 ms
		{"more tokens a second", 100, 1, 9901, "s"},
		{"2,000 requests a second of 20 kB", 2000, 0.5, 4000, ""},
	} {
		_, err := Read(strings.NewReader(evenTrace(c.rows, c.gapMS, c.input)), "t", Options{})
		refused := err != nil && strings.Contains(err.Error(), "smells of the wrong time unit (ms); pass --time-unit "+c.refused+" if")
		if (err == nil) != (c.refused == "") || err != nil && !refused {
			t.Errorf("%s: %v; want a proposal of %q", c.name, err, c.refused)
		}
		if _, err := Read(strings.NewReader(evenTrace(c.rows, c.gapMS, c.input)), "t", Options{TimeUnit: time.Millisecond}); err != nil {
			t.Errorf("%s, with the unit given: %v", c.name, err)
		}
	}
}

// TestRealRateMistaken is the conversation trace's rate under the two wrong units, cut to few rows.
func TestRealRateMistaken(t *testing.T) {
	ms := evenTrace(300, 294, 12035)
	if _, err := Read(strings.NewReader(ms), "t", Options{}); err != nil {
		t.Errorf("milliseconds as such: %v", err)
	}
	seconds := evenTrace(300, 0.294, 12035)
	if _, err := Read(strings.NewReader(seconds), "t", Options{}); err == nil {
		t.Error("seconds as milliseconds: no error")
	}
	asBailian := strings.ReplaceAll(ms, `{"timestamp"`, `{"chat_id":1,"timestamp"`)
	if _, err := Read(strings.NewReader(asBailian), "t", Options{}); err == nil {
		t.Error("milliseconds as seconds: no error")
	}
}
