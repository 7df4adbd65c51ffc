package capacity

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestSearch: the intervals of searches with a usual budget cover the knee.
func TestSearch(t *testing.T) {
	t.Parallel()
	covered, n := 0, 0
	for _, m := range knownModels(t) {
		for seed := range uint64(4) {
			if testing.Short() && m.name != "hard edge" {
				continue // they take long
			}
			s := &simulation{model: &m, objectives: m.objectives, seed: seed}
			a := s.search(t, Config{Least: m.least, Budget: 20 * time.Minute, WindowS: 120}).Answer()
			n++
			if a.Low <= m.knee && (a.High == nil || m.knee <= *a.High) {
				covered++
			} else {
				t.Logf("%s, seed %d: %+v misses the knee at %.3f", m.name, seed, a, m.knee)
			}
			if a.SpentS > 1200+1 || a.Low > 0 && a.HeldS == 0 && !strings.Contains(a.Why, "broke in the confirmation") {
				t.Errorf("%s, seed %d: %+v spends more than the budget, or lacks a confirmation", m.name, seed, a)
			}
		}
	}
	if covered < n-1 {
		t.Errorf("%d of %d intervals cover the knee", covered, n)
	}
}

func knownModels(t *testing.T) []model {
	all := models()
	for i := range all {
		all[i].objectives = objectivesOf(t, all[i].slo)
	}
	return all
}

// TestSearchRareFailures: an objective that allows few failures costs little if there are none below the edge.
func TestSearchRareFailures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three searches of some hours of virtual time")
	}
	for _, failing := range []float64{math.Inf(1), 1.5} { // the load above which requests fail, over the knee
		m := knownModels(t)[0]
		objectives := objectivesOf(t, m.slo+" ok>=99.9%")
		plain := &simulation{model: &m, objectives: objectives[:1], seed: 1}
		alone := plain.search(t, Config{Least: m.least}).Answer()
		s := &simulation{model: &m, objectives: objectives, seed: 1, failing: failing * m.knee}
		search := s.search(t, Config{Least: m.least})
		a := search.Answer()
		if !strings.Contains(a.Why, "a factor of 1.2 from end to end") || a.Complete || a.HeldS == 0 || a.Limits != m.slo || a.SpentS > 1.2*alone.SpentS || a.Low > m.knee || *a.High < m.knee {
			t.Errorf("failures above %v: got %+v to %v, want about what it is without the objective, %+v to %v", s.failing, a, *a.High, alone, *alone.High)
		}
		first := search.outcomes[0]
		if first.Verdict != Holds || first.SpentS > startS+warmS+90 {
			t.Errorf("the first probe, at an easy load: %s after %v s", first.Verdict, first.SpentS)
		}
	}
}

// TestSearchInstances: the fewest instances that hold are found, to one more or less.
func TestSearchInstances(t *testing.T) {
	t.Parallel()
	objectives := objectivesOf(t, "ttft.p95<1s")
	for _, want := range []int{1, 4, 11} {
		if testing.Short() && want != 4 {
			continue
		}
		rate := (erlang(want-1, 0.05, 1) + erlang(want, 0.05, 1)) / 2
		for seed := range uint64(3) {
			m := model{name: "instances", rate: rate, arrivals: poissonOf(rate), serveAt: func(load float64) server { return queue(int(load), 0, exponential) }}
			s := &simulation{model: &m, objectives: objectives, seed: seed}
			a := s.search(t, Config{Least: 16, Most: 16, Whole: true, Falling: true, WindowS: 3000}).Answer()
			if !a.Complete || a.Low > float64(want) || *a.High < float64(want) || *a.High > a.Low+1 {
				t.Errorf("%v requests a second, seed %d: got %+v, want %d instances", rate, seed, a, want)
			}
		}
	}
}

