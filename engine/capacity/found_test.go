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

// loadsOf are outcomes of loads that a test describes.
type loadOf struct {
	load     float64
	verdict  string
	requests int64
	late     float64 // share of the requests that is beyond the objective
	failed   float64 // share of them
	tokens   float64 // in a s
	behind   bool
	client   string
	confirm  bool
}

func outcomesOf(all []loadOf) (outcomes []Outcome) {
	for _, l := range all {
		o := Outcome{
			Probe: Probe{Number: len(outcomes) + 1, Load: l.load, Confirm: l.confirm}, Verdict: l.verdict, Requests: l.requests,
			Of: []int64{l.requests}, Beyond: []float64{max(l.late, l.failed)}, FallsBehind: l.behind, Client: l.client,
			Numbers: map[string]float64{requestsPerS: 1, tokensPerS: l.tokens, ErrorRate: l.failed, "ttft.p95": 40},
		}
		switch {
		case l.failed > 0:
			o.Limiter, o.FailedBy = failures, `all by HTTP 503 "busy"`
		case l.late > 0.05:
			o.Limiter = "TTFT"
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// TestHeadline: the title says first what held and then what was missed, never more than was measured, and what load
// cannot explain.
func TestHeadline(t *testing.T) {
	held := func(load float64) loadOf {
		return loadOf{load: load, verdict: Holds, requests: 500, tokens: 100 * load}
	}
	missed := func(load float64) loadOf { return loadOf{load: load, verdict: Breaks, requests: 500, late: 0.4} }
	unsure := func(load float64) loadOf { return loadOf{load: load, verdict: Unsure, requests: 500} }
	maybe := func(load float64) loadOf { return loadOf{load: load, verdict: Unsure, requests: 190, late: 0.16} }
	all := func(load float64) loadOf { return loadOf{load: load, verdict: Breaks, requests: 500, late: 1} }
	confirmed := func(l loadOf) loadOf { l.confirm = true; return l }
	few := func(load float64, n int64) loadOf { return loadOf{load: load, verdict: Holds, requests: n} }
	failed := func(load, share float64) loadOf {
		return loadOf{load: load, verdict: Breaks, requests: 300, failed: share, tokens: 10}
	}
	client := loadOf{load: 7, verdict: Breaks, client: "the client lacked CPU time"}
	for _, c := range []struct {
		kind  string // amplify, rate, concurrency or instances, and free without objectives
		loads []loadOf
		want  string
	}{
		// what a search found
		{"amplify", []loadOf{held(1), missed(2), held(1.5), maybe(1.75)}, "Held up to 1.5 × the recorded load; missed TTFT p95 < 300 ms at 1.75 × and above"},
		{"amplify", []loadOf{maybe(1), missed(2), maybe(0.5), held(0.8), held(0.8), held(0.9), confirmed(held(0.6))}, "Held up to 0.9 × the recorded load; missed TTFT p95 < 300 ms at 0.5, 1 × and above"},
		{"amplify", []loadOf{held(1), missed(2), held(1.5), confirmed(missed(1.4))}, "Held at 1 × the recorded load; probes from 1.4 to 1.5 × contradict each other"},
		{"amplify", []loadOf{held(1), held(2), confirmed(held(2))}, "Held TTFT p95 < 300 ms up to 2 × the recorded load, the hardest load tried"},
		{"amplify", []loadOf{held(1)}, "Held TTFT p95 < 300 ms at 1 × the recorded load, the only load tried"},
		{"amplify", []loadOf{missed(1), missed(0.5), few(0.25, 43)}, "Missed TTFT p95 < 300 ms at 0.5 × the recorded load and above; no objective was missed at 0.25 ×, in only 43 requests"},
		{"amplify", []loadOf{missed(0.5), few(0.25, 43), few(0.25, 45)}, "Held at 0.25 × the recorded load; missed TTFT p95 < 300 ms at 0.5 ×"},
		{"amplify", []loadOf{missed(1), missed(0.5)}, "Missed TTFT p95 < 300 ms at every load from 0.5 to 1 × the recorded load"},
		{"amplify", []loadOf{few(1, 5), few(8, 41), confirmed(unsure(8))}, "Too little was seen to tell whether 8 × the recorded load holds"},
		{"amplify", []loadOf{few(1, 5), few(8, 41)}, "Too few requests to tell: at most 41 a load, and 59 would do; no objective was missed"},
		{"amplify", []loadOf{held(1), held(8), confirmed(unsure(8))}, "Held TTFT p95 < 300 ms at 1 × the recorded load; too little is known of 8 ×"},
		{"amplify", nil, "Nothing was measured"},
		// every request is late though the servers keep pace, and though they do not
		{"amplify", []loadOf{all(1), all(0.5)}, "Every request exceeded a TTFT of 300 ms at every load from 0.5 to 1 × the recorded load: load is hardly the cause"},
		{"amplify", []loadOf{all(1), {load: 0.5, verdict: Breaks, requests: 500, late: 1, behind: true}}, "Every request exceeded a TTFT of 300 ms at every load from 0.5 to 1 × the recorded load"},
		{"concurrency", []loadOf{all(8), all(4)}, "Every request exceeded a TTFT of 300 ms at every load from 4 to 8 requests in flight"},
		{"concurrency", []loadOf{all(1)}, "Every request exceeded a TTFT of 300 ms at 1 requests in flight: load is hardly the cause"},
		// failures: overload fails twice as many of twice the load, so 10 % of each is no overload, and 99 % may be
		{"rate", []loadOf{failed(10, 1), failed(20, 1)}, "Every request failed at every load from 10 to 20 requests/s, all by HTTP 503: load is hardly the cause"},
		{"rate", []loadOf{failed(10, 0.1), failed(20, 0.116)}, "10 to 11.6 % of the requests failed at every load from 10 to 20 requests/s, all by HTTP 503: load is hardly the cause"},
		{"rate", []loadOf{failed(10, 0.1), failed(12, 0.116)}, "10 to 11.6 % of the requests failed at every load from 10 to 12 requests/s, all by HTTP 503"},
		{"rate", []loadOf{failed(10, 0.99), failed(20, 0.99)}, "99 % of the requests failed at every load from 10 to 20 requests/s, all by HTTP 503"},
		{"rate", []loadOf{held(10), failed(20, 0.5), failed(40, 0.75)}, "Held at 10 requests/s; 50 to 75 % of the requests failed at 20 and above, all by HTTP 503"},
		// loads that were given
		{"rate", []loadOf{held(5), missed(10), held(20)}, "Held at 5 requests/s; probes from 10 to 20 contradict each other"},
		{"rate", []loadOf{missed(10), held(20), missed(30)}, "Probes contradict each other: missed TTFT p95 < 300 ms at 10, 30 requests/s, yet held at 20 requests/s"},
		{"rate", []loadOf{held(5), missed(5)}, "Missed TTFT p95 < 300 ms at 5 requests/s"},
		{"rate", []loadOf{held(5), client, held(8), unsure(9), missed(10)}, "Held up to 8 requests/s; missed TTFT p95 < 300 ms at 10"},
		{"rate", []loadOf{held(5), unsure(9)}, "Held TTFT p95 < 300 ms at 5 requests/s; too little is known of 9"},
		{"rate", []loadOf{client}, "The client was the bottleneck at 7 requests/s: nothing is known of the servers"},
		{"instances", []loadOf{held(4), held(2), missed(1)}, "Held down to 2 instances; missed TTFT p95 < 300 ms at 1"},
		{"instances", []loadOf{held(4), missed(2), missed(1)}, "Held at 4 instances; missed TTFT p95 < 300 ms at 2 and below"},
		{"instances", []loadOf{held(4), held(2)}, "Held TTFT p95 < 300 ms down to 2 instances, the hardest load tried"},
		// without objectives
		{"free rate", []loadOf{held(20), held(40)}, "The servers kept pace up to 40 requests/s, the hardest load tried; TTFT p95 40.0 ms"},
		{"free rate", []loadOf{held(40), {load: 60, requests: 500, tokens: 1128, behind: true}, {load: 80, requests: 500, tokens: 1100, behind: true}}, "The servers kept pace at 40 requests/s; they fell behind at 60 and above"},
		{"free rate", []loadOf{{load: 60, requests: 500, behind: true}, {load: 80, requests: 500, behind: true}}, "The servers fell behind at every load from 60 to 80 requests/s"},
		{"free concurrency", []loadOf{held(1), held(2), held(4)}, "Throughput grew to 400 output tokens/s at 4 requests in flight, the hardest load tried; TTFT p95 40.0 ms"},
		{"free concurrency", []loadOf{held(1), held(8), {load: 16, requests: 500, tokens: 820}}, "Throughput stopped growing at 8 requests in flight, with 800 output tokens/s; tried up to 16"},
		{"free concurrency", []loadOf{held(2), held(4), failed(8, 0.988), failed(16, 0.988)}, "Throughput grew to 400 output tokens/s at 4 requests in flight; 98.8 % of the requests failed at 8 and above, all by HTTP 503"},
		{"free concurrency", []loadOf{few(1, 8), few(3, 9)}, "Too few requests to tell: 8 to 9 requests at every load from 1 to 3 requests in flight"},
	} {
		p := pageOf(t, c.kind, c.loads)
		if got := p.Headline(); got != c.want {
			t.Errorf("%s %+v:\n%s\nwant\n%s", c.kind, c.loads, got, c.want)
		}
		if n := len(strings.Fields(p.Headline())); n > 26 {
			t.Errorf("%d words: %s", n, p.Headline())
		}
	}
}

// pageOf is a page of loads of a kind, with an objective unless that is free.
func pageOf(t *testing.T, kind string, loads []loadOf) *Page {
	number := func(load float64) string { return strconv.FormatFloat(load, 'g', 4, 64) }
	p := &Page{Outcomes: outcomesOf(loads), Number: number}
	kind, free := strings.CutPrefix(kind, "free ")
	p.Sweep = free
	if !free {
		p.Objectives = objectivesOf(t, "ttft.p95<300ms")
	}
	p.Unit = map[string]string{"amplify": "× the recorded load", "rate": "requests/s", "concurrency": "requests in flight", "instances": "instances"}[kind]
	p.Whole = kind == "concurrency" || kind == "instances"
	p.Falling = kind == "instances"
	p.Load = func(load float64) string { return number(load) + " " + p.Unit }
	return p
}

// TestConfidence: a load that held in a probe, and lies beyond the easy end of the interval, is not said to hold surely.
func TestConfidence(t *testing.T) {
	for low, want := range map[float64]string{
		0.3499: "Held at 0.4 × the recorded load, 0.34 × with 95 % confidence; missed TTFT p95 < 300 ms at 1.6 ×",
		0.35:   "Held at 0.4 × the recorded load, 0.35 × with 95 % confidence; missed TTFT p95 < 300 ms at 1.6 ×",
		0.4:    "Held at 0.4 × the recorded load; missed TTFT p95 < 300 ms at 1.6 ×",
		0.5:    "Held at 0.4 × the recorded load; missed TTFT p95 < 300 ms at 1.6 ×",
	} {
		p := pageOf(t, "amplify", []loadOf{{load: 0.4, verdict: Holds, requests: 500}, {load: 1.6, verdict: Breaks, requests: 500, late: 1}})
		p.Answer = Answer{Load: 0.5, Low: low, High: new(1.35)}
		expect.Equal(t, p.Headline(), want)
	}
	p := pageOf(t, "instances", []loadOf{{load: 2, verdict: Holds, requests: 500}, {load: 1, verdict: Breaks, requests: 500, late: 1}})
	p.Answer = Answer{Load: 2, Low: 2, High: new(3.0)}
	expect.Equal(t, p.Headline(), "Held at 2 instances, 3 with 95 % confidence; missed TTFT p95 < 300 ms at 1")
}

// TestSure: the estimate stands behind the title, and only between what held and what was missed. The interval ends at
// what was missed.
func TestSure(t *testing.T) {
	p := pageOf(t, "amplify", []loadOf{{load: 0.8, verdict: Holds, requests: 500}, {load: 1.6, verdict: Breaks, requests: 500, late: 1}})
	p.Answer = Answer{Load: 1.2345, Low: 0.551, High: new(1.35), HeldS: 21.3, HeldAt: 0.551, Probes: 10, SpentS: 109}
	expect.Equal(t, p.Sure(), "Estimate 1.2; 95 % interval 0.55 to 1.4 ×; held for 21.3 s at 0.551 ×, and not tried for longer; 10 probes; 109 s")
	*p.Answer.High = 1.9
	p.Answer.Load = 1.61 // beside what was missed
	expect.Equal(t, p.Sure(), "95 % interval 0.55 to 1.6 ×; held for 21.3 s at 0.551 ×, and not tried for longer; 10 probes; 109 s")
	expect.Equal(t, p.Headline(), "Held at 0.8 × the recorded load, 0.55 × with 95 % confidence; missed TTFT p95 < 300 ms at 1.6 ×")
	expect.Equal(t, len(p.spans()), 1)
	expect.Equal(t, p.spans()[0].To, 1.6)
	p.Outcomes = append(p.Outcomes, outcomesOf([]loadOf{{load: 1.4, verdict: Holds, requests: 500, behind: true}})...)
	expect.Equal(t, p.spans()[0].To, 1.4)
	p.Answer = Answer{Load: 0.8, Low: 0.8, Probes: 1, SpentS: 9}
	expect.Equal(t, p.Sure(), "No longer probe confirmed what held; 1 probe; 9.00 s")
}

// TestCautions: what makes a title less sure stands below it, once.
func TestCautions(t *testing.T) {
	p := pageOf(t, "free rate", []loadOf{{load: 1, requests: 8, tokens: 5}, {load: 2, requests: 60, tokens: 5}, {load: 4, requests: 300, failed: 0.004}})
	expect.Equal(t, strings.Join(p.Cautions(), "|"), "0.4 % of the requests failed at 4 requests/s, all by HTTP 503.|"+
		"Only 8 to 60 requests at 1, 2 requests/s: another run may give quite other numbers.")
	p = pageOf(t, "free rate", []loadOf{{load: 4, requests: 300, behind: true}})
	expect.Equal(t, strings.Join(p.Cautions(), "|"), // the title says where
		"The servers fell behind: requests in flight became more and more, and fewer ended than were sent.")
	p = pageOf(t, "rate", []loadOf{{load: 4, verdict: Holds, requests: 300, behind: true}, {load: 8, verdict: Breaks, requests: 300, late: 1, behind: true}})
	expect.Equal(t, strings.Join(p.Cautions(), "|"),
		"The servers fell behind at 4 requests/s: requests in flight became more and more, and fewer ended than were sent.")
	both := pageOf(t, "rate", []loadOf{{load: 4, verdict: Holds, requests: 300}, {load: 4, verdict: Breaks, requests: 300, late: 1}})
	expect.Equal(t, len(both.Cautions()), 0) // as near the edge
	both.Sweep = true
	expect.Equal(t, strings.Join(both.Cautions(), "|"), "That probes contradict each other is chance, or longer probes saw more, or the servers changed meanwhile.")
	below := pageOf(t, "rate", []loadOf{{load: 4, verdict: Holds, requests: 300}, {load: 4, verdict: Breaks, requests: 300, late: 1}, {load: 8, verdict: Holds, requests: 300}, {load: 16, verdict: Holds, requests: 300}})
	below.Sweep = true
	expect.Equal(t, below.Headline(), "Held TTFT p95 < 300 ms up to 16 requests/s; probes at 4 contradict each other")
	expect.Equal(t, len(below.Cautions()), 1)
	above := pageOf(t, "rate", []loadOf{{load: 2, verdict: Holds, requests: 300}, {load: 4, verdict: Breaks, requests: 300, late: 1}, {load: 8, verdict: Holds, requests: 300}})
	expect.Equal(t, strings.Join(above.Cautions(), "|"),
		"Missed TTFT p95 < 300 ms at 4 requests/s, yet held at 8 requests/s: that is chance, or longer probes saw more, or the servers changed meanwhile.")
	late := pageOf(t, "rate", []loadOf{{load: 4, verdict: Holds, requests: 300}, {load: 8, verdict: Breaks, client: "the client lacked CPU time"}})
	p.Outcomes[1].Limited = "caches were warm"
	expect.Equal(t, p.Cautions()[1], "In probe 2 caches were warm.")
	p.Outcomes[1].Limited = ""
	expect.Equal(t, strings.Join(late.Cautions(), "|"), "The client was the bottleneck at 8 requests/s: the client lacked CPU time.")
	for i := range p.Outcomes { // none was measured, and there is the same to say of both
		o := &p.Outcomes[i]
		o.Numbers, o.FallsBehind, o.Directory = nil, false, "probe-0"+strconv.Itoa(i+1)
		o.Why = "None came: see " + o.Directory + "."
	}
	expect.Equal(t, strings.Join(p.Cautions(), "|"), "At 4 requests/s: None came: see probe-01.|At 8 requests/s: None came: see probe-02.")
}

// TestNothingMeasured: a page of nothing says so and why, and draws nothing.
func TestNothingMeasured(t *testing.T) {
	p := pageOf(t, "free rate", []loadOf{{load: 4}})
	p.Outcomes[0].Numbers, p.Outcomes[0].Why = nil, noRequest("")
	var page bytes.Buffer
	must.Do(t, p.Write(&page))
	_, data, _ := strings.Cut(page.String(), `id="data">`)
	expect.Equal(t, p.Headline(), "Nothing was measured: no request fell into the window")
	expect.Contains(t, data, "At 4 requests/s: No request fell into the window: a longer trace", data)
	expect.Lacks(t, data, `"graphs"`, "there is nothing to draw")
}

// TestGraphsOfProbes: failures of most requests are red though nothing bounds them, probes of one load have no line
// through them.
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
	expect.Equal(t, p.Headline(), "98.8 to 100 % of the requests failed at every load from 1 u to 2 u, all by HTTP 503")
	expect.Equal(t, p.Cautions()[0], `At 1 u: 593 of 600 failed, all by HTTP 503, and none was left for the window: see what the servers answer, in probe-01.`)
	head, rows := p.Table()
	expect.Equal(t, rows[0][slices.Index(head, "failed")], "98.83 %")
	o := Outcome{Why: noRequest("")}
	o.NoteFailures(&metrics.Summary{Requests: metrics.Requests{Planned: 600, Failed: 1, Failures: []metrics.Failure{{Count: 1}}}})
	expect.Equal(t, o.Why, noRequest(""))
}
