package collect

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// windowed is the summary of a window of requests that end at runS.
func windowed(list []timed, w *metrics.Window) *metrics.Summary {
	c := NewCollector([]string{"http://a", "http://b"}, metrics.SLO{Latency: metrics.TTFT, LimitNS: 100 * ms})
	c.Within(w)
	for _, x := range list {
		c.Add(x.r, x.target)
	}
	return c.Summary(metrics.Summary{Run: metrics.Run{DurationS: 1}}, Probed{})
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
			w := &metrics.Window{FromS: cuts[i], ToS: cuts[i+1], RunS: runS}
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
				want[1] += is(in(r.FirstTokenNS, from, to, last)) * float64(known(metrics.PromptTokens(r)))
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
			must.Equal(t, alone.Requests.OK+alone.Requests.Failed+alone.Requests.Stopped, int64(len(inside)), "requests that the oracle counted: %+v", alone.Requests)
			alone.Outages, got.Outages, alone.Window, alone.UnderLoad = nil, nil, w, got.UnderLoad // outages are in the next test
			alone.Run, alone.Throughput, alone.InFlight, alone.Notes, alone.Verdict = got.Run, got.Throughput, got.InFlight, got.Notes, got.Verdict
			alone.SetInteractivity() // whose users and tokens are those of all requests
			if alone.Goodput != nil {
				alone.Goodput.RequestsPerS = float64(alone.Goodput.Requests) / lengthS
				for k := range alone.Targets {
					alone.Targets[k].Goodput.RequestsPerS = float64(alone.Targets[k].Goodput.Requests) / lengthS
				}
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(alone)
			must.Equal(t, string(a), string(b), "seed %d, window %v, beside its requests alone", seed, w)
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
	got := windowed(list, &metrics.Window{FromS: 15, ToS: 40, RunS: 40})
	if len(got.Outages) != 1 || got.Outages[0].FromS != 15 || *got.Outages[0].ToS != 30 || got.Requests.Failed != 15 {
		t.Errorf("outages %+v of %+v", got.Outages, got.Requests)
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
		c.Within(&metrics.Window{FromS: fromS, ToS: fromS + 5, RunS: 10})
		for _, x := range list {
			c.Add(x.r, 0)
		}
		got := c.Summary(metrics.Summary{Run: metrics.Run{Partial: true}, Requests: metrics.Requests{Planned: 5}}, Probed{})
		expect.Equal(t, slices.ContainsFunc(got.Verdict.Reasons, func(r metrics.Reason) bool { return r.Code == "interrupted" }), want, "from %g s: interrupted: %v", fromS, got.Verdict.Reasons)
	}
}
