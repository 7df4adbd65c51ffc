package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCollect looks at every malformed trace: what a replay refuses is noted instead, unless nothing can be read.
func TestCollect(t *testing.T) {
	unreadable := []string{"azure-column-twice.csv", "azure-head-only.csv", "blank-lines.jsonl", "burstgpt-only-failures.csv", "copilot-only-failures.jsonl", "cut-short.jsonl.gz", "damaged.jsonl.zst", "empty.jsonl", "git-lfs-pointer.jsonl", "inputs-json-cut-short.json", "inputs-json-data-not-a-list.json", "json-array.jsonl", "sharegpt-cut-short.json", "sharegpt-only-questions.json", "unknown-columns.csv", "unknown-keys.jsonl", "satf-cut-short.json", "weka-cut-short.json"}
	whole := map[string]bool{"milliseconds-as-seconds.jsonl": true, "seconds-as-milliseconds.jsonl": true, "wrong-block-size.jsonl": true}
	for name, begins := range refusals() {
		path := filepath.Join("testdata", name)
		tr, err := Open(path, Options{Collect: true})
		if err != nil {
			if !slices.Contains(unreadable, name) && !strings.Contains(err.Error(), "none of the ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		said := append(append([]Fault(nil), tr.Lint.Refusals...), tr.Lint.Faults...)
		if len(said) == 0 || !strings.HasPrefix(said[0].String()+"\n", path+begins) {
			t.Errorf("%s: noted %q, want %q", name, said, begins)
			continue
		}
		if !tr.Lint.Refused(Options{}) || tr.Lint.Refused(Options{Lenient: true}) != whole[name] {
			t.Errorf("%s: refused %v, with lenient %v", name, tr.Lint.Refused(Options{}), tr.Lint.Refused(Options{Lenient: true}))
		}
		if tr.Len() != tr.FileRows-tr.Lint.Dropped {
			t.Errorf("%s: %d of %d rows, %d dropped", name, tr.Len(), tr.FileRows, tr.Lint.Dropped)
		}
	}
}

// TestCollectTwoRefusals has the unit and the block size wrong at once.
func TestCollectTwoRefusals(t *testing.T) {
	text := must(os.ReadFile("testdata/wrong-block-size.jsonl"))(t)
	far := strings.ReplaceAll(string(text), `"timestamp":`, `"timestamp":999999999`)
	tr, err := Read(strings.NewReader(far+`{"timestamp":0,"input_length":1,"output_length":1}`), "t", Options{Collect: true})
	if err != nil || len(tr.Lint.Refusals) != 2 {
		t.Fatalf("%v, %v; want two refusals", tr.Lint.Refusals, err)
	}
	if tr.Lint.Notes() == nil {
		t.Error("the repairs are not noted")
	}
}

// TestCollectKeepsOtherErrors: what has nothing to do with the file's contents is an error still.
func TestCollectKeepsOtherErrors(t *testing.T) {
	if _, err := Open("testdata/nothing.jsonl", Options{Collect: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	row := `{"timestamp":0,"input_length":1,"output_length":1}`
	if _, err := Read(strings.NewReader(row), "t", Options{Collect: true, From: 1}); err == nil || !strings.Contains(err.Error(), "no row lies") {
		t.Errorf("an empty selection: %v", err)
	}
}

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
		{"the rate of Mooncake's conversation trace", 300, 294, 12035, ""},
		{"this rate in seconds", 300, 0.294, 12035, "s"},
	} {
		_, err := Read(strings.NewReader(evenTrace(c.rows, c.gapMS, c.input)), "t", Options{})
		refused := err != nil && strings.Contains(err.Error(), "the time unit (ms) is probably wrong; pass --time-unit "+c.refused+" if")
		if (err == nil) != (c.refused == "") || err != nil && !refused {
			t.Errorf("%s: %v; want a proposal of %q", c.name, err, c.refused)
		}
		if _, err := Read(strings.NewReader(evenTrace(c.rows, c.gapMS, c.input)), "t", Options{TimeUnit: time.Millisecond}); err != nil {
			t.Errorf("%s, with the unit given: %v", c.name, err)
		}
	}
}
