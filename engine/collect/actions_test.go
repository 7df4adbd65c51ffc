package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// actionWorld is a run of 60 s with requests at random instants, in which a command runs at 30 s.
type actionWorld struct {
	name   string
	rate   func(atS float64) float64 // requests/s; nil = 40
	ttftMS func(atS float64) float64 // mean; nil = 20
	fate   fate                      // nil = all end well
	events []scrape.Event
	check  string // as in metrics.Action
	early  bool   // the command runs at 0 s
	landed bool
	proof  string // has these words
}

const refused = "dial tcp 127.0.0.1:1: connect: connection refused"

// fail makes a request fail.
func fail(r *record.Record, o record.Outcome, why string) {
	*r = *sentAt(r.PlannedNS, o, 0)
	r.Error = why
	if o == record.HTTPError {
		r.HeadersNS, r.DoneNS, r.Status = r.SentNS+2*ms, r.SentNS+2*ms, 503
	}
}

// run returns the summary of the world by this seed.
func (w *actionWorld) run(seed uint64) *metrics.Summary {
	rng := rand.New(rand.NewPCG(seed, 7))
	urls := []string{"http://a", "http://b", "http://c", "http://d"}
	c := NewCollector(urls)
	c.KeepHits()
	i := 0
	for at := 0.0; at < 60; i++ {
		rate, mean := 40.0, 20.0
		if w.rate != nil {
			rate = w.rate(at)
		}
		if w.ttftMS != nil {
			mean = w.ttftMS(at)
		}
		r := sentAt(int64(at*1e9), record.OK, int64(mean*(0.5+rng.ExpFloat64()/2)*1e6))
		r.PromptTokens, r.CachedTokens, r.ExpectedCachedTokens, r.InputTokens = 1000, 400, 500, 1000
		if w.fate != nil {
			w.fate(r, at, i%4, rng)
		}
		c.Add(r, i%4)
		at += rng.ExpFloat64() / rate
	}
	a := metrics.Action{AtS: 30, Run: "do it", Check: w.check, Ran: &metrics.Command{StartedS: 30, TookS: 0.1, ExitCode: new(int)}}
	if w.early {
		a.Ran.StartedS = 0
	}
	if w.check == metrics.CheckPassed {
		a.CheckS = new(31.0)
	}
	in := metrics.Summary{Actions: []metrics.Action{a}, Requests: metrics.Requests{Planned: int64(i)}}
	in.Run.DurationS = 60
	if w.events != nil {
		in.Servers = &metrics.Servers{Servers: scrape.Servers{Events: w.events}}
	}
	return c.Summary(in, Probed{})
}

// between is a share that some requests to a target have from one instant to another.
func between(atS, fromS, toS float64, target, of int) bool {
	return atS >= fromS && atS < toS && target == of
}

// doubled is the rate of a load that doubles when the command runs.
func doubled(atS float64) float64 { return 40 + 40*math.Floor(atS/30) }

// fate is how a request ends that was sent then to one of four targets.
type fate func(r *record.Record, atS float64, target int, rng *rand.Rand)

// dead is the second target's while it refuses connections.
func dead(fromS, toS float64) fate {
	return func(r *record.Record, atS float64, target int, _ *rand.Rand) {
		if between(atS, fromS, toS, target, 1) {
			fail(r, record.ConnectError, refused)
		}
	}
}

// unlucky is the fate of a share of the requests.
func unlucky(fromS, toS, share float64, o record.Outcome) fate {
	return func(r *record.Record, atS float64, _ int, rng *rand.Rand) {
		if atS >= fromS && atS < toS && rng.Float64() < share {
			fail(r, o, "no healthy server")
		}
	}
}

// fifthReplica answers a fifth of the requests from a certain instant on.
func fifthReplica(r *record.Record, atS float64, _ int, rng *rand.Rand) {
	r.Instance = fmt.Sprint("pod-", rng.IntN(4))
	if atS > 35 && rng.Float64() < 0.2 {
		r.Instance = "pod-4"
	}
}

