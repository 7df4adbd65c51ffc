package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// windowed is the summary of a window of requests that end at runS.
func windowed(list []timed, w *Window) *Summary {
	c := NewCollector([]string{"http://a", "http://b"}, SLO{TTFT, 100 * ms})
	c.Within(w)
	for _, x := range list {
		c.Add(x.r, x.target)
	}
	return c.Summary(Summary{Run: Run{DurationS: 1}}, Probed{})
}

// TestWindow counts again token by token: throughput and requests in flight of all requests, the other numbers as those
// of a run with the requests planned in the window alone. Windows that follow each other add up to the run.
func TestWindow(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var list []timed
		end := int64(0)
		for range 200 {
			x := randomTimed(rng, 20*s)
			list = append(list, x)
			end = max(end, x.r.PlannedNS, x.r.SentNS, x.r.HeadersNS, x.r.LastTokenNS, x.r.DoneNS)
		}
		runS := seconds(end)
		cuts := []float64{0, runS}
		for range rng.IntN(6) {
			cuts = append(cuts, math.Round(rng.Float64()*runS*10)/10)
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		var sums [4]float64
		for i := range cuts[1:] {
			w := &Window{FromS: cuts[i], ToS: cuts[i+1], RunS: runS}
			last := i == len(cuts)-2
			from, to, lengthS := int64(math.Round(cuts[i]*1e9)), int64(math.Round(cuts[i+1]*1e9)), cuts[i+1]-cuts[i]
			got := windowed(list, w)
			var inside []timed
			var want [4]float64 // requests, prompt tokens, tokens, ns in flight
			for _, x := range list {
				r := x.r
				if in(r.PlannedNS, from, to, last) {
					inside = append(inside, x)
				}
				ended := max(r.SentNS, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS)
				if r.SentNS != record.None {
					want[3] += float64(max(0, min(to, ended)-max(from, r.SentNS)))
				}
				if r.Outcome != record.OK {
					continue
				}
				want[0] += is(in(ended, from, to, last))
				want[1] += is(in(r.FirstTokenNS, from, to, last)) * float64(known(PromptTokens(r)))
				for k := range r.CompletionTokens {
					at := r.FirstTokenNS
					if n := r.CompletionTokens - 1; n > 0 {
						at += (k*(r.LastTokenNS-r.FirstTokenNS) + n - 1) / n
					}
					want[2] += is(in(at, from, to, last))
				}
			}
			n := got.Throughput
			have := [4]float64{n.RequestsPerS * lengthS, n.InputTokensPerS * lengthS, n.OutputTokensPerS * lengthS, *got.InFlight * lengthS * 1e9}
			for k := range want {
				sums[k] += have[k]
				if math.Abs(have[k]-want[k]) > 1e-6*max(1, want[k]) {
					t.Fatalf("seed %d, %v: number %d is %v, want %v", seed, w, k, have[k], want[k])
				}
			}
			alone := windowed(inside, nil)
			if alone.Requests.OK+alone.Requests.Failed+alone.Requests.Stopped != int64(len(inside)) {
				t.Fatalf("the oracle lost requests: %+v", alone.Requests)
			}
			alone.Outages, got.Outages, alone.Window, alone.UnderLoad = nil, nil, w, got.UnderLoad // outages are in the next test
			alone.Run, alone.Throughput, alone.InFlight, alone.Notes, alone.Verdict = got.Run, got.Throughput, got.InFlight, got.Notes, got.Verdict
			if alone.Goodput != nil {
				alone.Goodput.RequestsPerS = float64(alone.Goodput.Requests) / lengthS
				for k := range alone.Targets {
					alone.Targets[k].Goodput.RequestsPerS = float64(alone.Targets[k].Goodput.Requests) / lengthS
				}
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(alone)
			if string(a) != string(b) {
				t.Fatalf("seed %d, %v: the window has\n%s\nits requests alone\n%s", seed, w, a, b)
			}
		}
		whole := windowed(list, nil)
		for k, want := range []int64{whole.Requests.OK, whole.Tokens.Prompt, whole.Tokens.Completion} {
			if math.Abs(sums[k]-float64(want)) > 1e-6*float64(want) {
				t.Errorf("seed %d: windows have %v of number %d together, the run %d", seed, sums[k], k, want)
			}
		}
	}
}

// in reports whether an instant is in a window, which has its end if it is the last.
func in(ns, from, to int64, last bool) bool { return ns >= from && (ns < to || last) }

func is(b bool) float64 { return map[bool]float64{true: 1}[b] }

// TestWindowOfAnOutage: a target that failed from the window's begin on did so from there, not from the run's start.
func TestWindowOfAnOutage(t *testing.T) {
	var list []timed
	for i := range int64(40) {
		r := sentAt(i*s, record.OK, ms)
		if i >= 10 && i < 30 {
			r = sentAt(i*s, record.Reset, ms)
		}
		list = append(list, timed{r, 0})
	}
	got := windowed(list, &Window{FromS: 15, ToS: 40, RunS: 40})
	if len(got.Outages) != 1 || got.Outages[0].FromS != 15 || *got.Outages[0].ToS != 30 || got.Requests.Failed != 15 {
		t.Errorf("outages %+v of %+v", got.Outages, got.Requests)
	}
}

// naiveSteady is the longest part of levels that is within band of its median, by its definition: longest first, then
// from the left.
func naiveSteady(levels []float64, band float64) (from, to int) {
	for n := len(levels); 10*n >= len(levels) && n > 0; n-- {
		for i := 0; i+n <= len(levels); i++ {
			part := slices.Sorted(slices.Values(levels[i : i+n]))
			median := part[n/2]
			if n%2 == 0 {
				median = (part[n/2-1] + part[n/2]) / 2
			}
			if median > 0 && !slices.ContainsFunc(part, func(v float64) bool { return v < (1-band)*median || v > (1+band)*median }) {
				return i, i + n
			}
		}
	}
	return 0, 0
}

func stepsOf(levels []float64) (steps []Step) {
	for i, level := range levels {
		steps = append(steps, Step{FromS: float64(i) / 2, ToS: float64(i+1) / 2, InFlight: level})
	}
	return steps
}

// TestFindSteady compares with all parts of random runs, and with a made one: ramp up, plateau, ramp down.
func TestFindSteady(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		levels, level := make([]float64, 1+rng.IntN(60)), 20.0
		for i := range levels {
			level = max(0, level+rng.NormFloat64()*float64(seed%5))
			levels[i] = level
		}
		band := 0.05 + 0.6*rng.Float64()
		runS := float64(len(levels))/2 - 0.2 // the last step is not whole
		from, to := naiveSteady(levels, band)
		w, err := FindSteady(stepsOf(levels), runS, band)
		if to == 0 {
			if err == nil || !strings.Contains(err.Error(), "no steady part") {
				t.Errorf("seed %d: %+v, %v, want none", seed, w, err)
			}
			continue
		}
		found++
		if err != nil || w.FromS != float64(from)/2 || w.ToS != min(runS, float64(to)/2) || w.Least != slices.Min(levels[from:to]) || w.Most != slices.Max(levels[from:to]) {
			t.Errorf("seed %d: %+v, %v, want steps %d to %d", seed, w, err, from, to)
		}
	}
	if found < 100 || found == 300 {
		t.Errorf("%d of 300 runs have a steady part: the test covers too little", found)
	}
	var levels []float64
	for i := range 100 { // 20 steps up, 50 at 40 ± 3, 30 down
		switch {
		case i < 20:
			levels = append(levels, 2*float64(i))
		case i < 70:
			levels = append(levels, 40+3*math.Sin(float64(i)))
		default:
			levels = append(levels, 40*float64(99-i)/30)
		}
	}
	twice := stepsOf([]float64{5, 5, 5, 5, 5, 9, 5, 5, 5, 5, 5})
	for i := range twice { // 1.1 − 0.6 is more than 0.5 in floating point
		twice[i].FromS, twice[i].ToS = float64(i)/10, float64(i+1)/10
	}
	if w, err := FindSteady(twice, 1.1, 0.1); err != nil || w.FromS != 0 {
		t.Errorf("of two parts of five steps: %+v, %v, want the first", w, err)
	}
	w, err := FindSteady(stepsOf(levels), 50, 0.1)
	if err != nil || w.FromS < 9 || w.FromS > 10 || w.ToS < 35 || w.ToS > 36.5 || math.Abs(w.Level-40) > 1 || w.Band != 0.1 {
		t.Errorf("plateau from 10 to 35 s, and its ramps within 36: %+v, %v", w, err)
	}
	if w, err := FindSteady(stepsOf(make([]float64, 50)), 25, 0.2); err == nil {
		t.Errorf("nothing in flight is %+v", w)
	}
}

