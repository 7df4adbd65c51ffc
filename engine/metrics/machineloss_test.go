package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// lossOf makes one that begins at startNS.
func lossOf(startNS int64, intervals ...Interval) *MachineLoss {
	t := NewMachineLoss(startNS)
	for _, i := range intervals {
		t.Add(i)
	}
	t.Known = [Causes]bool{true, true, true}
	return t
}

// randomLoss has n intervals of 1 to 150 ms from before the start on.
func randomLoss(rnd *rand.Rand, n int) *MachineLoss {
	t := lossOf(-40_000_000)
	at := t.startNS
	for range n {
		length := 1 + rnd.Int64N(150_000_000)
		at += length
		i := Interval{EndNS: at, CapacityNS: 2 * length}
		for c := range i.LostNS {
			if rnd.IntN(3) == 0 {
				i.LostNS[c] = rnd.Int64N(2 * length)
			}
		}
		t.Add(i)
	}
	return t
}

// lostByHand walks over all intervals.
func (t *MachineLoss) lostByHand(c Cause, fromNS, toNS int64) (ns int64) {
	begin := t.startNS
	for _, i := range t.intervals {
		if i.EndNS > fromNS && begin < toNS {
			ns += i.LostNS[c]
		}
		begin = i.EndNS
	}
	return ns
}

func TestLostAgainstAWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		line := randomLoss(rnd, rnd.IntN(40))
		s := newSums(line)
		for range 50 {
			from := rnd.Int64N(4e9) - 1e9
			to := from + 1 + rnd.Int64N(4e8)
			if len(line.intervals) > 0 && rnd.IntN(4) == 0 { // an edge
				from = line.intervals[rnd.IntN(len(line.intervals))].EndNS
			}
			if len(line.intervals) > 0 && rnd.IntN(4) == 0 {
				to = max(from+1, line.intervals[rnd.IntN(len(line.intervals))].EndNS)
			}
			got := s.lost(from, to)
			for c := range Cause(Causes) {
				if want := line.lostByHand(c, from, to); got[c] != want {
					t.Fatalf("cause %d in (%d, %d]: got %d, want %d of %+v", c, from, to, got[c], want, line.intervals)
				}
			}
		}
	}
}

func TestWorstStolen(t *testing.T) {
	const ms = int64(time.Millisecond)
	at := func(endMS, stolenMS, capacityMS int64) Interval {
		return Interval{EndNS: endMS * ms, CapacityNS: capacityMS * ms, LostNS: [Causes]int64{Stolen: stolenMS * ms}}
	}
	for _, tt := range []struct {
		name string
		line *MachineLoss
		want float64
	}{
		{"nothing", lossOf(0), 0},
		{"no capacity known", lossOf(0, at(1000, 50, 0)), 0},
		{"one second of two cores", lossOf(0, at(500, 100, 1000), at(1000, 300, 1000)), 0.2},
		{"the second of two", lossOf(0, at(1000, 100, 2000), at(1500, 500, 1000), at(2000, 500, 1000)), 0.5},
		{"a rest counts as a second", lossOf(0, at(1000, 100, 2000), at(1100, 100, 200)), 0.05},
		{"a rest that is worse even so", lossOf(0, at(1000, 100, 2000), at(1500, 800, 1000)), 0.4},
		{"an interval longer than a second", lossOf(0, at(100, 0, 200), at(4100, 800, 8000)), 800.0 / 8200},
		{"begun before zero", lossOf(-500*ms, at(500, 1000, 2000), at(1500, 20, 2000)), 0.5},
		{"nothing stolen", lossOf(0, at(1000, 0, 2000)), 0},
	} {
		if got := tt.line.worstStolen(); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: got %g, want %g", tt.name, got, tt.want)
		}
	}
}