// actionWorlds are those in which an action had an effect, and those in which something else looks like one.
var actionWorlds = []actionWorld{
	{name: "nothing happens", proof: "no target fails more"},
	{name: "a target is killed", landed: true, proof: "http://b failed", fate: func(r *record.Record, at float64, target int, _ *rand.Rand) {
		if between(at, 30, 60, target, 1) {
			fail(r, record.ConnectError, refused)
		} else if between(at, 29.9, 30, target, 1) { // its last byte came before
			fail(r, record.Truncated, "cut short")
		}
	}},
	{name: "it restarts quickly, at twice the load", landed: true, proof: "http://b failed", rate: doubled, fate: dead(30, 32)},
	{name: "a replica behind a gateway is killed", landed: true, fate: unlucky(30, 40, 0.25, record.HTTPError)},
	{name: "the load doubles, and servers refuse", proof: "more load can do that, too", rate: doubled, fate: unlucky(31, 60, 0.4, record.HTTPError)},
	{name: "the load rises later, and servers refuse", proof: "more load can do that, too", rate: func(at float64) float64 {
		return 40 + 80*math.Floor(at/45)
	}, fate: unlucky(46, 60, 0.4, record.Timeout)},
	{name: "a target was dead before", proof: "no target fails more", fate: dead(28, 60)},
	{name: "some requests always fail", proof: "no target fails more", fate: unlucky(0, 60, 0.03, record.Reset)},
	{name: "the load doubles, and latency with it", proof: "no target fails more", rate: doubled, ttftMS: func(at float64) float64 { return 20 + 60*math.Floor(at/30) }},
	{name: "a server restarts between requests", landed: true, proof: "http://c restarted", events: []scrape.Event{{AtS: 33, Target: "http://c", What: scrape.Restarted}}},
	{name: "a server restarts all the time", proof: "no target fails more", events: []scrape.Event{
		{AtS: 13, Target: "http://c", What: scrape.Restarted}, {AtS: 33, Target: "http://c", What: scrape.Restarted},
	}},
	{name: "a page is slow since the load doubles", proof: "more load can do that, too", rate: doubled, events: []scrape.Event{{AtS: 33, Target: "http://c", What: scrape.Silent, Error: "timeout"}}},
	{name: "a process is stopped", landed: true, proof: "http://b said nothing for", fate: func(r *record.Record, at float64, target int, _ *rand.Rand) {
		if between(at, 29.99, 45, target, 1) {
			r.FirstTokenNS = 45*s + r.SentNS%(100*ms)
			r.LastTokenNS, r.DoneNS = r.FirstTokenNS+5*ms, r.FirstTokenNS+5*ms
		}
	}},
	{name: "a stopped process goes on", proof: "no target fails more", fate: func(r *record.Record, at float64, target int, _ *rand.Rand) {
		if between(at, 27, 30, target, 1) {
			r.FirstTokenNS = 30*s + r.SentNS%(100*ms)
			r.LastTokenNS, r.DoneNS = r.FirstTokenNS+5*ms, r.FirstTokenNS+5*ms
		}
	}},
	{name: "a replica is added", landed: true, proof: "pod-4 answered for the first time", fate: fifthReplica},
	{name: "a gateway spills a higher load", proof: "more load can do that, too", rate: doubled, fate: fifthReplica},
	{name: "its check succeeds", check: metrics.CheckPassed, landed: true, proof: "its check succeeded"},
	{name: "its check fails", check: metrics.CheckFailed, proof: "its check did not succeed"},
	{name: "its check always succeeds", check: metrics.CheckedEarly, proof: "its check succeeded before it, too"},
	{name: "nobody knows what was before", early: true, proof: "too little is known", fate: unlucky(5, 60, 0.4, record.HTTPError)},
}

// TestActionsInWorlds: an action is said to have landed if it has, and never since the load rose or since something
// went wrong before it. FASTREPLAY_WORLDS makes more runs.
func TestActionsInWorlds(t *testing.T) {
	for i := range actionWorlds {
		w := &actionWorlds[i]
		for seed := range uint64(5 * worldSeeds()) {
			a := w.run(seed).Actions[0]
			if a.Landed != w.landed || !strings.Contains(a.Proof, w.proof) {
				t.Errorf("%s, seed %d: landed %v, %q", w.name, seed, a.Landed, a.Proof)
				break
			}
			if a.Landed && (*a.LandedS < 30 || *a.LandedS > 40) {
				t.Errorf("%s, seed %d: landed at %v s", w.name, seed, *a.LandedS)
			}
		}
	}
}

