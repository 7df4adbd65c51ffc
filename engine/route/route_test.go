package route

import (
	"math"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestRoundRobinSpreadsOverTargetsThenAddresses(t *testing.T) {
	counts := map[Place]int{}
	for i, p := range RoundRobin(12, Even([]int{1, 3})) {
		if p.Target != i%2 || p.Target == 1 && p.Endpoint != i/2%3 {
			t.Fatalf("request %d went to %+v, want target %d and its addresses in turn", i, p, i%2)
		}
		counts[p]++
	}
	want := map[Place]int{{0, 0}: 6, {1, 0}: 2, {1, 1}: 2, {1, 2}: 2}
	for place, n := range want {
		expect.Equal(t, counts[place], n, "%+v requests", place)
	}
	expect.Equal(t, len(counts), len(want), "places used: %v, and not %v", counts, want)
}

// TestRoundRobinKeepsWeights: in every stretch each target has its share, off by less than one round.
func TestRoundRobinKeepsWeights(t *testing.T) {
	targets := []Target{{1, 5}, {2, 1}, {1, 1}}
	var order []int
	counts := make([]float64, len(targets))
	for i, p := range RoundRobin(700, targets) {
		order = append(order, p.Target)
		counts[p.Target]++
		for j, n := range counts {
			if want := float64(i+1) * targets[j].Weight / 7; math.Abs(n-want) > 1 {
				t.Fatalf("after %d requests target %d has %v, want about %v", i+1, j, n, want)
			}
		}
	}
	expect.List(t, order[:7], []int{0, 0, 1, 0, 2, 0, 0}, "the first round")
}

func TestRandomKeepsWeights(t *testing.T) {
	const n = 30_000
	targets := []Target{{1, 0.5}, {2, 1.5}, {3, 1}}
	places := Random(n, targets, 7)
	counts := map[int]float64{}
	for _, p := range places {
		counts[p.Target]++
		if p.Endpoint >= targets[p.Target].Endpoints {
			t.Fatalf("%+v has no such address", p)
		}
	}
	for i, target := range targets {
		share := target.Weight / 3
		if off := math.Abs(counts[i] - n*share); off > 5*math.Sqrt(n*share*(1-share)) {
			t.Errorf("target %d got %v of %d requests, want about %v", i, counts[i], n, n*share)
		}
	}
	if !slices.Equal(places, Random(n, targets, 7)) || slices.Equal(places, Random(n, targets, 8)) {
		t.Error("equal seeds must choose alike, others differently")
	}
	inTurn, follows := 0, 0
	for i := 1; i < n; i++ {
		if places[i].Target == places[i-1].Target {
			follows++
		}
		inTurn++
	}
	expect.Near(t, float64(follows)/float64(inTurn), (1.0/36 + 9.0/36 + 4.0/36), 0.02, "a target follows itself of the cases: that is no chance")
}

func TestSessionsStayTogether(t *testing.T) {
	var sessions []int64
	for i := range 20_000 {
		sessions = append(sessions, int64(i*i%4000)-300)
	}
	targets := []Target{{2, 3}, {1, 1}}
	places := BySession(sessions, targets, 1)
	home := map[int64]Place{}
	for i, s := range sessions {
		if p, known := home[s]; known && p != places[i] {
			t.Fatalf("session %d at %+v and %+v", s, p, places[i])
		}
		home[s] = places[i]
	}
	counts := map[Place]float64{}
	for _, p := range home {
		counts[p]++
	}
	all := float64(len(home))
	for place, share := range map[Place]float64{{0, 0}: 3.0 / 8, {0, 1}: 3.0 / 8, {1, 0}: 1.0 / 4} {
		if off := math.Abs(counts[place] - all*share); off > 5*math.Sqrt(all*share*(1-share)) {
			t.Errorf("%+v has %v of %v sessions, want about %v", place, counts[place], all, all*share)
		}
	}
	if moved := BySession(sessions, targets, 2); slices.Equal(moved, places) {
		t.Error("another seed moves no session")
	}
}

// TestRoutersLeaveOutAndTakeIn: a target of weight 0 gets nothing, and all others their shares. Of conversations only
// those of a target that leaves move, and only to one that joins, each as often as the weights ask for.
func TestRoutersLeaveOutAndTakeIn(t *testing.T) {
	const n = 20_000
	var sessions []int64
	for i := range int64(n) {
		sessions = append(sessions, i-300)
	}
	before := []Target{{1, 1}, {2, 2}, {1, 0}, {1, 1}, {1, 0}}
	left, joined := slices.Clone(before), slices.Clone(before)
	left[0].Weight, joined[2].Weight = 0, 2
	for name, places := range map[string]func([]Target) []Place{
		RoundRobinName: func(of []Target) []Place { return RoundRobin(n, of) },
		RandomName:     func(of []Target) []Place { return Random(n, of, 3) },
		SessionName:    func(of []Target) []Place { return BySession(sessions, of, 3) },
	} {
		for _, of := range [][]Target{before, left, joined} {
			counts := make([]float64, len(of))
			for _, p := range places(of) {
				counts[p.Target]++
			}
			for k, target := range of {
				share := target.Weight / totalWeight(of)
				if off := math.Abs(counts[k] - n*share); off > 5*math.Sqrt(n*share*(1-share)) {
					t.Errorf("%s: target %d of %v got %v of %d", name, k, of, counts[k], n)
				}
			}
		}
	}
	homes := BySession(sessions, before, 3)
	for i, p := range BySession(sessions, left, 3) {
		if p != homes[i] && homes[i].Target != 0 {
			t.Fatalf("session %d moved from %+v to %+v when target 0 left", sessions[i], homes[i], p)
		}
	}
	for i, p := range BySession(sessions, joined, 3) {
		if p != homes[i] && p.Target != 2 {
			t.Fatalf("session %d moved from %+v to %+v when target 2 joined", sessions[i], homes[i], p)
		}
	}
}

func TestPairs(t *testing.T) {
	type pair struct{ name, address string }
	for _, c := range []struct {
		pairs []pair
		want  bool
	}{
		{nil, true},
		{[]pair{{"a", "1"}, {"b", "2"}, {"a", "1"}}, true},
		{[]pair{{"a", "1"}, {"", "1"}, {"a", ""}, {"b", "2"}}, true},
		{[]pair{{"a", "1"}, {"b", "1"}, {"a", "1"}}, false},
		{[]pair{{"a", "1"}, {"a", "2"}, {"b", "3"}}, false},
	} {
		var p Pairs
		for _, one := range c.pairs {
			p.Add(one.name, one.address)
		}
		expect.Equal(t, p.OneByOne(), c.want, "%v: one by one", c.pairs)
	}
}