// TestSearchBounds: what no probe bounds is open, and the search says why it ended.
func TestSearchBounds(t *testing.T) {
	t.Parallel()
	m := knownModels(t)[0] // its knee is at 3.01
	for name, c := range map[string]struct {
		config    Config
		rate      float64 // of the model, if it is another
		client    float64 // the load from which the client is too slow; 0 = none
		low, high float64 // bounds of the answer; high 0 = it has none
		why       string
	}{
		"holds at the most":      {Config{Least: 1, Most: 1.5}, 0, 0, 1.5, 0, "The objectives hold at 1.5, the hardest load that was to be tried."},
		"breaks at the least":    {Config{Least: 4, Whole: true}, 20, 0, 0, 1, "The objectives are missed even at 1."},
		"the client":             {Config{Least: 1}, 0, 2, 1, 0, "The client was the bottleneck at 2: slow. So the servers may carry more."},
		"the client at once":     {Config{Least: 1}, 0, 1, 0, 0, "The client was the bottleneck at 1: slow. So the servers' capacity stays unknown."},
		"the budget":             {Config{Least: 1, Budget: 200e9}, 0, 0, 0.5, 0, "65.0 s of the budget of 3.33 min are left, and another probe and a confirmation take 5.25 min; the same command goes on with a larger one."},
		"as narrow as is wanted": {Config{Least: 1, Precision: 0.3}, 0, 0, 2, 4, "The interval is as narrow as wanted."},
	} {
		m := m
		m.rate = cmp.Or(c.rate, m.rate)
		s := &simulation{model: &m, objectives: m.objectives, seed: 3, client: c.client}
		a := s.search(t, c.config).Answer()
		if a.Why != c.why || a.Low < c.low || (a.High == nil) != (c.high == 0) || a.High != nil && *a.High > c.high*1.4 || a.Complete != (c.config.Precision > 0) {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}

// TestNoneSucceeded: the easiest load at which no request succeeded bounds no capacity, as one bounds it at which most
// failed.
func TestNoneSucceeded(t *testing.T) {
	for share, bounded := range map[float64]bool{1: false, 0.9: true} {
		s := must.Have(New(Config{Objectives: objectivesOf(t, "ttft.p95<1s"), WindowS: 60, Least: 4, From: 4}))(t)
		s.Add(Outcome{
			Probe:   Probe{Number: 1, Load: 4},
			Slices:  []Slice{{Requests: 500, Beyond: []int64{int64(500 * share)}}},
			SliceS:  60,
			Verdict: Breaks,
			Numbers: map[string]float64{ErrorRate: share},
		})
		a := s.Answer()
		expect.Equal(t, a.High != nil, bounded, "%+v", a)
	}
}

// TestNothingHeld: if a fifth of the requests is late at every load of the range, where a twentieth may be, no load is
// given as a capacity, and none below the range as its lower end.
func TestNothingHeld(t *testing.T) {
	s := must.Have(New(Config{Objectives: objectivesOf(t, "ttft.p95<1s"), WindowS: 6, Least: 20, From: 20}))(t)
	for i, load := range []float64{20, 40, 30} {
		s.Add(Outcome{
			Probe:   Probe{Number: i + 1, Load: load},
			Slices:  slices.Repeat([]Slice{{Requests: 5, Beyond: []int64{1}}}, 30),
			SliceS:  0.2,
			Verdict: Unsure,
		})
	}
	a := s.Answer()
	expect.Equal(t, a.Low, 0, "%+v", a)
	expect.Equal(t, a.Load, 0, "%+v", a)
	expect.Contains(t, a.Why, "Nothing shows that the objectives hold at 20,", "why")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	some := []Objective{{Text: "ok>=99%", Metric: ok, Allowed: 0.01}}
	for _, c := range []Config{
		{Least: 1},
		{Objectives: some},
		{Objectives: some, Least: math.Inf(1)},
		{Objectives: some, Least: 2, Most: 1},
		{Objectives: some, Least: 1.5, Whole: true},
		{Objectives: some, Least: 1, Precision: 1},
		{Objectives: some, Least: 1, Precision: math.NaN()},
	} {
		expect.Refused(New(c))(t, "", "%+v: no error", c)
	}
}

// TestSweepWithoutObjectives: nothing is said to hold if nothing was asked for, and the probe can be read again.
func TestSweepWithoutObjectives(t *testing.T) {
	s := NewSweep(Config{WindowS: 10}, []float64{1})
	p, _ := s.Next()
	peek := Peek{SliceS: 10, WindowS: 10, Slices: []Slice{{Requests: 5}}}
	if d := s.Peek(p, peek); d.End {
		t.Errorf("before its end: %+v", d)
	}
	peek.Ended = true
	if d := s.Peek(p, Peek{SliceS: 10, WindowS: 10, Ended: true}); !d.End || d.Why != noRequest("") {
		t.Errorf("a trace that ended before the window: %+v", d)
	}
	d := s.Peek(p, peek)
	o := Outcome{Probe: p, Slices: peek.Slices, SliceS: 10, Verdict: d.Verdict}
	if !d.End || d.Verdict != "" || o.Validate(1, 0) != nil || o.Validate(1, 1) == nil {
		t.Errorf("%+v", d)
	}
}

// TestSweepOfFewRequests: a load holds if as many requests without a late one as tell it were measured, and not before.
func TestSweepOfFewRequests(t *testing.T) {
	for n, want := range map[int64]string{15: Unsure, 58: Unsure, 59: Holds, 600: Holds} {
		s := NewSweep(Config{Objectives: []Objective{{Text: "ttft.p95<1s", Allowed: 0.05}}, WindowS: 10}, []float64{1})
		p, _ := s.Next()
		d := s.Peek(p, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: []Slice{{Requests: n, Beyond: []int64{0}}}})
		if d.Verdict != want || want == Unsure && !strings.Contains(d.Why, ", and 59 would do") {
			t.Errorf("%d requests: %+v", n, d)
		}
	}
}

// shortSearch has windows of 10 s, and 200 s in all.
func shortSearch(t *testing.T) *Search {
	t.Helper()
	return must.Have(New(Config{Objectives: objectivesOf(t, "ttft.p95<1s"), Least: 1, Budget: 200e9, WindowS: 10}))(t)
}

// TestProbeWithoutRequests: a window into which no request fell tells nothing, not even at the end of a confirmation.
func TestProbeWithoutRequests(t *testing.T) {
	s := shortSearch(t)
	for _, confirm := range []bool{false, true} {
		d := s.Peek(Probe{Number: 1, Load: 1, Confirm: confirm}, Peek{Ended: true, SliceS: 5, WindowS: 10, Slices: []Slice{{Beyond: []int64{0}}, {Beyond: []int64{0}}}})
		if !d.End || d.Verdict != Unsure || !strings.Contains(d.Why, "a shorter --warm-in") {
			t.Errorf("confirmation %v: %+v", confirm, d)
		}
	}
}

// TestConfirmationOfFewRequests: no load is confirmed by fewer requests than tell that an objective holds.
func TestConfirmationOfFewRequests(t *testing.T) {
	for n, want := range map[int64]string{18: Unsure, 58: Unsure, 59: Holds} {
		s := shortSearch(t)
		p, all := Probe{Number: 1, Load: 1, Confirm: true}, []Slice{{Requests: n, Beyond: []int64{0}}}
		d := s.Peek(p, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: all})
		if d.Verdict != want || want == Unsure && !strings.Contains(d.Why, ", and 59 would do") {
			t.Errorf("%d requests: %+v", n, d)
		}
		s.Add(Outcome{Probe: p, Slices: all, SliceS: 10, Verdict: d.Verdict, SpentS: 20})
		if a := s.Answer(); (a.HeldS > 0) != (want == Holds) || want == Unsure && (a.Low > 0 || !strings.Contains(a.Why, "At 1 the confirmation told too little, so that bound is withdrawn")) {
			t.Errorf("%d requests: %+v", n, a)
		}
	}
}