// backByHand is when the percentile of the requests of two seconds is within a limit again for three seconds, after it was
// not.
func backByHand(sent []float64, ttft []float64, limit float64, from, to float64) float64 {
	within := 0.0
	out := false
	for at := from; at < to; at += 0.1 {
		var last []float64
		for i, s := range sent {
			if s >= at && s < at+2 {
				last = append(last, ttft[i])
			}
		}
		slices.Sort(last)
		if len(last) > 0 && last[int(0.95*float64(len(last)))] > limit {
			within, out = at, true
		} else if out && at-within > 3 {
			return within
		}
	}
	return math.NaN()
}

// TestTimeUntilBack: after a kill TTFT is out of its band for a known time; a moving percentile by hand tells the same.
// What is counted is what was sent.
func TestTimeUntilBack(t *testing.T) {
	for _, outS := range []float64{4, 8, 15} {
		for seed := range uint64(20) {
			var sent, ttft []float64
			failed, late := 0, 0
			w := actionWorld{
				ttftMS: func(at float64) float64 { return map[bool]float64{true: 200, false: 20}[at >= 30 && at < 30+outS] },
				fate: func(r *record.Record, at float64, target int, rng *rand.Rand) {
					if between(at, 30, 30+outS/2, target, 1) {
						fail(r, record.ConnectError, refused)
						failed++
					}
					r.CachedTokens = map[bool]int64{true: 100, false: 400}[at >= 30 && at < 30+outS]
					sent = append(sent, at)
					ttft = append(ttft, math.Inf(1))
					if r.Outcome == record.OK {
						ttft[len(ttft)-1] = float64(r.FirstTokenNS-r.SentNS) / 1e6
					}
				},
			}
			a := w.run(seed).Actions[0]
			cost := a.Cost
			if !a.Landed || !*cost.Left || cost.BackS == nil {
				t.Fatalf("%v s, seed %d: %+v, %+v", outS, seed, a, cost)
			}
			want := backByHand(sent, ttft, *cost.BandMS, 30, 59)
			expect.Near(t, *cost.BackS, 30+outS, 3, "truth, seed %d", seed)
			expect.Near(t, *cost.BackS, want, 3, "by hand, seed %d", seed)
			lost := 0.0
			for i, at := range sent {
				ok := !math.IsInf(ttft[i], 1)
				if ok && at >= *a.LandedS && at < *cost.BackS && ttft[i] > *cost.BandMS {
					late++
				}
				if ok && at >= *a.LandedS && at < 30+outS {
					lost += 300
				}
			}
			expect.Equal(t, cost.Failed, int64(failed), "failed")
			expect.Equal(t, cost.Late, int64(late), "late")
			expect.Near(t, *cost.HitsLost, lost, 1e-6, "hits lost")
		}
	}
}

