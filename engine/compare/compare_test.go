package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// served is how a made server takes a request.
type served struct {
	ttft, tpot float64 // ms
	outcome    record.Outcome
	cached     int64
}

// write makes a directory of results: n requests of conversations of four, one each 100 ms, that a server takes as serve says.
func write(t *testing.T, n int, change func(*metrics.Summary), serve func(i int) served) string {
	t.Helper()
	dir := t.TempDir()
	c := metrics.NewCollector([]string{"http://a:1"})
	w, err := report.NewWriter(dir, report.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s := serve(i)
		var r record.Record
		r.Clear()
		r.Row, r.RequestID, r.Session, r.Target, r.Outcome = int64(i), fmt.Sprintf("run-%09d", i), int64(i%(n/4)), "http://a:1", s.outcome
		r.PlannedNS, r.InputTokens, r.OutputTokens = int64(i)*1e8, int64(1000+i%500), 51
		if s.outcome != record.NotSent {
			r.SentNS, r.DoneNS = r.PlannedNS+1000, r.PlannedNS+2000
		}
		if s.outcome == record.OK {
			r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.TokensFrom, r.Chunks = r.InputTokens, s.cached, 51, record.TokensFromUsage, 51
			r.FirstTokenNS = r.SentNS + int64(s.ttft*1e6)
			r.LastTokenNS = r.FirstTokenNS + int64(50*s.tpot*1e6)
			r.DoneNS = r.LastTokenNS
		}
		c.Add(&r, 0)
		w.Append(&r)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info := metrics.Summary{Requests: metrics.Requests{Planned: int64(n)}, Limits: metrics.DefaultLimits()}
	info.Run.DurationS, info.Run.Targets, info.Run.Options = float64(n)/10+5, []string{"http://a:1"}, map[string]any{"seed": 1.0}
	info.Workload.Fingerprint, info.Workload.Trace, info.Workload.Requests = "sha256:1", "day.jsonl", int64(n)
	if change != nil {
		change(&info)
	}
	if err := report.WriteSummary(dir, c.Summary(info, metrics.Probed{})); err != nil {
		t.Fatal(err)
	}
	return dir
}

func side(t *testing.T, dirs ...string) *Side {
	t.Helper()
	s, err := ReadSide("", dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(t *testing.T, r *Result, name string) Metric {
	t.Helper()
	i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return r.Metrics[i]
}

// noisy is a server whose requests differ much from each other, and a little from run to run.
func noisy(seed uint64, ttft float64) func(i int) served {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(i int) served {
		base := math.Exp(rand.New(rand.NewPCG(3, uint64(i))).NormFloat64())
		return served{ttft: ttft * 100 * base * math.Exp(0.1*random.NormFloat64()), tpot: 20 * math.Exp(0.1*random.NormFloat64()), cached: 500}
	}
}

// TestChange: what was made 10 % slower is found, and what was not is not.
func TestChange(t *testing.T) {
	a, b := side(t, write(t, 1200, nil, noisy(1, 1))), side(t, write(t, 1200, nil, noisy(2, 1.1)))
	r, err := Compare(a, b, nil, Options{Resamples: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Metrics {
		t.Log(m.Name, m.Verdict, m.Sentence)
	}
	t.Log(r.Notes, r.Explained, r.ClusteredBy, r.Clusters)
	if m := find(t, r, "ttft.paired"); m.Verdict != Worse || math.Abs(*m.Change-0.1) > 0.02 || !(*m.Low < 0.1 && 0.1 < *m.High) {
		t.Errorf("%+v", m)
	}
	if m := find(t, r, "tpot.paired"); m.Verdict != Same {
		t.Errorf("%+v", m)
	}
}

func TestDifferentWorkloads(t *testing.T) {
	a := side(t, write(t, 100, nil, noisy(1, 1)))
	b := side(t, write(t, 100, func(s *metrics.Summary) {
		s.Workload.Fingerprint, s.Run.Options["seed"] = "sha256:2", 2.0
	}, noisy(1, 1)))
	_, err := Compare(a, b, nil, Options{})
	var different *DifferentError
	if !errors.As(err, &different) || !slices.Equal(different.Differences, []string{"--seed: 1 and 2"}) {
		t.Fatalf("%v", err)
	}
	r, err := Compare(a, b, nil, Options{Anyway: true, Resamples: 100})
	if err != nil || r.Paired || find(t, r, "ttft.paired").Verdict != Unknown || find(t, r, "ttft.p50").Verdict != Same {
		t.Fatalf("%v %+v", err, r)
	}
	if err := os.Remove(filepath.Join(a.runs[0].dir, report.RequestsName)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSide("", a.runs[0].dir); err == nil || !strings.Contains(err.Error(), "requests.jsonl") {
		t.Error(err)
	}
}
