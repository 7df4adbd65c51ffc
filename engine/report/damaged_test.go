package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// soundDir has the results of 100 s, as rampDir, with a checksum of its records and nothing that is wrong.
func soundDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	w, err := NewWriter(dir, WriterOptions{})
	must.Do(t, err)
	c := collect.NewCollector([]string{windowURL})
	for i := range int64(100) {
		var r record.Record
		r.Clear()
		r.Row, r.Outcome, r.Target, r.TokensFrom = i, record.OK, windowURL, record.TokensFromUsage
		r.PlannedNS = i * 1e9
		r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = r.PlannedNS, r.PlannedNS+1e8, r.PlannedNS+2e9, r.PlannedNS+2e9
		r.InputTokens, r.PromptTokens, r.OutputTokens, r.CompletionTokens, r.Chunks = 50, 50, 20, 20, 20
		c.Add(&r, 0)
		c.AddGaps(0, []int64{1e8, 2e8})
		w.Append(&r)
	}
	must.Have(w.Close())(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := c.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: 100}, Run: metrics.Run{StartedAt: start, DurationS: 100}, Limits: metrics.DefaultLimits(),
		Workload: metrics.Workload{Trace: "sound.jsonl", Requests: 100}, Records: w.Lines(),
	}, collect.Probed{})
	for _, err := range []error{WriteSummary(dir, s), WriteHistograms(dir, c, start, start), WriteTimeline(dir, c.Timeline())} {
		must.Do(t, err)
	}
	return dir
}

// TestOtherRecords: whatever counts records again says that they are not those of the run: cut, doubled or edited.
func TestOtherRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		change func(text string) string
		says   string
	}{
		{"nothing", func(text string) string { return text }, ""},
		{"half", func(text string) string { return text[:strings.Index(text, `{"row":50`)] }, "has 50 of the 100 records that the run wrote"},
		{"cut within a line", func(text string) string { return text[:len(text)-9] }, "has 99 of the 100 records"},
		{"all", func(string) string { return "" }, "has 0 of the 100 records"},
		{"doubled", func(text string) string { return text + text[:strings.Index(text, `{"row":50`)] }, "has 150 records, and the run wrote 100"},
		{"one in place of another", func(text string) string {
			return strings.Replace(text, `{"row":1,`, `{"row":2,`, 1)
		}, "has 100 records, but others than the run wrote"},
		{"edited", func(text string) string {
			return strings.Replace(text, `"first_token_ns":5100000000`, `"first_token_ns":5000000000`, 1)
		}, "has 100 records, but others than the run wrote"},
	} {
		dir := soundDir(t)
		name := filepath.Join(dir, RequestsName)
		before := string(must.Have(os.ReadFile(name))(t))
		after := c.change(before)
		must.Equal(t, after == before, c.says == "", "%s changes nothing", c.what)
		must.Do(t, os.WriteFile(name, []byte(after), 0o644))
		for how, load := range map[string]func() (*metrics.Summary, error){
			"--goodput": func() (*metrics.Summary, error) { return Load(dir, slos(t, "ttft:150")...) },
			"--from":    func() (*metrics.Summary, error) { return LoadPart(dir, Part{From: time.Second, To: 40 * time.Second}) },
			"--steady":  func() (*metrics.Summary, error) { return LoadPart(dir, Part{Steady: 0.9}) },
		} {
			s, err := load()
			if err != nil && c.what == "all" { // there is nothing to count
				continue
			}
			v := must.Have(s, err)(t).Verdict
			if v.Valid != (c.says == "") || c.says != "" && !(v.Reasons[0].Code == "records" && strings.Contains(v.Reasons[0].What, name+" "+c.says)) {
				t.Errorf("%s, %s: %+v; want %q", c.what, how, v, c.says)
			}
		}
		var last error
		for _, err := range Checked(dir, must.Have(Load(dir))(t)) {
			last = err
		}
		if (last == nil) != (c.says == "") || last != nil && !strings.Contains(last.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.what, last, c.says)
		}
		if err := HTML(io.Discard, dir, must.Have(Load(dir))(t)); (err == nil) != (c.says == "") {
			t.Errorf("%s: a page, %v", c.what, err)
		}
	}
}

