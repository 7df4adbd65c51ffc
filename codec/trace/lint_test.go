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

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestCollect looks at every malformed trace: what a replay refuses is noted instead, unless nothing can be read.
func TestCollect(t *testing.T) {
	unreadable := []string{"azure-column-twice.csv", "azure-head-only.csv", "blank-lines.jsonl", "burstgpt-only-failures.csv", "copilot-only-failures.jsonl", "cut-short.jsonl.gz", "damaged.jsonl.zst", "empty.jsonl", "git-lfs-pointer.jsonl", "inputs-json-cut-short.json", "inputs-json-data-not-a-list.json", "json-array.jsonl", "sharegpt-cut-short.json", "sharegpt-only-questions.json", "semicolons.csv", "vllm-log-only-questions.jsonl", "unknown-columns.csv", "unknown-keys.jsonl", "satf-cut-short.json", "weka-cut-short.json"}
	whole := map[string]bool{"milliseconds-as-seconds.jsonl": true, "seconds-as-milliseconds.jsonl": true, "wrong-block-size.jsonl": true}
	for name, begins := range refusals(t) {
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
		expect.Equal(t, tr.Len(), tr.FileRows-tr.Lint.Dropped, "%s: of %d rows, %d dropped", name, tr.FileRows, tr.Lint.Dropped)
	}
}

// TestCollectTwoRefusals has the unit and the block size wrong at once.
func TestCollectTwoRefusals(t *testing.T) {
	text := must.Have(os.ReadFile("testdata/wrong-block-size.jsonl"))(t)
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
	expect.Refused(Read(strings.NewReader(row), "t", Options{Collect: true, From: 1}))(t, "no row lies", "an empty selection")
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

// TestUnitDoubts: seconds read as milliseconds are noted at any plausible rate, and milliseconds read as seconds. Where
// the unit is given, or the format has only one, nothing is doubted.
func TestUnitDoubts(t *testing.T) {
	azure := "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for i := range 50 {
		azure += fmt.Sprintf("2023-11-16 18:17:03.%03d0000,4808,10\n", i)
	}
	slow := ""
	for i := range 15 {
		slow += fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":-1,"timestamp":%d,"input_length":16,"output_length":1,"type":"text","turn":1,"hash_ids":[1]}`+"\n", i, i*3000)
	}
	const fast, late = "if the timestamps are seconds, give --time-unit s", "if the timestamps are milliseconds, give --time-unit ms"
	for _, c := range []struct {
		name, text, want string
		unit             time.Duration
	}{
		{"one request a second, in seconds", evenTrace(60, 1, 500), fast, 0},
		{"written by hand", evenTrace(5, 1, 10), fast, 0},
		{"one in ten seconds", evenTrace(60, 9.9, 10), fast, 0},
		{"long prompts, one in 30 s", evenTrace(60, 30, 12035), fast, 0},
		{"the conversation trace in seconds, short prompts", evenTrace(300, 0.294, 100), fast, 0},
		{"all at one instant", evenTrace(1000, 0, 100_000), "", 0},
		{"a few at once", evenTrace(4, 1, 10), "", 0},
		{"99 requests a second", evenTrace(60, 10.1, 10), "", 0},
		{"the rate of Mooncake's conversation trace", evenTrace(300, 294, 12035), "", 0},
		{"seconds, as they are", evenTrace(60, 1, 500), "", time.Second},
		{"milliseconds, which somebody knows", evenTrace(60, 1, 500), "", time.Millisecond},
		{"dates", azure, "", 0},
		{"milliseconds read as seconds", slow, late, 0},
		{"seconds that somebody knows", slow, "", time.Second},
	} {
		tr, err := Read(strings.NewReader(c.text), "t", Options{TimeUnit: c.unit})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		said := strings.Join(tr.Lint.Notes(), "|")
		if c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

// TestCutJobs: a selection that takes some of a job's requests and leaves others out says so, since a job's time is
// then not its own.
func TestCutJobs(t *testing.T) {
	const sample = "../../bench/samples/weka.jsonl"
	all := must.Have(Open(sample, Options{}))(t)
	last := time.Duration(all.SpanNS()) + 1
	for _, c := range []struct {
		o   Options
		cut bool
	}{
		{Options{}, false}, {Options{Limit: all.Len()}, false}, {Options{Limit: all.Len() - 1}, true}, {Options{Limit: 20}, true},
		{Options{From: last / 2}, true}, {Options{To: last / 2}, true}, {Options{To: last}, false},
	} {
		tr := must.Have(Open(sample, c.o))(t)
		whole, taken := map[string]int{}, map[string]int{}
		for i := range all.Len() {
			whole[all.JobName(i)]++
		}
		for i := range tr.Len() {
			taken[tr.JobName(i)]++
		}
		cut := 0
		for job, n := range taken {
			if n < whole[job] {
				cut++
			}
		}
		said := strings.Join(tr.Lint.Notes(), "|")
		want := fmt.Sprintf("%d of %d jobs cut", cut, len(taken))
		if c.cut != (cut > 0) || c.cut != strings.Contains(said, "jobs cut") || c.cut && !strings.Contains(said, want) {
			t.Errorf("%+v: %q, want %q", c.o, said, want)
		}
	}
}

// TestRecordingsBehindAnother: two of them in one file are sent at the same time, which is said. Rows that were merely
// shuffled, or written late, have their lateness alone.
func TestRecordingsBehindAnother(t *testing.T) {
	const anew = "; if recordings stand one behind another, they are now sent at the same time"
	said := func(timeOf func(i int) int) string {
		text := ""
		for i := range 200 {
			text += fmt.Sprintf("{\"timestamp\":%d,\"input_length\":9,\"output_length\":9}\n", timeOf(i))
		}
		return strings.Join(must.Have(Read(strings.NewReader(text), "t", Options{Format: "mooncake"}))(t).Lint.Notes(), "\n")
	}
	const form = "%s out of time order, by up to %s: the trace was sorted, equal instants keep file order%s"
	expect.Equal(t, said(func(i int) int { return i % 100 * 100 }), fmt.Sprintf(form, "1 row", "9.9s", anew))
	expect.Equal(t, said(func(i int) int { return i * 37 % 200 * 100 }), fmt.Sprintf(form, "36 rows", "16.3s", ""))
	expect.Equal(t, said(func(i int) int { return i*100 - i/150%2*1000 }), fmt.Sprintf(form, "1 row", "900ms", ""))
}
