package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

const windowURL = "http://a:1"

// rampDir has the results of 100 s: from 20 to 80 s ten requests leave each second and take 2 s, else one does. A
// sample of the server is taken each second; its GPU takes 100 W, and 300 W from 50 s on. The run's measurement has two
// faults.
func rampDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var records []record.Record
	c := collect.NewCollector([]string{windowURL}, slos(t, "ttft:150")...)
	for s := range int64(98) {
		n := int64(1)
		if s >= 20 && s < 80 {
			n = 10
		}
		for i := range n {
			var r record.Record
			r.Clear()
			r.Row, r.Outcome, r.Target, r.TokensFrom = int64(len(records)), record.OK, windowURL, record.TokensFromUsage
			r.PlannedNS = s*1e9 + i*1e9/n
			r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = r.PlannedNS, r.PlannedNS+1e8, r.PlannedNS+2e9, r.PlannedNS+2e9
			r.InputTokens, r.PromptTokens, r.OutputTokens, r.CompletionTokens, r.Chunks = 50, 50, 20, 20, 20
			if s >= 80 {
				r.FirstTokenNS += 1e8 // beyond the bound
			}
			records = append(records, r)
			c.Add(&r, 0)
		}
	}
	writeRecords(t, dir, WriterOptions{}, records)
	w := must.Have(NewSampleWriter(dir, nil))(t)
	for at := range int64(101) {
		m := &scrape.Sample{AtNS: at * 1e9, Phase: scrape.During, Target: windowURL, URL: windowURL + "/metrics"}
		watts := 100.0
		if at >= 50 {
			watts = 300
		}
		m.Engine, m.Engines, m.GPUs, m.PowerW = "vllm", 1, 1, &watts
		m.Running, m.GenerationTokens = new(float64(at)), new(float64(at*at))
		w.Append(m)
	}
	must.Do(t, w.Close())
	s := c.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: int64(len(records)), Unwritten: 1}, Run: metrics.Run{DurationS: 100}, Limits: metrics.DefaultLimits(),
		Workload: metrics.Workload{Trace: "ramp.jsonl", Requests: int64(len(records))}, Client: metrics.Client{CPUS: 5},
		Servers: must.Have(rebuildServers(dir, nil))(t),
	}, collect.Probed{})
	s.Verdict.Reasons = append(s.Verdict.Reasons, metrics.Reason{Code: "drift", Grade: metrics.Limited, What: "that records show by themselves"})
	must.Do(t, WriteSummary(dir, s))
	return dir
}

// TestLoadPart: numbers are those of the part, by hand; what only the run knew is absent; faults that records do not
// show stay.
func TestLoadPart(t *testing.T) {
	dir := rampDir(t)
	before := must.Have(os.ReadFile(filepath.Join(dir, SummaryName)))(t)
	s := must.Have(LoadPart(dir, Part{From: 30 * time.Second, To: 60 * time.Second}))(t)
	if s.Requests.Planned != 300 || s.Requests.OK != 300 || s.Workload.Requests != 300 || s.Workload.OutputTokens != 6000 || s.Workload.Trace != "ramp.jsonl" || s.Run.DurationS != 30 {
		t.Errorf("requests %+v, workload %+v, %g s", s.Requests, s.Workload, s.Run.DurationS)
	}
	if n := s.Throughput; n.RequestsPerS != 10 || n.InputTokensPerS != 500 || n.OutputTokensPerS != 200 || *s.InFlight != 20 || s.TTFTMS.Count != 300 || *s.Goodput.Share != 1 {
		t.Errorf("throughput %+v, in flight %v, goodput %+v", n, *s.InFlight, s.Goodput)
	}
	// Of 30 samples 20 have 100 W and 10 have 300 W. The counter grows by 59² − 30².
	all := s.Servers.All
	if all.Samples != 30 || *all.GenerationTokens != 2581 || all.Running.Mean != 44.5 || all.RunningBefore != nil || all.PowerW.Mean != 5000.0/30 || *s.Energy.PerOutput != all.PowerW.Mean/200 {
		t.Errorf("servers %+v, energy %+v", all, s.Energy)
	}
	if len(s.Verdict.Reasons) != 1 || s.Verdict.Reasons[0].Code != "unwritten" || !strings.HasPrefix(s.Verdict.Reasons[0].What, "of the whole run: ") || s.Verdict.Valid {
		t.Errorf("verdict %+v", s.Verdict)
	}
	if s.Client.CPUS != 0 || s.ITLMS != nil || s.Jobs != nil || len(s.Notes) == 0 || !strings.Contains(strings.Join(s.Notes, " "), "30.0 s to 60.0 s of 100 s") {
		t.Errorf("client %+v, notes %q", s.Client, s.Notes)
	}
	if tail := must.Have(LoadPart(dir, Part{From: 90 * time.Second}, slos(t, "ttft:99")...))(t); tail.Requests.Planned != 8 || tail.Goodput.Requests != 0 || tail.Throughput.RequestsPerS != 1 {
		t.Errorf("to the end, with another bound: %+v, %+v, %+v", tail.Requests, tail.Goodput, tail.Throughput)
	}
	whole, all0 := must.Have(LoadPart(dir, Part{To: time.Hour}))(t), must.Have(Load(dir))(t)
	if whole.Throughput != all0.Throughput || *whole.Servers.All.GenerationTokens != 10000 || *whole.TTFTMS != *all0.TTFTMS || !reflect.DeepEqual(whole.Intervals, all0.Intervals) || whole.Requests.Planned != all0.Requests.Planned {
		t.Errorf("the whole run as a part: %+v, want %+v", whole.Throughput, all0.Throughput)
	}
	if text(t, must.Have(LoadPart(dir, Part{}))(t), nil) != text(t, all0, nil) || string(must.Have(os.ReadFile(filepath.Join(dir, SummaryName)))(t)) != string(before) {
		t.Error("no part is another summary, or what is on disk has changed")
	}
	bare := t.TempDir()
	must.Do(t, WriteSummary(bare, all0))
	for _, part := range []Part{{From: time.Second}, {Steady: 0.2}} {
		if s, err := LoadPart(bare, part); err == nil || !strings.Contains(err.Error(), "requests.jsonl") || strings.Count(err.Error(), bare) != 1 {
			t.Errorf("without records: %v, %v", s, err)
		}
	}
	lagging := must.Have(Load(dir))(t) // ITL alone was read late, and a part has no ITL
	lagging.Lateness.Reading = []metrics.Unsafe{{Metric: "itl", Percentile: "p99", EffectMS: 3}}
	lagging.Verdict.Reasons = []metrics.Reason{{Code: "receive_lag", Grade: metrics.Limited, What: "ITL p99 is not safe"}}
	must.Do(t, WriteSummary(dir, lagging))
	if v := must.Have(LoadPart(dir, Part{Steady: 0.2}))(t).Verdict; v.Measurement != metrics.Valid || len(v.Unsafe) > 0 {
		t.Errorf("verdict of a part without ITL: %+v", v)
	}
	must.Do(t, WriteSummary(dir, all0))
	for part, want := range map[Part]string{
		{From: 2 * time.Minute}:                 "the run took 100 s, so nothing of it is left from 120 s on",
		{From: 99 * time.Second}:                "no request was planned from 99.0 s to 100 s of 100 s",
		{From: 500 * time.Millisecond, To: 9e8}: "no request was planned",
	} {
		if s, err := LoadPart(dir, part); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("%+v: %v, %v, want %q", part, s, err, want)
		}
	}
	must.Do(t, os.Remove(filepath.Join(dir, SummaryName)))
	if s := must.Have(LoadPart(dir, Part{From: 30 * time.Second, To: 60 * time.Second}))(t); s.Requests.OK != 300 || s.Verdict.Reasons[0].Code != "no_summary" {
		t.Errorf("killed: %+v, %+v", s.Requests, s.Verdict)
	}
}

