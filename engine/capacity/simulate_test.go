package capacity

import (
	"cmp"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// simulation is of one model: it runs probes and counts what they take.
type simulation struct {
	model      *model
	objectives []Objective
	seed       uint64
	failing    float64 // load above which every third request fails; 0 = none
	client     float64 // load from which the client is the bottleneck; 0 = none
}

const (
	startS = 5.0  // what a probe takes besides
	warmS  = 60.0 // not counted
)

func (s *simulation) beyond(o *Objective, r *request) bool {
	switch o.Metric {
	case "ttft":
		return r.ttft*1e9 >= float64(o.LimitNS)
	case "tpot":
		return r.tpot*1e9 >= float64(o.LimitNS)
	}
	return math.IsInf(r.ttft, 1)
}

// window simulates a window of a probe, all of it.
func (s *simulation) window(number int, load, seconds float64) []request {
	rng := rand.New(rand.NewPCG(s.seed, uint64(number)))
	all := s.model.arrivals(s.model, rng, load, warmS+seconds)
	serve := s.model.serve
	if s.model.serveAt != nil {
		serve = s.model.serveAt(load)
	}
	serve(rng, all)
	for i := 0; s.failing > 0 && load > s.failing && i < len(all); i += 3 {
		all[i].ttft = math.Inf(1)
	}
	return all
}

const slicesEach = 60

// probe runs a probe, with peeks after each slice.
func (s *simulation) probe(search *Search, p Probe) Outcome {
	seconds, _ := search.Window(p)
	all := s.window(p.Number, p.Load, seconds)
	sliceS := seconds / slicesEach
	for peek := range s.peeks(all, sliceS, seconds) {
		if d := search.Peek(p, peek); d.End {
			spent := startS + warmS + float64(len(peek.Slices))*sliceS
			o := Outcome{Probe: p, Slices: peek.Slices, SliceS: sliceS, Verdict: d.Verdict, Cut: !peek.Ended, Why: d.Why, SpentS: spent}
			if s.client > 0 && p.Load >= s.client {
				o.Client = "slow"
			}
			return o
		}
	}
	panic("a window that is over does not end")
}

// peeks yields what is known after each slice of a window.
func (s *simulation) peeks(all []request, sliceS, windowS float64) iter.Seq[Peek] {
	return func(yield func(Peek) bool) {
		n := int(math.Round(windowS / sliceS))
		peek := Peek{SliceS: sliceS, WindowS: windowS, Slices: make([]Slice, n)}
		planned, decided := make([][]*request, n), make([][]*request, n)
		inFlight, level := make([]float64, n+1), 0.0 // changes in each slice, and what the warm-in left
		within := func(at float64) int { return int(max(0, min(float64(n), (at-warmS)/sliceS))) }
		for i := range all {
			r := &all[i]
			for i, at := range []float64{r.at, r.done} {
				if change := 1 - 2*float64(i); at < warmS {
					level += change
				} else {
					inFlight[within(at)] += change
				}
			}
			if k := within(r.at); r.at >= warmS && k < n {
				known := r.done
				for j := range s.objectives {
					if o := &s.objectives[j]; o.Metric == "ttft" && s.beyond(o, r) {
						known = min(known, r.at+float64(o.LimitNS)/1e9)
					}
				}
				planned[k] = append(planned[k], r)
				if known = max(known, r.at); within(known) < n {
					decided[within(known)] = append(decided[within(known)], r)
				} else {
					decided[n-1] = append(decided[n-1], r)
				}
			}
		}
		for k := range n {
			slice := &peek.Slices[k]
			slice.Open = int64(len(planned[k]))
			slice.InFlight = level + inFlight[k]/2
			level += inFlight[k]
			slice.Beyond = make([]int64, len(s.objectives))
			for _, r := range decided[k] {
				of := &peek.Slices[within(r.at)]
				of.Open--
				of.Requests++
				if r.tpot > 0 && !math.IsInf(r.tpot, 0) {
					of.TPOTMS += 1e3 * r.tpot
					of.Timed++
				}
				for j := range s.objectives {
					if s.beyond(&s.objectives[j], r) {
						of.Beyond[j]++
					}
				}
			}
			now := peek
			now.Slices, now.Ended = peek.Slices[:k+1], k == n-1
			if !yield(now) {
				return
			}
		}
	}
}

// search runs a whole search.
func (s *simulation) search(t testing.TB, c Config) *Search {
	c.Objectives, c.WindowS, c.BesidesS = s.objectives, cmp.Or(c.WindowS, 600), startS+warmS
	search := must.Have(New(c))(t)
	for p, more := search.Next(); more; p, more = search.Next() {
		search.Add(s.probe(search, p))
	}
	return search
}