// TestCostWithoutAnEnd: what hangs until the run's end is late, whether it was sent before the action or after. Nothing is
// said to be within its band, or back, that too few requests tell of.
func TestCostWithoutAnEnd(t *testing.T) {
	for _, w := range []struct {
		name           string
		hangS, failsS  float64 // since when all requests hang, and a quarter fails
		slowS, quickS  float64 // from when to when answers wait until quickS
		words, without string
	}{
		{name: "all hang", hangS: 29.9, failsS: 99, slowS: 99, words: "TTFT p95 not back within", without: "stayed"},
		{name: "few requests follow", hangS: 99, failsS: 30, slowS: 99, words: "too few requests followed to tell whether TTFT p95 stayed", without: "back"},
		{name: "a pause", hangS: 99, failsS: 99, slowS: 29.8, quickS: 33, words: "TTFT p95 back within", without: "stayed"},
		{name: "few are calm", hangS: 99, failsS: 99, slowS: 29.8, quickS: 58.8, words: "TTFT p95 not back within", without: "stayed"},
	} {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 3))
			c := NewCollector([]string{"http://a"})
			n, endS := int64(0), 60.0
			if w.failsS == 30 {
				endS = 30.6
			}
			for at := 0.0; at < endS; at += rng.ExpFloat64() / 40 {
				r := sentAt(int64(at*1e9), record.OK, int64(20*(0.5+rng.ExpFloat64()/2)*1e6))
				switch {
				case at >= w.hangS:
					*r = *sentAt(r.PlannedNS, record.Cancelled, 0)
					r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = r.SentNS+ms, record.None, record.None, 61*s
				case at >= w.failsS && rng.Float64() < 0.25:
					fail(r, record.ConnectError, refused)
				case at >= w.slowS && at < w.quickS:
					r.FirstTokenNS = int64(w.quickS * 1e9)
					r.LastTokenNS, r.DoneNS = r.FirstTokenNS+5*ms, r.FirstTokenNS+5*ms
				}
				c.Add(r, 0)
				n++
			}
			a := metrics.Action{AtS: 30, Check: metrics.CheckPassed, CheckS: new(30.0), Ran: &metrics.Command{StartedS: 30, ExitCode: new(int)}}
			in := metrics.Summary{Actions: []metrics.Action{a}, Requests: metrics.Requests{Planned: n}}
			in.Run.DurationS = endS
			did := c.Summary(in, Probed{}).Actions[0]
			words := strings.Join(did.CostWords(), "; ")
			expect.Contains(t, words, w.words, "%s, seed %d", w.name, seed)
			expect.Lacks(t, words, w.without, w.name)
			if did.Cost.BandMS == nil || *did.Cost.BandMS > 200 {
				t.Errorf("%s, seed %d: a band of TTFT that is 20 ms: %s", w.name, seed, words)
			}
		}
	}
}

// ofFourTargets has n requests, sent so many ms after each other to four targets by turns.
func (w *actionWorld) ofFourTargets(n int, everyMS int64) *Collector {
	c := NewCollector([]string{"http://a", "http://b", "http://c", "http://d"})
	for i := range n {
		atMS := int64(i) * everyMS
		r := sentAt(atMS*ms, record.OK, 20*ms)
		w.fate(r, float64(atMS)/1000, i%4, nil)
		c.Add(r, i%4)
	}
	return c
}

// TestWhoseEffect: an effect that an earlier action may have had late is not said to be a later one's, unless it comes
// at once.
func TestWhoseEffect(t *testing.T) {
	for _, w := range []struct {
		first, second, deadS float64
		check                string // of the first
		landed               bool
	}{
		{first: 30, second: 32, deadS: 33},
		{first: 30, second: 36, deadS: 36.01, landed: true},
		{first: 30, second: 32, deadS: 33, check: metrics.CheckFailed, landed: true},
	} {
		world := actionWorld{fate: dead(w.deadS, 60)}
		c := world.ofFourTargets(6000, 10)
		ran := func(at float64, check string) metrics.Action {
			return metrics.Action{AtS: at, Check: check, Ran: &metrics.Command{StartedS: at, ExitCode: new(int)}}
		}
		in := metrics.Summary{Actions: []metrics.Action{ran(w.first, w.check), ran(w.second, "")}}
		in.Run.DurationS = 60
		all := c.Summary(in, Probed{}).Actions
		expect.Equal(t, all[0].Landed, false, "the first: %s", all[0].Proof)
		expect.Equal(t, all[1].Landed, w.landed, "%+v: %s", w, all[1].Proof)
		if !w.landed {
			expect.Contains(t, all[0].Proof, "before the next action")
			expect.Contains(t, all[1].Proof, "but that may come from the action at 30.0 s")
		}
	}
}