// TestRecordsOfOthers: records that a run could not write, or that a killed run left, are no fault of the file.
func TestRecordsOfOthers(t *testing.T) {
	t.Parallel()
	seen := record.Lines{Count: 5, Sum: 7}
	for _, s := range []metrics.Summary{
		{Requests: metrics.Requests{Planned: 5}},
		{Requests: metrics.Requests{Planned: 9, Unwritten: 4}},
		{Requests: metrics.Requests{Planned: 9}, Run: metrics.Run{Partial: true}},
		{Requests: metrics.Requests{Planned: 9}, Records: &record.Lines{Count: 5, Sum: 7}},
	} {
		expect.Equal(t, s.Unlike(seen), "", s)
	}
}

// TestStrangeResults: what is no file is refused in the place of each file that a report reads, and so is one that no
// run writes.
func TestStrangeResults(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func(name string) error{
		"pipe": func(name string) error { return syscall.Mkfifo(name, 0o644) }, "/dev/zero": func(name string) error { return os.Symlink("/dev/zero", name) },
		"loop": func(name string) error { return os.Symlink(name, name) }, "directory": func(name string) error { return os.Mkdir(name, 0o755) },
		"1 TB": func(name string) error {
			must.Do(t, os.WriteFile(name, nil, 0o644))
			return os.Truncate(name, 1<<40)
		},
	} {
		for file, read := range map[string]func(dir string) error{
			SummaryName:       func(dir string) error { return failed(Load(dir)) },
			PlanName:          func(dir string) error { return failed(ReadPlan(dir)) },
			RequestsName:      func(dir string) error { return failed(Load(dir, slos(t, "ttft:1")...)) },
			HistogramsName:    func(dir string) error { return failed(Gaps(dir)) },
			ServerMetricsName: func(dir string) error { return failed(LoadPart(dir, Part{From: time.Second})) },
		} {
			dir := soundDir(t)
			must.Do(t, os.RemoveAll(filepath.Join(dir, file)))
			must.Do(t, make(filepath.Join(dir, file)))
			if err := read(dir); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("a %s as %s: %v", what, file, err)
			}
		}
	}
}

func failed[T any](_ T, err error) error { return err }

// FuzzResults: whatever stands in a file of results, it is read or refused; nothing panics.
func FuzzResults(f *testing.F) {
	dir := soundDir(f)
	names := []string{SummaryName, RequestsName, HistogramsName, TimelineName, PlanName}
	good := map[string][]byte{}
	for i, name := range names {
		good[name], _ = os.ReadFile(filepath.Join(dir, name))
		f.Add(byte(i), good[name])
		f.Add(byte(i), bytes.Repeat([]byte(`{"a":[`), 20_000))
	}
	f.Add(byte(0), bytes.ReplaceAll(good[SummaryName], []byte(": 100"), []byte(": -9000000000000000000")))
	f.Add(byte(0), bytes.ReplaceAll(good[SummaryName], []byte(": 100"), []byte(": 1e29")))
	f.Add(byte(1), bytes.ReplaceAll(good[RequestsName], []byte(`_ns":`), []byte(`_ns":-`)))
	f.Fuzz(func(t *testing.T, which byte, content []byte) {
		dir := t.TempDir()
		name := names[int(which)%len(names)]
		for other, text := range good {
			if other == name {
				text = content
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, other), text, 0o644))
		}
		for _, part := range []Part{{}, {From: time.Second, To: time.Minute}, {Steady: 0.5}} {
			s, err := LoadPart(dir, part)
			if err != nil {
				continue
			}
			o := PrintOptions{Dir: dir, Steps: Steps(dir)}
			_, _, _ = Screen(io.Discard, s, o), Print(io.Discard, s, o), HTML(io.Discard, dir, s)
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
		_, _ = Gaps(dir)
	})
}
