package collect

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// measured is one request as the oracle keeps it.
type measured struct {
	r      record.Record
	target int
	gaps   []int64
}

// workload returns n requests with every outcome and skewed latencies. Some
// lack instants, usage or cached tokens; the last target never reports any.
func workload(seed uint64, n, targets int) []measured {
	rng := rand.New(rand.NewPCG(seed, 9))
	all := make([]measured, n)
	for i := range all {
		m := &all[i]
		m.target = rng.IntN(targets)
		r := &m.r
		r.Clear()
		r.Row, r.PlannedNS = int64(i), int64(i)*1e6
		r.InputTokens, r.OutputTokens = 1+rng.Int64N(9000), 1+rng.Int64N(300)
		if rng.IntN(6) == 0 {
			r.Outcome = record.Outcome(1 + rng.IntN(record.Outcomes-1))
		} else {
			r.Outcome = record.OK
		}
		if r.Outcome == record.NotSent {
			m.target = -1
			continue
		}
		r.SentNS = r.PlannedNS + int64(math.Exp(rng.NormFloat64()*2+6)) - 20
		r.Resent = rng.Int64N(40) / 39
		if rng.IntN(8) > 0 { // the kernel stamps most
			r.DepartedNS = r.SentNS + rng.Int64N(9000)
			r.AckedNS = r.DepartedNS + rng.Int64N(90_000)
		}
		r.FirstTokenNS = r.SentNS + int64(math.Exp(rng.NormFloat64()+17))
		r.LastTokenNS = r.FirstTokenNS
		for range rng.IntN(20) {
			gap := int64(math.Exp(rng.NormFloat64()*3 + 12))
			m.gaps = append(m.gaps, gap)
			r.LastTokenNS += gap
		}
		switch i % 4 {
		case 0:
			r.FirstOutputNS = r.FirstTokenNS
		case 1, 2: // after reasoning; else nothing followed that
			r.FirstOutputNS = r.FirstTokenNS + (r.LastTokenNS-r.FirstTokenNS)/int64(1+i%5)
		}
		m.tokens(rng, m.target == targets-1)
	}
	return all
}

func (m *measured) tokens(rng *rand.Rand, silent bool) {
	r := &m.r
	r.Chunks = int64(len(m.gaps)) + 1
	r.PromptTokens = r.InputTokens + rng.Int64N(10)/9
	r.CompletionTokens, r.TokensFrom = r.OutputTokens+rng.Int64N(12)/10-rng.Int64N(12)/11, record.TokensFromUsage
	r.ExpectedCachedTokens = rng.Int64N(r.InputTokens)
	r.LeastCachedTokens, r.MostCachedTokens = r.ExpectedCachedTokens, r.ExpectedCachedTokens+rng.Int64N(3)
	r.BuiltTokens = r.InputTokens
	if !silent && rng.IntN(3) > 0 {
		r.CachedTokens = max(0, r.ExpectedCachedTokens+rng.Int64N(30)-20)
	}
	switch rng.IntN(10) {
	case 0:
		r.CompletionTokens, r.TokensFrom, r.PromptTokens = r.Chunks, record.TokensFromChunks, record.None
	case 1: // not streamed: no tokens were seen
		r.FirstTokenNS, r.Chunks, m.gaps = record.None, 0, nil
	}
}

// naive has the latencies of some requests in ns, by their names in results; below 0: of all targets.
func naive(all []measured, target int) map[string][]int64 {
	out := map[string][]int64{}
	for _, m := range all {
		if target >= 0 && m.target != target {
			continue
		}
		r := &m.r
		add := func(key string, from, to int64) {
			if from != math.MinInt64 && to != math.MinInt64 {
				out[key] = append(out[key], to-from)
			}
		}
		mean := func(key string, from int64, tokens int64) {
			out[key] = append(out[key], int64(math.Round(float64(r.LastTokenNS-from)/float64(tokens))))
		}
		add("drift_us", r.PlannedNS, r.SentNS)
		add("wire_drift_us", r.PlannedNS, r.DepartedNS)
		if r.Outcome.String() != "ok" {
			continue
		}
		add("ttft_ms", r.SentNS, r.FirstTokenNS)
		add("ttft_planned_ms", r.PlannedNS, r.FirstTokenNS)
		add("ttfo_ms", r.SentNS, r.FirstOutputNS)
		add("ttfo_planned_ms", r.PlannedNS, r.FirstOutputNS)
		add("upload_ms", r.SentNS, r.AckedNS)
		add("e2e_ms", r.SentNS, r.LastTokenNS)
		add("e2e_planned_ms", r.PlannedNS, r.LastTokenNS)
		if r.FirstTokenNS != math.MinInt64 && r.CompletionTokens > 1 && r.Chunks > 1 {
			mean("tpot_ms", r.FirstTokenNS, r.CompletionTokens-1)
		}
		if r.CompletionTokens > 0 {
			mean("ntpot_ms", r.SentNS, r.CompletionTokens)
		}
		out["itl_ms"] = append(out["itl_ms"], m.gaps...)
	}
	return out
}

// collect adds the records from one goroutine while four others add the gaps
// and one reads the drift, as in a run.
func collect(all []measured, urls []string) *Collector {
	c := NewCollector(urls)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := k; i < len(all); i += 4 {
				if all[i].r.Outcome == record.OK {
					c.AddGaps(all[i].target, all[i].gaps)
				}
			}
		})
	}
	for i := range all {
		c.Add(&all[i].r, all[i].target)
	}
	wg.Wait()
	return c
}