// TestLateEffectsOfWhatLanded: a first action kills a server, which restarts late, as an oracle draws it. A second one does
// nothing, or kills another server. Its own effect is found in all worlds. The first one's is called the second one's only
// by the coincidence that the manual owns to: the second comes just before it.
func TestLateEffectsOfWhatLanded(t *testing.T) {
	worlds := 50 * worldSeeds()
	wrong, missed, possible := 0, 0, 0
	for seed := range uint64(worlds) {
		rng := rand.New(rand.NewPCG(seed, 32))
		restartS := 30 + 3 + 40*rng.Float64()
		secondS := 32 + (restartS-32)*rng.Float64()
		kills := seed%2 == 0
		w := actionWorld{fate: func(r *record.Record, at float64, target int, _ *rand.Rand) {
			if between(at, 30, restartS, target, 1) || kills && between(at, secondS+0.02, 100, target, 2) {
				fail(r, record.ConnectError, refused)
			}
		}}
		c := w.ofFourTargets(4000, 25)
		ran := func(at float64) metrics.Action {
			return metrics.Action{AtS: at, Ran: &metrics.Command{StartedS: at, ExitCode: new(int)}}
		}
		in := metrics.Summary{Actions: []metrics.Action{ran(30), ran(secondS)}}
		in.Run.DurationS = 100
		in.Servers = &metrics.Servers{Servers: scrape.Servers{Events: []scrape.Event{
			{AtS: restartS, Target: "http://b", What: scrape.Restarted},
		}}}
		all := c.Summary(in, Probed{}).Actions
		expect.Equal(t, all[0].Landed, true, "seed %d: the first: %s", seed, all[0].Proof)
		switch {
		case kills:
			missed += number(!all[1].Landed || !strings.Contains(all[1].Proof, "http://c failed"))
		case 10*(restartS-secondS) > restartS-30:
			possible++
			wrong += number(all[1].Landed)
			expect.Contains(t, all[1].Proof, "but that may come from the action at 30.0 s", "seed %d", seed)
		}
	}
	if wrong > 0 || missed > 0 || possible < worlds/3 {
		t.Errorf("of %d idle actions %d landed by an earlier one's effect; of %d that killed %d did not land",
			possible, wrong, worlds/2, missed)
	}
}

// TestBandIsNotLeftByChance: where nothing changes TTFT p95 stays within its band, in nearly all of 200 runs.
func TestBandIsNotLeftByChance(t *testing.T) {
	left := 0
	for seed := range uint64(200) {
		w := actionWorld{}
		left += number(*w.run(seed).Actions[0].Cost.Left)
	}
	if left > 6 {
		t.Errorf("left its band in %d of 200 runs", left)
	}
}

// TestActionsAfterEachOther: what follows an action ends with the next that landed, and the time in which the first is
// not over is no band for the second.
func TestActionsAfterEachOther(t *testing.T) {
	w := actionWorld{fate: func(r *record.Record, at float64, target int, rng *rand.Rand) {
		if between(at, 20, 60, target, 1) || between(at, 40, 60, target, 2) {
			fail(r, record.ConnectError, refused)
		}
	}}
	rng := rand.New(rand.NewPCG(1, 1))
	c := NewCollector([]string{"http://a", "http://b", "http://c", "http://d"})
	for i := range 2400 {
		at := float64(i) / 40
		r := sentAt(int64(at*1e9), record.OK, int64(20*(0.5+rng.ExpFloat64()/2)*1e6))
		w.fate(r, at, i%4, rng)
		c.Add(r, i%4)
	}
	ran := func(at float64) metrics.Action {
		return metrics.Action{AtS: at, Ran: &metrics.Command{StartedS: at, ExitCode: new(int)}}
	}
	in := metrics.Summary{Actions: []metrics.Action{ran(20), ran(25), ran(40), {AtS: 90}}}
	in.Run.DurationS = 60
	all := c.Summary(in, Probed{}).Actions
	expect.Equal(t, fmt.Sprint(all[0].Landed, all[1].Landed, all[2].Landed, all[3].Began()), "true false true false", "landed")
	expect.Equal(t, all[0].Cost.UntilS, 40.0, "the first ends with the next that landed")
	expect.Equal(t, all[0].Cost.Failed, int64(200), "failed")
	if c := all[0].Cost; !*c.Left || c.BackS != nil {
		t.Errorf("the first: %+v", c)
	}
	if all[2].Cost.BandMS != nil {
		t.Errorf("the third has the band %v ms", *all[2].Cost.BandMS)
	}
	if in.Actions[0].Landed || in.Actions[0].Cost != nil {
		t.Error("the summary has changed what it was given")
	}
}

