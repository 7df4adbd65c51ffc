package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func slos(t *testing.T, list string) []metrics.SLO {
	t.Helper()
	slos := must.Have(metrics.ParseSLOs(list))(t)
	return slos
}

// ranWith leaves the results of a run of 40 requests to two targets, whose
// goodput was counted by list, and returns its summary.
func ranWith(t *testing.T, dir, list string) *metrics.Summary {
	t.Helper()
	var records []record.Record
	urls := []string{"http://a:1", "http://b:2"}
	c := collect.NewCollector(urls, slos(t, list)...)
	for i := range int64(40) {
		var r record.Record
		r.Clear()
		target := int(i % 2)
		r.Row, r.Outcome, r.PlannedNS, r.Target = i, record.OK, i*1e6, urls[target]
		r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens = i*1e6+10, i*1e6+i*1e5, i*1e6+9e6, i
		switch {
		case i == 39:
			r.Outcome, r.Target, r.SentNS, target = record.NotSent, "", record.None, -1
		case i%7 == 0:
			r.Outcome = record.Timeout
		case i%11 == 0:
			r.FirstTokenNS = record.None
		}
		records = append(records, r)
		c.Add(&r, target)
	}
	writeRecords(t, dir, WriterOptions{Compress: true}, records)
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 40}, Run: metrics.Run{DurationS: 0.048, Cut: true, Targets: urls}, Limits: metrics.DefaultLimits()}, collect.Probed{})
	must.Do(t, WriteSummary(dir, s))
	return s
}

// text is the summary as JSON.
func text(t *testing.T, s *metrics.Summary, err error) string {
	t.Helper()
	must.Do(t, err)
	var b strings.Builder
	must.Do(t, EncodeJSON(&b, s))
	return b.String()
}

// TestGoodputFromDisk: the run's own goodput is as it was. That of the same SLOs by the records is the same, and that
// of others is what a run with them would have had. A run that left no summary has the same numbers.
func TestGoodputFromDisk(t *testing.T) {
	const own, other = "ttft:2 tpot:1", "e2e:8.9 ttft_planned:3"
	dir, twin := t.TempDir(), t.TempDir()
	s, want := ranWith(t, dir, own), ranWith(t, twin, other)
	if g := s.Goodput; g.Requests == 0 || g.Missed["ttft"] == 0 || g.Unmeasured["tpot"] == 0 || g.Failed == 0 {
		t.Fatalf("the run covers too little: %+v", g)
	}
	load := func(list ...metrics.SLO) string { got, err := Load(dir, list...); return text(t, got, err) }
	expect.Equal(t, load(), text(t, s, nil), "the run's own")
	expect.Equal(t, load(slos(t, own)...), text(t, s, nil), "counted again")
	expect.Equal(t, load(slos(t, other)...), text(t, want, nil), "by other SLOs")
	expect.Refused(Load(dir, slos(t, "class=nobody ttft:1")...))(t, `--goodput "class=nobody ttft": no request of `, " is of that class")
	expect.Equal(t, load(), text(t, s, nil), "counting again changed what is on disk")
	must.Do(t, os.Remove(filepath.Join(dir, SummaryName)))
	rebuilt, err := Load(dir, slos(t, own)...)
	if err != nil || rebuilt.Run.DurationS != s.Run.DurationS {
		t.Fatalf("rebuilt: %v, %v", rebuilt, err)
	}
	rebuilt.Goodput.SLO, s.Goodput.SLO = nil, nil
	for i, got := range append([]metrics.Target{{Goodput: rebuilt.Goodput}}, rebuilt.Targets...) {
		want := append([]metrics.Target{{Goodput: s.Goodput}}, s.Targets...)[i].Goodput
		if g, w := text(t, &metrics.Summary{Goodput: got.Goodput}, nil), text(t, &metrics.Summary{Goodput: want}, nil); g != w {
			t.Errorf("rebuilt %d: %s\nwant %s", i, g, w)
		}
	}
	if got, err := Load(dir); err != nil || got.Goodput != nil {
		t.Errorf("goodput without an SLO: %+v, %v", got, err)
	}
}

