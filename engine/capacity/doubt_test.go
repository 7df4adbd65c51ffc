package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// queued are the slices, of 1 s, of a queue in which a request has one of so many slots for a service time, at a share of
// the load that it can carry. slower tells by how much service is longer at a time.
func queued(rng *rand.Rand, slots int, serviceS, load float64, seconds int, slower func(atS float64) float64) []Slice {
	const warmInS = 30
	rate := load * float64(slots) / serviceS
	free := make([]float64, slots)
	all := make([]Slice, seconds)
	for at := 0.0; at < warmInS+float64(seconds); at += rng.ExpFloat64() / rate {
		next := slices.Index(free, slices.Min(free))
		took := serviceS * math.Exp(0.5*rng.NormFloat64()-0.125) * slower(at-warmInS)
		free[next] = max(at, free[next]) + took
		if at >= warmInS {
			all[int(at-warmInS)].Requests++
		}
		for slice := max(0, int(at-warmInS)); slice < seconds && float64(slice)+warmInS < free[next]; slice++ {
			from, to := float64(slice)+warmInS, float64(slice)+warmInS+1
			all[slice].InFlight += max(0, min(to, free[next])-max(from, at))
		}
	}
	return all
}

// TestWarm: a queue that is long for a while by chance is seldom taken for servers that were cold at first, and these
// are found.
func TestWarm(t *testing.T) {
	steady := func(float64) float64 { return 1 }
	slowerUntil := func(end, factor float64) func(float64) float64 {
		return func(at float64) float64 {
			if at < end {
				return factor
			}
			return 1
		}
	}
	const trials = 200
	for _, c := range []struct {
		name           string
		slots          int
		serviceS, load float64
		seconds        int
		slower         func(atS float64) float64
		least, most    float64
	}{
		{"half busy", 8, 0.3, 0.5, 240, steady, 0, 0.06},
		{"20 of 22.9/s", 8, 0.35, 0.873, 240, steady, 0, 0.06},
		{"20 of 22.9/s, long", 8, 0.35, 0.873, 600, steady, 0, 0.06},
		{"20 of 22.9/s, short", 8, 0.35, 0.873, 90, steady, 0, 0.1},
		{"95 % busy", 8, 0.35, 0.95, 240, steady, 0, 0.13},
		{"one slot", 1, 0.05, 0.85, 240, steady, 0, 0.06},
		{"slow requests", 16, 8, 0.85, 600, steady, 0, 0.1},
		{"cold: 2 x in the first eighth", 8, 0.3, 0.4, 240, slowerUntil(30, 2), 0.95, 1},
		{"cold: 1.4 x in the first quarter", 8, 0.3, 0.4, 240, slowerUntil(60, 1.4), 0.8, 1},
		{"cold: 1.4 x, busy", 8, 0.3, 0.7, 240, slowerUntil(60, 1.4), 0.5, 1},
		{"warming over 100 s from 2 x", 8, 0.3, 0.4, 300, func(at float64) float64 { return 1 + max(0, 1-max(0, at)/100) }, 0.8, 1},
	} {
		found := 0
		for seed := range trials {
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			o := &Outcome{SliceS: 1, Slices: queued(rng, c.slots, c.serviceS, c.load, c.seconds, c.slower)}
			if _, warmer := doubt(o); warmer {
				found++
			}
		}
		if share := float64(found) / trials; share < c.least || share > c.most {
			t.Errorf("%s: doubts in %.3f, want %.2f to %.2f", c.name, share, c.least, c.most)
		}
	}
}

// TestHangsOnOne: a confirmation that held though one pause took most of what is allowed has a doubt. One with as many
// late requests all along has none.
func TestHangsOnOne(t *testing.T) {
	search := must.Have(New(Config{Objectives: objectivesOf(t, "ttft.p95<1s"), Least: 1, WindowS: 120}))(t)
	for _, c := range []struct {
		late  func(second int) bool // of the 10 requests of a second, 4 % in all
		doubt bool
	}{
		{func(second int) bool { return second >= 200 && second < 216 }, true},
		{func(second int) bool { return second%25 == 0 }, false},
		{func(int) bool { return false }, false},
	} {
		o := Outcome{SliceS: 1}
		for second := range 400 {
			slice := Slice{Requests: 10, Beyond: []int64{0}}
			if c.late(second) {
				slice.Beyond[0] = 10
			}
			o.Slices = append(o.Slices, slice)
		}
		if why := search.hangsOnOne(&o); (why != "") != c.doubt {
			t.Errorf("doubt %q, want one: %v", why, c.doubt)
		}
	}
}