// TestSteadyPart: the plateau is found without its ramps, and the screen, all numbers and the page say so.
func TestSteadyPart(t *testing.T) {
	dir := rampDir(t)
	s := must.Have(LoadPart(dir, Part{Steady: 0.2}))(t)
	if w := s.Window; w == nil || w.FromS < 20 || w.FromS > 22 || w.ToS < 80 || w.ToS > 82 || w.Level != 20 {
		t.Fatalf("window %+v, want 22 to 80 s", w)
	}
	s.Price(72)
	var screen, full, page strings.Builder
	o := PrintOptions{Width: 80, Dir: dir, Steps: []metrics.Step{{FromS: 0, ToS: 10, StepLatencies: metrics.StepLatencies{TTFTP99: new(1.0)}}, {FromS: 30, ToS: 40, StepLatencies: metrics.StepLatencies{TTFTP99: new(2.0)}}, {FromS: 40, ToS: 50, StepLatencies: metrics.StepLatencies{TTFTP99: new(2.0)}}}}
	must.Do(t, Screen(&screen, s, o))
	must.Do(t, Print(&full, s, o))
	must.Do(t, HTML(&page, dir, s))
	for _, want := range []string{"of 100 s\n", "steady", "in flight   within 20 % of the median 20", "per 1M output tok", "72 an hour for all servers", "J/token", " --from 2"} {
		expect.Contains(t, screen.String(), want, "the screen")
	}
	for i, line := range strings.Split(screen.String(), "\n") {
		if n := len([]rune(line)); n > 80 && !strings.Contains(line, dir) || i > 20 {
			t.Errorf("line %d has %d columns: %s", i, n, line)
		}
	}
	for _, want := range []string{"run_s 100", "band_share 20 %", "price_per_hour 72", "j_per_token", "power_w.mean"} {
		expect.Contains(t, strings.Join(strings.Fields(full.String()), " "), want, "--full")
	}
	for _, want := range []string{"not counted", "of 100 s", "cost of 1M tokens", "J/token"} {
		expect.Contains(t, page.String(), want, "the page")
	}
	p := must.Have(picturesOf(dir, s))(t)
	if n := p.values[metrics.TTFT].TotalCount(); n != s.TTFTMS.Count || p.seen != n || len(p.all) == 0 || p.all[0].Requests == 0 {
		t.Errorf("pictures of single requests have %d of %d, by time %d steps", n, s.TTFTMS.Count, len(p.all))
	}
	b := must.Have(json.Marshal(s.Window))(t)
	expect.Contains(t, string(b), `"band_share":0.2`, "window in JSON")
}
