package collect

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// naiveLatencies are the latencies of a line of requests.jsonl in ns, read by
// encoding/json and computed from its instants. What is not there is absent.
func naiveLatencies(t *testing.T, r *record.Record) map[string]float64 {
	t.Helper()
	var l struct {
		Planned    *float64 `json:"planned_ns"`
		Sent       *float64 `json:"sent_ns"`
		First      *float64 `json:"first_token_ns"`
		Output     *float64 `json:"first_output_ns"`
		Last       *float64 `json:"last_token_ns"`
		Completion *float64 `json:"completion_tokens"`
		Chunks     int64    `json:"chunks"`
	}
	must.Do(t, json.Unmarshal(r.AppendJSON(nil), &l))
	ns := map[string]float64{}
	put := func(name string, from, to *float64) {
		if from != nil && to != nil {
			ns[name] = *to - *from
		}
	}
	put("ttft", l.Sent, l.First)
	put("ttft_planned", l.Planned, l.First)
	put("ttfo", l.Sent, l.Output)
	put("e2e", l.Sent, l.Last)
	put("e2e_planned", l.Planned, l.Last)
	if l.First != nil && l.Last != nil && l.Completion != nil && *l.Completion > 1 && l.Chunks != 1 {
		ns["tpot"] = math.Round((*l.Last - *l.First) / (*l.Completion - 1))
	}
	return ns
}

// naiveGoodput counts what the target (-2: any) made of limits in ns.
func naiveGoodput(all []measured, has []map[string]float64, target int, limits map[string]float64, seconds float64) *metrics.Goodput {
	g := &metrics.Goodput{Missed: map[string]int64{}, Unmeasured: map[string]int64{}}
	for name := range limits {
		g.Missed[name], g.Unmeasured[name] = 0, 0
	}
	requests := 0
	for i := range all {
		if target != -2 && all[i].target != target {
			continue
		}
		requests++
		if all[i].r.Outcome.String() != "ok" {
			g.Failed++
			continue
		}
		good := true
		for name, limit := range limits {
			ns, ok := has[i][name]
			most, known := ns, ok
			if r := &all[i].r; name == "tpot" && !ok && r.AtOnce() { // had its tokens taken all of E2E
				choices := max(1, r.Choices)
				most, known = has[i]["e2e"]
				most = math.Floor(most * float64(choices) / float64(r.CompletionTokens-choices))
			}
			if known && most <= limit {
				continue
			}
			if !ok {
				g.Unmeasured[name]++
			}
			g.Missed[name]++
			good = false
		}
		if good {
			g.Requests++
		}
	}
	share := float64(g.Requests) / float64(requests)
	g.Share, g.RequestsPerS = &share, float64(g.Requests)/seconds
	return g
}

// holed is a workload in which records lack more than workload's do.
func holed(seed uint64) []measured {
	all := workload(seed, 700, 3)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range all {
		r := &all[i].r
		switch rng.IntN(12) {
		case 0:
			r.CompletionTokens = rng.Int64N(3) // one token has no TPOT
		case 1:
			r.CompletionTokens = record.None
		case 2:
			r.LastTokenNS = record.None
		case 3:
			r.PlannedNS = record.None
		}
	}
	return all
}

// TestGoodputAgainstOracle: every set of SLOs, with bounds that are the very
// values of some requests, for the run and for each target.
func TestGoodputAgainstOracle(t *testing.T) {
	const seconds = 7.5
	names := []string{"ttft", "ttft_planned", "ttfo", "tpot", "e2e", "e2e_planned"}
	covered := map[string]int64{}
	all := holed(3)
	has := make([]map[string]float64, len(all))
	for i := range all {
		has[i] = naiveLatencies(t, &all[i].r)
	}
	for set := 1; set < 1<<len(names); set++ {
		limits, list, own := map[string]float64{}, []string{}, map[string]float64{}
		for k, name := range names {
			if set>>k&1 == 1 {
				limits[name] = someValue(all, has, name, set)
				own[name+"_ms"] = limits[name] / 1e6
				list = append(list, fmt.Sprintf("%s:%.6f", name, limits[name]/1e6))
			}
		}
		c := NewCollector(urls(3), parsed(t, strings.Join(list, " "))...)
		for i := range all {
			c.Add(&all[i].r, all[i].target)
		}
		s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: int64(len(all))}, Run: metrics.Run{DurationS: seconds}}, Probed{})
		want := naiveGoodput(all, has, -2, limits, seconds)
		want.SLO = own
		equal(t, strings.Join(list, " "), s.Goodput, want)
		for i := range s.Targets {
			equal(t, fmt.Sprint(list, " target ", i), s.Targets[i].Goodput, naiveGoodput(all, has, i, limits, seconds))
		}
		if want.Requests == 0 || want.Failed == 0 {
			t.Fatalf("%v covers too little: %+v", list, want)
		}
		for name := range limits {
			covered[name] += want.Unmeasured[name]
			if want.Missed[name] == want.Unmeasured[name] {
				t.Fatalf("%v: none was too slow for %s", list, name)
			}
		}
	}
	for _, name := range names {
		if covered[name] == 0 {
			t.Errorf("no request lacked %s", name)
		}
	}
}

// someValue is a high value that some OK request has, in ns.
func someValue(all []measured, has []map[string]float64, name string, seed int) float64 {
	var values []float64
	for i := range all {
		if v, ok := has[i][name]; ok && all[i].r.Outcome == record.OK && v > 0 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values[len(values)*(70+seed%20)/100]
}

// TestGoodputOfNothing: no requests have no share, and no SLO no goodput.
func TestGoodputOfNothing(t *testing.T) {
	g := NewCollector(urls(1), parsed(t, "ttft:1")...).Summary(metrics.Summary{}, Probed{}).Goodput
	if g == nil || g.Share != nil || g.Requests != 0 || g.RequestsPerS != 0 {
		t.Errorf("of no requests: %s", dump(g))
	}
	if text := dump(collect(workload(1, 100, 1), urls(1)).Summary(metrics.Summary{}, Probed{})); strings.Contains(text, "goodput") {
		t.Error("goodput without an SLO")
	}
}

// TestGoodputOfPlanned: the share is of what was planned, also where that is
// more than there are records.
func TestGoodputOfPlanned(t *testing.T) {
	c := NewCollector(urls(1), parsed(t, "ttft:1")...)
	c.Add(answered(), 0)
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 4}, Run: metrics.Run{DurationS: 2}}, Probed{})
	if *s.Goodput.Share != 0.25 || s.Goodput.RequestsPerS != 0.5 || *s.Targets[0].Goodput.Share != 1 {
		t.Errorf("got %s and %s", dump(s.Goodput), dump(s.Targets[0].Goodput))
	}
}

// parsed are the SLOs of a list.
func parsed(t testing.TB, lists ...string) []metrics.SLO {
	t.Helper()
	slos := must.Have(metrics.ParseSLOs(lists...))(t)
	return slos
}