// TestRecountRefuses: what the files do not show is refused, and what they lack is noted.
func TestRecountRefuses(t *testing.T) {
	const list = "ttft:2"
	dir := t.TempDir()
	s := ranWith(t, dir, list)
	s.Requests.Planned += 3 // which the disk did not take
	must.Do(t, WriteSummary(dir, s))
	if got, err := Load(dir, slos(t, list)...); err != nil || !strings.Contains(strings.Join(got.Notes, "\n"), "goodput was counted without 3 records that requests.jsonl lacks") {
		t.Errorf("%v, %v", got, err)
	}
	s.Targets[1].URL = s.Targets[0].URL
	must.Do(t, WriteSummary(dir, s))
	expect.Refused(Load(dir, slos(t, list)...))(t, "http://a:1 as several targets", "one URL twice")
	bare := t.TempDir()
	must.Do(t, WriteSummary(bare, normalRun()))
	expect.Refused(Load(bare, slos(t, list)...))(t, "has no requests.jsonl", "no records")
}

// TestLeftOutIsNoFailure: what the user left out of a run is no failure to a report of the records alone, nor does
// goodput count it.
func TestLeftOutIsNoFailure(t *testing.T) {
	dir, records := t.TempDir(), make([]record.Record, 4)
	for i := range int64(4) {
		r := &records[i]
		r.Clear()
		r.Row, r.InputTokens, r.OutputTokens = i, 100, 10
		if i == 0 {
			r.Error = "longer than the server's context of 50 tokens: " + record.LeftOutWords
		} else {
			r.Outcome, r.Target, r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens = record.OK, "http://a:1", 0, 10, 20, 90, 10
		}
	}
	writeRecords(t, dir, WriterOptions{}, records)
	s := must.Have(rebuild(dir, slos(t, "ttft:1")))(t)
	if len(s.Verdict.Reasons) != 1 || !strings.Contains(s.Verdict.Reasons[0].What, "has no summary.json") {
		t.Errorf("reasons %q, want only that there was no summary", s.Verdict.Reasons)
	}
	if g := s.Goodput; *g.Share != 1 || g.Failed != 0 || g.Requests != 3 {
		t.Errorf("goodput %+v, want all of 3", g)
	}
	if s.Requests.Planned != 4 || s.Workload.LeftOut != 1 || s.Workload.Requests != 3 || s.Workload.InputTokens != 300 || s.Workload.OutputTokens != 30 {
		t.Errorf("planned %d, workload %+v", s.Requests.Planned, s.Workload)
	}
}

// TestPreparationOnDisk: a report of the records alone does not measure what prepared, and tells of it.
func TestPreparationOnDisk(t *testing.T) {
	dir, records := t.TempDir(), make([]record.Record, 5)
	for i := range int64(5) {
		r := &records[i]
		r.Clear()
		r.Row, r.Outcome, r.Target, r.InputTokens, r.OutputTokens, r.CompletionTokens = i, record.OK, "http://a:1", 100, 10, 10
		r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = 5, 10, 20, 2e9, 2e9
		if i < 2 {
			r.Phase, r.OutputTokens = record.Primer, 1
			for _, at := range []*int64{&r.PlannedNS, &r.SentNS, &r.FirstTokenNS, &r.LastTokenNS, &r.DoneNS} {
				*at -= 7e9
			}
		}
	}
	writeRecords(t, dir, WriterOptions{}, records)
	s := must.Have(rebuild(dir, nil))(t)
	if p := s.Preparation; p == nil || p.Primers != 2 || p.Failed != 0 || *p.DurationS != 7-10e-9 {
		t.Errorf("%+v", p)
	}
	if s.Requests.Planned != 3 || s.Requests.OK != 3 || s.Workload.Requests != 3 || s.Workload.OutputTokens != 30 || s.Run.DurationS != 2 {
		t.Errorf("planned %d, ok %d, workload %+v, %v s", s.Requests.Planned, s.Requests.OK, s.Workload, s.Run.DurationS)
	}
}

// TestStartOfAKilledRun: without a summary the first date of a record says when the run started; records of older files
// have none.
func TestStartOfAKilledRun(t *testing.T) {
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, want := range []time.Time{started, {}} {
		dir, records := t.TempDir(), make([]record.Record, 3)
		for i := range records {
			records[i].Clear()
			records[i].Row, records[i].PlannedNS = int64(i), 0
			if i > 0 {
				records[i].SentNS, records[i].Outcome = int64(i)*7e9, record.Reset
			}
			if i > 0 && !want.IsZero() {
				records[i].SentAt = record.Wall(started.Add(time.Duration(i) * 7 * time.Second).UnixMicro())
			}
		}
		writeRecords(t, dir, WriterOptions{}, records)
		if s := must.Have(Load(dir))(t); !s.Run.StartedAt.Equal(want) {
			t.Errorf("started at %v, want %v", s.Run.StartedAt, want)
		}
	}
}