// TestInterruptOutsideAWindow: an interrupt is a fault of windows with requests that it stopped.
func TestInterruptOutsideAWindow(t *testing.T) {
	var list []timed
	for i := range int64(10) {
		o := record.OK
		if i == 9 {
			o = record.Cancelled
		}
		list = append(list, timed{sentAt(i*s, o, ms), 0})
	}
	for fromS, want := range map[float64]bool{0: false, 5: true} {
		c := NewCollector([]string{"http://a"})
		c.Within(&Window{FromS: fromS, ToS: fromS + 5, RunS: 10})
		for _, x := range list {
			c.Add(x.r, 0)
		}
		got := c.Summary(Summary{Run: Run{Partial: true}, Requests: Requests{Planned: 5}}, Probed{})
		if has := slices.ContainsFunc(got.Verdict.Reasons, func(r Reason) bool { return r.Code == "interrupted" }); has != want {
			t.Errorf("from %g s: interrupted %v, want %v: %v", fromS, has, want, got.Verdict.Reasons)
		}
	}
}

// TestCostAndEnergy: 3600 an hour is 1 a second, and 500 W are 500 J a second.
func TestCostAndEnergy(t *testing.T) {
	s := Summary{Run: Run{DurationS: 20}, Throughput: Throughput{RequestsPerS: 4, InputTokensPerS: 2000, OutputTokensPerS: 500}}
	s.Energy = energy(&s)
	if s.Energy != nil {
		t.Errorf("energy %+v of no server", s.Energy)
	}
	s.Servers = &Servers{Servers: scrape.Servers{All: scrape.Server{PowerW: &scrape.Gauge{Mean: 500}}}}
	s.Price(3600)
	s.Energy = energy(&s)
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	expect.Equal(t, text(s.Cost), `{"price_per_hour":3600,"total":20,"per_1m_input_tokens":500,"per_1m_output_tokens":2000,"per_1m_tokens":400,"per_request":0.25}`, "cost")
	expect.Equal(t, text(s.Energy), `{"joules":10000,"j_per_token":0.2,"j_per_output_token":1,"j_per_request":125}`, "energy")
	s.Throughput = Throughput{}
	if s.Price(1); s.Cost.PerRequest != nil || s.Cost.PerMTokens != nil {
		t.Errorf("nothing came, and cost %s", fmt.Sprint(text(s.Cost)))
	}
}
