package route

import "testing"

func TestRoundRobinSpreadsOverTargetsThenAddresses(t *testing.T) {
	peers := []int{1, 3}
	counts := map[Place]int{}
	for i, p := range RoundRobin(12, peers) {
		if p.Target != i%2 {
			t.Fatalf("request %d went to target %d, want %d", i, p.Target, i%2)
		}
		counts[p]++
	}
	want := map[Place]int{{0, 0}: 6, {1, 0}: 2, {1, 1}: 2, {1, 2}: 2}
	for place, n := range want {
		if counts[place] != n {
			t.Errorf("%+v got %d requests, want %d", place, counts[place], n)
		}
	}
	if len(counts) != len(want) {
		t.Errorf("places used: %v, want %v", counts, want)
	}
}
