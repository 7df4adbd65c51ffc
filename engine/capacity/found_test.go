package capacity

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestFound: a sweep says which load holds by the first that broke, whatever held beyond it or was the client's doing.
func TestFound(t *testing.T) {
	at := func(load float64, verdict string) Outcome {
		return Outcome{Probe: Probe{Load: load}, Verdict: verdict}
	}
	spoiled := at(7, Breaks)
	spoiled.Client = "the client lacked CPU time"
	for _, c := range []struct {
		falling  bool
		outcomes []Outcome
		word     string
	}{
		{false, []Outcome{at(5, Holds), at(10, Breaks), at(20, Holds)}, "Holds at 5 u, breaks at 10 u, and held at 20 u all the same"},
		{false, []Outcome{at(30, Breaks), at(20, Holds), at(10, Breaks)}, "Breaks at 10 u, and held at 20 u all the same"},
		{false, []Outcome{at(5, Holds), at(5, Breaks)}, "Breaks at 5 u, and held at 5 u all the same"},
		{false, []Outcome{at(5, Holds), spoiled, at(8, Holds), at(9, Unsure), at(10, Breaks)}, "Holds at 8 u, unsure at 9 u, breaks at 10 u"},
		{false, []Outcome{spoiled}, "No load is known to hold"},
		{false, []Outcome{at(2, Holds), at(4, Holds)}, "Holds at 4 u, the hardest load that was measured"},
		{true, []Outcome{at(2, Holds), at(4, Holds)}, "Holds at 2 u, the hardest load that was measured"},
		{true, []Outcome{at(1, Breaks), at(2, Breaks)}, "Breaks at 2 u"},
		{false, []Outcome{at(1, Unsure), at(2, Breaks)}, "No load is known to hold, breaks at 2 u"},
		{true, []Outcome{at(1, Breaks), at(2, Holds), at(4, Holds)}, "Holds at 2 u, breaks at 1 u"},
	} {
		p := &Page{Objectives: make([]Objective, 1), Falling: c.falling, Outcomes: c.outcomes,
			Load: func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) + " u" }}
		expect.Equal(t, p.found(), c.word, "falling %v", c.falling)
	}
}

// TestHeadline: what the client limited is no throughput of the servers. What failed is told with all that a sweep finds,
// and first if it failed at each load. If nothing was measured, the page says so and why, and draws nothing.
func TestHeadline(t *testing.T) {
	at := func(load, rate float64, client string) Outcome {
		return Outcome{Probe: Probe{Load: load}, Client: client, Requests: 1000, Numbers: map[string]float64{tokensPerS: rate, requestsPerS: 1, "e2e.p50": 1}}
	}
	print := func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) + " u" }
	p := &Page{Title: "t", Outcomes: []Outcome{at(1, 500, ""), at(2, 900, "the client lacked CPU time")}, Load: print, Number: print}
	failures := func() string { words, _ := Failures(p.Outcomes, p.Load); return words }
	expect.Equal(t, p.headline(), "500 output tokens/s at 1 u, the hardest load that was measured")
	expect.Equal(t, failures(), "")
	p.Outcomes = append(p.Outcomes, at(3, 400, ""))
	expect.Equal(t, p.headline(), "Highest throughput: 500 output tokens/s at 1 u")
	expect.Equal(t, (&Page{Outcomes: p.Outcomes[:1], Load: print}).headline(), "500 output tokens/s at 1 u")
	p.Outcomes = p.Outcomes[:2]
	p.Outcomes[0].Numbers[ErrorRate], p.Outcomes[1].Numbers[ErrorRate] = 0.02, 0.08
	expect.Equal(t, failures(), "8 % of the requests failed at 2 u")
	expect.Equal(t, p.headline(), "500 output tokens/s at 1 u, the hardest load that was measured; 8 % of the requests failed at 2 u")
	p.Objectives = make([]Objective, 1)
	expect.Equal(t, p.headline(), "No load is known to hold; 8 % of the requests failed at 2 u")
	p.Outcomes[0].Numbers[ErrorRate] = 0.1
	expect.Equal(t, p.headline(), "No load is known to hold; 8 % to 10 % of the requests failed at every load")
	p.Outcomes[1].Numbers = nil
	expect.Equal(t, p.headline(), "No load is known to hold; 10 % of the requests failed at 1 u; nothing else is known of 2 u")
	expect.Equal(t, p.curves() == nil, true) // one point
	p.Sweep, p.Outcomes[0].Numbers, p.Answer.Why = true, nil, "No request fell into the window."
	var page bytes.Buffer
	must.Do(t, p.Write(&page))
	_, data, _ := strings.Cut(page.String(), `id="data">`)
	expect.Equal(t, p.headline(), "Nothing was measured")
	expect.Contains(t, data, p.Answer.Why, data)
	expect.Lacks(t, data, `"graphs"`, "there is nothing to draw")
}