// TestMissedBelow: an objective that was missed at a load easier than the interval is told, and one that was missed
// within it is what the interval is made of.
func TestMissedBelow(t *testing.T) {
	search := must.Have(New(Config{Objectives: objectivesOf(t, "ttft.p95<1s"), Least: 1, WindowS: 60}))(t)
	at := func(load float64, beyond int64) *Outcome {
		return &Outcome{Probe: Probe{Load: load}, SliceS: 1, Slices: []Slice{{Requests: 95, Beyond: []int64{beyond}}}}
	}
	search.served = []*Outcome{at(0.8, 0), at(0.5, 15), at(1, 90)}
	expect.Equal(t, search.missedBelow(new(0.7)), "At 0.5, easier than all of the interval, 15.8 % of 95 requests are beyond "+
		"ttft.p95<1s, which allows 5 %, though harder loads held. That was chance, or the servers stalled for a while: "+
		"another search would tell.")
	expect.Equal(t, search.missedBelow(new(0.4)), "")
	expect.Equal(t, search.missedBelow(nil), "")
}

// TestSlows: a server that gets slower while it is measured is found by its tokens, and neither noise nor load that comes
// and goes looks like it.
func TestSlows(t *testing.T) {
	const trials = 200
	flat := func(float64) float64 { return 1 }
	for _, c := range []struct {
		name        string
		slower      func(share float64) float64 // by how much of the confirmation is over
		load        func(share float64) float64 // requests beside a token, of which each adds a hundredth to its time
		least, most float64
	}{
		{"steady", flat, flat, 0, 0.03},
		{"6 % slower in the end", func(share float64) float64 { return 1 + 0.06*share }, flat, 0.9, 1},
		{"faster", func(share float64) float64 { return 1 - 0.06*share }, flat, 0, 0.01},
		{"slower for a while", func(share float64) float64 { return 1 + 0.06*math.Sin(math.Pi*share) }, flat, 0, 0.03},
		{"more load", flat, func(share float64) float64 { return 1 + share }, 0, 0.01},
		{"a wave of load", flat, func(share float64) float64 { return 1 + math.Sin(9*share) }, 0, 0.05},
	} {
		found := 0
		for seed := range trials {
			rng := rand.New(rand.NewPCG(uint64(seed), 10))
			o := &Outcome{SliceS: 1}
			beside := 0.0
			for at := range 360 {
				share := float64(at) / 360
				beside += 0.2 * (10*c.load(share) + 5*rng.NormFloat64() - beside)
				s := Slice{Requests: int64(40 * c.load(share)), Timed: 4, InFlight: beside}
				for range 4 {
					s.TPOTMS += 20 * c.slower(share) * (1 + beside/100) * math.Exp(0.1*rng.NormFloat64())
				}
				o.Slices = append(o.Slices, s)
			}
			if slows(o) != "" {
				found++
			}
		}
		if got := float64(found) / trials; got < c.least || got > c.most {
			t.Errorf("%s: doubts in %.3f, want %.2f to %.2f", c.name, got, c.least, c.most)
		}
	}
}

// TestShortWindows: in a window shorter than three requests take nothing holds, however calm it is, and the words say
// which would do. What breaks in it breaks.
func TestShortWindows(t *testing.T) {
	objectives := objectivesOf(t, "ttft.p95<1s")
	steady := func(float64) float64 { return 1 }
	for _, c := range []struct {
		serviceS float64
		seconds  int
		late     int64 // of ten requests
		want     string
	}{{1, 120, 0, Holds}, {20, 120, 0, Holds}, {50, 120, 0, Unsure}, {200, 120, 0, Unsure}, {50, 120, 5, Breaks}, {50, 240, 0, Holds}} {
		all := queued(rand.New(rand.NewPCG(1, 1)), 200, c.serviceS, 0.5, c.seconds, steady)
		for i := range all {
			all[i].Beyond = []int64{all[i].Requests * c.late / 10}
		}
		peek := Peek{SliceS: 1, Slices: all, WindowS: float64(c.seconds), Ended: true}
		for _, confirm := range []bool{false, true} {
			s := must.Have(New(Config{Objectives: objectives, WindowS: 120, Least: 1}))(t)
			d := s.Peek(Probe{Number: 1, Load: 1, Confirm: confirm}, peek)
			if d.Verdict != c.want || d.Verdict == Unsure && !strings.Contains(d.Why, ": a --window of ") {
				t.Errorf("%+v, confirmation %v: %+v", c, confirm, d)
			}
			s.Add(Outcome{Probe: Probe{Number: 1, Load: 1}, Slices: all, SliceS: 1, Verdict: d.Verdict, Why: d.Why})
			if a := s.Answer(); (a.Why == d.Why) != (c.want == Unsure) {
				t.Errorf("%+v: the search goes on though no window is long enough, or ends though one was: %+v", c, a)
			}
			early := peek
			early.Ended, early.WindowS = false, 10*peek.WindowS
			if d := s.Peek(Probe{Number: 1, Load: 1, Confirm: confirm}, early); d.Verdict == Holds && c.want != Holds {
				t.Errorf("%+v: it may end early: %+v", c, d)
			}
		}
	}
}