// TestWordsOfFewRequests: after few requests a load holds so far, and a longer trace helps a search whose windows it
// ends.
func TestWordsOfFewRequests(t *testing.T) {
	objectives := objectivesOf(t, "ttft.p95<1s")
	page := &Page{Objectives: objectives, Number: func(float64) string { return "" }}
	for requests, want := range map[int64]string{58: "holds so far", 59: "holds"} {
		o := Outcome{Verdict: Holds, Slices: []Slice{{Requests: requests, Beyond: []int64{0}}}}
		o.Summarize(1)
		page.Outcomes = []Outcome{o}
		_, rows := page.Table()
		if got := rows[0][len(rows[0])-1]; got != want {
			t.Errorf("%d requests: %q, want %q", requests, got, want)
		}
	}
	s := must.Have(New(Config{Objectives: objectives, Least: 1, WindowS: 120}))(t)
	slices := make([]Slice, 60)
	for i := range slices {
		slices[i].Beyond = []int64{0}
	}
	for sliceS, want := range map[float64]string{2: "the same command goes on with a larger one", 0.5: "the trace ended before a window of 2.00 min did, so a longer trace would tell more than a larger budget"} {
		s.served = []*Outcome{{Slices: slices, SliceS: sliceS}}
		if got := s.furthers(); got != want {
			t.Errorf("slices of %v s: %q, want %q", sliceS, got, want)
		}
	}
	s.Add(Outcome{Probe: Probe{Number: 1, Load: 1}, Slices: slices, Verdict: Breaks, Numbers: map[string]float64{ErrorRate: 1}})
	expect.Equal(t, s.furthers(), "no request succeeded, so look at the server first", "a dead server")
}

// TestDoubtOfLimitedProbes: an answer whose probes measured other numbers than they say is doubted.
func TestDoubtOfLimitedProbes(t *testing.T) {
	for _, limited := range []string{"", "TTFT and TTFO may be too short, and TPOT too long"} {
		s := shortSearch(t)
		all := []Slice{{Requests: 600, Beyond: []int64{0}}}
		s.Add(Outcome{Probe: Probe{Number: 1, Load: 1}, Slices: all, SliceS: 10, Verdict: Holds, SpentS: 20, Limited: limited})
		s.Add(Outcome{Probe: Probe{Number: 2, Load: 1, Confirm: true}, Slices: all, SliceS: 10, Verdict: Holds, SpentS: 20})
		want := ""
		if limited != "" {
			want = "In probe 1 " + limited + "."
		}
		if a := s.Answer(); a.Doubt != want {
			t.Errorf("%q, want %q", a.Doubt, want)
		}
	}
}