// TestHeadlineOfDoubtfulLoads: loads that the servers did not keep up with come first, few requests are counted, and
// what fails alike at every load is no matter of load.
func TestHeadlineOfDoubtfulLoads(t *testing.T) {
	print := func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) }
	p := &Page{Load: func(load float64) string { return print(load) + " u" }, Number: print}
	for _, load := range []float64{1, 2, 3} {
		o := Outcome{Probe: Probe{Load: load}, SliceS: 1, Numbers: map[string]float64{tokensPerS: 100 * load, requestsPerS: 10}}
		for i := range 12 {
			o.Slices = append(o.Slices, Slice{Requests: int64(10 * load), InFlight: 5 + 10*(load-1)*float64(i)})
		}
		o.Summarize(0)
		p.Outcomes = append(p.Outcomes, o)
	}
	expect.Equal(t, p.headline(), "The servers did not keep up at 2, 3 u; 300 output tokens/s at 3 u, the hardest load that was measured")
	p.Objectives = make([]Objective, 1)
	for i, verdict := range []string{Holds, Unsure, Breaks} {
		p.Outcomes[i].Verdict = verdict
	}
	expect.Equal(t, p.headline(), "Holds at 1 u, unsure at 2 u, breaks at 3 u; the servers did not keep up at 2 u")
	p.Objectives = nil
	steady := p.Outcomes[0]
	steady.Requests = 12
	p.Outcomes = []Outcome{steady}
	expect.Equal(t, p.headline(), "100 output tokens/s at 1 u over 12 requests")
	p.Objectives = make([]Objective, 1)
	p.Outcomes = nil
	for _, load := range []float64{1, 2} {
		p.Outcomes = append(p.Outcomes, Outcome{Probe: Probe{Load: load}, Verdict: Breaks, Limiter: "failures", Numbers: map[string]float64{requestsPerS: 1, ErrorRate: 0.1}})
	}
	expect.Equal(t, p.headline(), "No load is known to hold; 10 % of the requests failed at every load")
	p.Outcomes[1].Limiter = "TTFT"
	expect.Equal(t, p.headline(), "Breaks at 1 u; 10 % of the requests failed at every load")
}

// TestGraphsOfProbes: failures of most requests are red though nothing bounds them, probes of one load have no line
// through them, and an interval is only promised if there is one.
func TestGraphsOfProbes(t *testing.T) {
	print := func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) }
	p := &Page{Sweep: true, Whole: true, Unit: "u", Load: print, Number: print}
	for i, load := range []float64{1, 16, 16} {
		p.Outcomes = append(p.Outcomes, Outcome{Probe: Probe{Load: load}, Numbers: map[string]float64{ErrorRate: 0.4 * float64(i), requestsPerS: 1}})
	}
	var failed chart.Graph
	for _, g := range p.graphs() {
		if g.Title == "Failures" {
			failed = g
		}
	}
	expect.Equal(t, len(failed.Series), 2, "series of failures")
	expect.Equal(t, failed.Series[0].Style, chart.Dots)
	expect.Equal(t, failed.Series[1].Bad, true)
	expect.Equal(t, failed.Series[1].Values[3], 0.8)
	expect.Equal(t, failed.X.Label, "u, logarithmic")
	expect.Equal(t, failed.X.Whole, true)
	expect.Equal(t, interval(p.graphs()), "")
	expect.Equal(t, interval((&Page{}).graphs()), "") // a search that was stopped at once
	p.Outcomes[0].Intervals = map[string][2]float64{ErrorRate: {0, 1}}
	expect.Equal(t, interval(p.graphs()), ", with its 95 % interval if that is known")
}

// TestAllFailed: where nearly all requests failed before the window began, the share that failed is known, and the
// advice is no longer trace.
func TestAllFailed(t *testing.T) {
	p := &Page{Sweep: true, Load: func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) + " u" }}
	for i, failed := range []int64{593, 600} {
		s := &metrics.Summary{Requests: metrics.Requests{Planned: 600, Failed: failed, Failures: []metrics.Failure{{Outcome: "http_error", Status: 503, Count: failed}}}}
		o := Outcome{Probe: Probe{Load: float64(i + 1)}, Directory: "probe-01", Why: noRequest(""), Client: "the load was another one"}
		o.NoteFailures(s)
		expect.Lacks(t, o.Why, "longer trace", "the trace is long enough")
		expect.Contains(t, o.Why, "of 600 failed, all by HTTP 503", "why")
		p.Outcomes = append(p.Outcomes, o)
	}
	p.Number = p.Load
	expect.Equal(t, p.headline(), "98.8 % to 100 % of the requests failed at every load, all by HTTP 503; nothing else was measured")
	expect.Equal(t, p.Troubles()[0], `At 1 u: 593 of 600 failed, all by HTTP 503, and none was left for the window: see what the servers answer, in probe-01.`)
	head, rows := p.Table()
	expect.Equal(t, rows[0][slices.Index(head, "failed")], "98.83 %")
	o := Outcome{Why: noRequest("")}
	o.NoteFailures(&metrics.Summary{Requests: metrics.Requests{Planned: 600, Failed: 1, Failures: []metrics.Failure{{Count: 1}}}})
	expect.Equal(t, o.Why, noRequest(""))
}