func urls(n int) (u []string) {
	for i := range n {
		u = append(u, fmt.Sprintf("http://127.0.0.1:%d", 8000+i))
	}
	return u
}

// TestCollectorAgainstOracle: each latency of the run and of each target is in its own place and unit.
func TestCollectorAgainstOracle(t *testing.T) {
	for seed, targets := range []int{1, 2, 5} {
		all := workload(uint64(seed), 3000, targets)
		s := planned(collect(all, urls(targets)), len(all))
		expect.Equal(t, checkLatencies(t, "all", s, naive(all, -1)), len(latencies), "latencies of the run")
		for i := range s.Targets {
			expect.Equal(t, checkLatencies(t, s.Targets[i].URL, s.Targets[i], naive(all, i)), 6, "latencies of a target")
		}
	}
}

// checkLatencies compares what part of a summary has with the percentiles of all values, and returns how many it has.
func checkLatencies(t *testing.T, name string, part any, all map[string][]int64) (n int) {
	t.Helper()
	got := mustObject(t, []byte(dump(part)))
	for key, values := range all {
		if got[key] == nil {
			continue
		}
		n++
		want, unitNS := new(stats.Distribution), 1e6
		if key == "itl_ms" {
			want = stats.NewHistogram()
		}
		if strings.HasSuffix(key, "_us") {
			unitNS = 1e3
		}
		for _, ns := range values {
			want.Add(ns)
		}
		var p *stats.Percentiles
		must.Do(t, json.Unmarshal(got[key], &p))
		equal(t, name+" "+key, p, want.Percentiles(unitNS))
	}
	return n
}

func TestAddOfOneTargetOnly(t *testing.T) {
	c := NewCollector(nil)
	var r record.Record
	r.Clear()
	c.Add(&r, -1)
	c.Add(&r, 5)
	c.AddGaps(0, []int64{1})
	s := planned(c, 2)
	if s.Requests.ByOutcome["not_sent"] != 2 || s.Requests.Failed != 2 || len(s.Targets) != 0 || s.ITLMS != nil {
		t.Errorf("got %+v", s.Requests)
	}
}

func TestCollectorAllocatesNothing(t *testing.T) {
	all := workload(1, 200, 2)
	c := NewCollector(urls(2), parsed(t, "ttft:20 ttft_planned:20 tpot:1 e2e:90 e2e_planned:90")...)
	c.Add(&record.Record{PlannedNS: 1}, 0) // early: takes its histogram once
	c.Add(&record.Record{PlannedNS: 1}, 1)
	i := 0
	allocs := testing.AllocsPerRun(1000, func() {
		m := &all[i%len(all)]
		c.Add(&m.r, m.target)
		c.AddGaps(m.target, m.gaps)
		i++
	})
	expect.Equal(t, allocs, 0, "allocations")
}

func BenchmarkAdd(b *testing.B) {
	all := workload(1, 1000, 2)
	c := NewCollector(urls(2))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Add(&all[i%1000].r, all[i%1000].target)
		i++
	}
	if s := planned(c, 0); s.Requests.OK+s.Requests.Failed != int64(i) {
		b.Fatal("wrong count")
	}
}

func BenchmarkAddGaps(b *testing.B) {
	c := NewCollector(urls(1))
	gaps := make([]int64, 256)
	for i := range gaps {
		gaps[i] = int64(i) * 100_000
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(gaps))) // MB/s reads as million gaps per second
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.AddGaps(0, gaps)
		}
	})
	if s := planned(c, 0); s.ITLMS.Max != 25.5 {
		b.Fatal("wrong maximum")
	}
}

// dump prints v for comparison.
func dump(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestCoverage: a server that stalls until the end has not covered the run, although nothing failed.
func TestCoverage(t *testing.T) {
	c := NewCollector([]string{"http://a"})
	for i := range 10 {
		r := new(record.Record)
		r.Clear()
		r.PlannedNS, r.SentNS, r.Outcome = int64(i)*1e9, int64(i)*1e9, record.OK
		r.DoneNS = r.SentNS + 5e8
		if i >= 8 {
			r.Outcome, r.DoneNS = record.Cancelled, record.None
		}
		c.Add(r, 0)
	}
	s := c.Summary(metrics.Summary{Run: metrics.Run{DurationS: 10, Cut: true}, Requests: metrics.Requests{Planned: 10}}, Probed{})
	if got := verdict.Value(s, "coverage"); got == nil || *got != 0.75 || s.Requests.Failed != 0 {
		t.Errorf("coverage %v, %d failed", got, s.Requests.Failed)
	}
}

// TestGapsOfOneInstant: chunks that all came at one instant say nothing of the time between tokens; other gaps of zero count.
func TestGapsOfOneInstant(t *testing.T) {
	c := NewCollector(urls(1))
	c.AddGaps(0, []int64{0, 0, 0})
	if q := planned(c, 0).ITLMS; q != nil {
		t.Errorf("ITL %+v, want none", q)
	}
	c.AddGaps(0, []int64{0, 6e6})
	if q := planned(c, 0).ITLMS; q == nil || q.Count != 2 || q.P50 != 0 {
		t.Errorf("ITL %+v, want 2 gaps", q)
	}
}

// planned is the summary of a run in which so many requests were planned.
func planned(c *Collector, n int) *metrics.Summary {
	return c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: int64(n)}, Limits: metrics.DefaultLimits()}, Probed{})
}
