package capacity

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/worlds"
)

// deployed is a search over a simulated deployment of known truth.
type deployed struct {
	deployment
	seed       uint64
	from       string
	objectives []Objective
	trace      []worlds.Request
	timeline   Timeline
}

// probe is what the program does for a probe, without a server.
func (d *deployed) probe(search *Search, p Probe) Outcome {
	lastsS := float64(d.timeline[len(d.timeline)-1]) / 1e9 / p.Load
	forS, settleS := search.Window(p)
	warmInS := min(30, lastsS/5) + settleS
	forS = min(forS, lastsS-warmInS)
	leadNS := int64(warmInS * p.Load * 1e9)
	part := d.timeline.Choose(d.from, p.Number, int64(forS*p.Load*1e9), leadNS)
	source, atNS := d.timeline.Take(part, leadNS)
	replayed := make([]worlds.Request, len(source))
	for i, row := range source {
		replayed[i] = d.trace[row]
		replayed[i].At = float64(atNS[i]) / 1e9
	}
	all := make([]request, len(source))
	for i, q := range d.serve(replayed, p.Load, d.seed, uint64(p.Number)) {
		at := q.At + warmS - warmInS + float64(atNS[0])/1e9/p.Load
		all[i] = request{at: at, ttft: math.Inf(1), done: at}
		if q.OK {
			all[i] = request{at: at, ttft: q.TTFT / 1e3, tpot: q.TPOT / 1e3, done: at + q.E2E/1e3}
		}
	}
	s := simulation{objectives: d.objectives}
	sliceS := min(1, forS/60)
	for peek := range s.peeks(all, sliceS, forS) {
		if decision := search.Peek(p, peek); decision.End {
			return Outcome{
				Probe: p, Slices: peek.Slices, SliceS: sliceS, Verdict: decision.Verdict, Why: decision.Why, Cut: !peek.Ended,
				SpentS: 3 + warmInS + float64(len(peek.Slices))*sliceS, SettleS: settleS, Part: &part,
			}
		}
	}
	panic("a window that is over does not end")
}

// scope is what an answer claims to be about.
func scope(a Answer) extent {
	p := a.Part
	switch {
	case p.Whole || len(p.Stretches) > 1:
		return extent{}
	case p.Even:
		return extent{fresh: true}
	}
	seconds := float64(p.Stretches[0].ToNS-p.Stretches[0].FromNS) / 1e9
	return extent{fresh: true, busiest: 50 * math.Ceil(seconds/50)}
}

// TestWorlds: in each world the interval covers what the answer claims to be about, or the answer says that it cannot
// know. FASTREPLAY_WORLDS=200 takes so many seeds of every world, which is half an hour of a processor, from
// FASTREPLAY_SEED on, and FASTREPLAY_WORLD=cold prints each answer in one of them. By default one world is tried.
func TestWorlds(t *testing.T) {
	seeds, all := 2, false
	if n, err := strconv.Atoi(os.Getenv("FASTREPLAY_WORLDS")); err == nil {
		seeds, all = n, true
	}
	first := uint64(1)
	if seed, err := strconv.ParseUint(os.Getenv("FASTREPLAY_SEED"), 10, 64); err == nil {
		first = seed
	}
	objectives := objectivesOf(t, "ttft.p95<1s")
	for _, from := range []string{FromBusiest, FromSpread} {
		for _, world := range deployments() {
			if only := os.Getenv("FASTREPLAY_WORLD"); only != "" && world.Name != only || !all && (from == FromSpread || world.Name != "short") {
				continue
			}
			var covers, tooHigh, unsaid, words worlds.Share
			var lock sync.Mutex
			var group sync.WaitGroup
			width, load, truths, probes, held := 0.0, 0.0, 0.0, 0, 0.0
			for half := range 2 {
				group.Go(func() {
					for seed := first + uint64(half); seed < first+uint64(seeds); seed += 2 {
						d := deployed{deployment: world, seed: seed, from: from, objectives: objectives, trace: world.Trace(seed)}
						for i := range d.trace {
							d.timeline = append(d.timeline, int64((d.trace[i].At-d.trace[0].At)*1e9))
						}
						search, err := New(Config{Objectives: objectives, Least: 1, Budget: 20 * time.Minute, WindowS: 120, BesidesS: 33})
						if err != nil {
							t.Error(err)
							return
						}
						for p, more := search.Next(); more; p, more = search.Next() {
							search.Add(d.probe(search, p))
						}
						a := search.Answer()
						truth := world.carries(firstToken, seed, scope(a))
						high := math.Inf(1)
						if a.High != nil {
							high = *a.High
						}
						lock.Lock()
						covers.Add(a.Low <= truth && truth <= high)
						tooHigh.Add(a.Low > truth)
						unsaid.Add(a.Low > truth && a.Doubt == "")
						words.Add(a.Doubt != "")
						truths, load, probes, held = truths+truth, load+a.Load, probes+a.Probes, held+a.HeldS
						if a.High != nil {
							width += (*a.High - a.Low) / a.Load
						}
						if os.Getenv("FASTREPLAY_WORLD") != "" {
							fmt.Printf("%d: truth %.3f, %.3f [%.3f, %.3f] held %.0f settle %.0f %s| %s\n", seed, truth, a.Load, a.Low, high, a.HeldS, a.SettleS, a.Doubt, a.Why)
						}
						lock.Unlock()
					}
				})
			}
			group.Wait()
			n := float64(seeds)
			t.Logf("%-8s %-13s covers %-20s low too high %-20s unsaid %-20s doubts %-20s truth %.2f load %.2f width %.2f probes %.1f held %.0f s",
				from, world.Name, covers, tooHigh, unsaid, words, truths/n, load/n, width/n, float64(probes)/n, held/n)
			if !all && tooHigh.Hits > 1 {
				t.Errorf("%s: the lower bound is too high in %d of %d", world.Name, tooHigh.Hits, seeds)
			}
		}
	}
}