// TestHitsThatWereEvicted: what full caches drop in any case is no loss by an action, on whichever side of it they fill.
func TestHitsThatWereEvicted(t *testing.T) {
	for _, evictedS := range []float64{15, 45, 99} { // since when
		c := NewCollector([]string{"http://a"})
		c.KeepHits()
		for at := 0.0; at < 60; at += 0.1 {
			r := sentAt(int64(at*1e9), record.OK, 20*ms)
			r.PromptTokens, r.InputTokens, r.ExpectedCachedTokens = 1000, 1000, 500
			r.CachedTokens = 500
			if at >= evictedS {
				r.CachedTokens -= 200
				c.NeverHeld(r.SentNS, 200)
			}
			if at >= 30 {
				r.CachedTokens -= 100 // by the action
			}
			c.Add(r, 0)
		}
		in := metrics.Summary{Requests: metrics.Requests{Planned: 600}}
		in.Actions = []metrics.Action{{AtS: 29.95, Ran: &metrics.Command{StartedS: 29.95, TookS: 0.1, ExitCode: new(int)}}}
		in.Run.DurationS = 60
		expect.Near(t, *c.Summary(in, Probed{}).Actions[0].Cost.HitsLost, 300*100, 1e-6, "evicted since %v s", evictedS)
	}
}

// TestSLODebt: of requests that failed or missed a bound from an action on, those beyond the share before are its debt,
// by a plain count of what was sent. Bounds of one class count for that class alone. What the end cut off had missed a bound
// if it had waited for longer, and else tells nothing.
func TestSLODebt(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := NewCollector([]string{"http://a"}, parsed(t, "ttft:100", "class=free ttft:10s")...)
		c.KeepHits()
		var sent, bad [2]float64
		n := int64(0)
		for at := 0.0; at < 60; at += rng.ExpFloat64() / 40 {
			slow := rng.Float64() < 0.1 || at >= 30 && at < 40
			r := sentAt(int64(at*1e9), record.OK, int64(20*ms+480*ms*int64(number(slow))))
			free := rng.Float64() < 0.5
			switch {
			case at > 30 && at < 31:
				fail(r, record.ConnectError, refused)
			case at > 50 && rng.Float64() < 0.3: // hangs until the end cuts it off
				*r = *sentAt(r.PlannedNS, record.Cancelled, 0)
				r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = r.SentNS+ms, record.None, record.None, 60*s
			}
			limitS := 0.1
			if free {
				r.Class, limitS = "free", 10
			}
			waitedS := 60 - at
			if r.Outcome == record.Cancelled && waitedS <= limitS { // nobody knows whether it would have been good
				c.Add(r, 0)
				n++
				continue
			}
			after := number(at >= 30)
			sent[after]++
			bad[after] += float64(number(r.Outcome != record.OK || slow && !free))
			c.Add(r, 0)
			n++
		}
		in := metrics.Summary{Requests: metrics.Requests{Planned: n}}
		in.Actions = []metrics.Action{{AtS: 30, Ran: &metrics.Command{StartedS: 30, TookS: 0.1, ExitCode: new(int)}}}
		in.Run.DurationS = 60
		s := c.Summary(in, Probed{})
		want := bad[1] - bad[0]/sent[0]*sent[1]
		expect.Near(t, *s.Actions[0].Cost.SLODebt, want, 1e-6, "seed %d", seed)
		expect.Contains(t, strings.Join(s.Actions[0].CostWords(), "; "), fmt.Sprintf("SLO debt of %.0f", math.Floor(want)))
	}
}

// TestReplicaNotes: a target that is named before it accepts connections is wanted for so long, and one that never does
// for the rest of the run.
func TestReplicaNotes(t *testing.T) {
	s := &metrics.Summary{TargetChanges: []scrape.Event{
		{AtS: 12, Target: "http://x", What: scrape.Wanted, Wanted: 4, Had: 3},
		{AtS: 13, Target: "http://y", What: scrape.Joined, Wanted: 5, Had: 4},
		{AtS: 20, Target: "http://x", What: scrape.Joined, Wanted: 5, Had: 5},
		{AtS: 30, Target: "http://z", What: scrape.Wanted, Wanted: 6, Had: 5},
	}}
	expect.List(t, texts(replicaNotes(s)), []string{
		"from 12.0 s on 4 targets were wanted, and 3 took part: http://x joined 8.00 s later",
		"from 30.0 s on 6 targets were wanted, and 5 took part: http://z never joined",
	})
}
