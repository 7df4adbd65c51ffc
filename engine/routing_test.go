package engine

import (
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/engine/route"
)

// TestOneServerOfTwoNames has one cache, and the weights of both.
func TestOneServerOfTwoNames(t *testing.T) {
	w := routedWork(t, 1, 2, 1)
	s := w.servers()
	if !slices.Equal(s.weights, []float64{4, 2}) || !slices.Equal(s.capacity, []int64{16_000, 32_000}) || len(s.targets) != 2 || s.of[route.Place{Target: 2}] != 0 {
		t.Errorf("%+v", s)
	}
	w.Routing.Bound = route.DefaultBound
	w.RouteByPrefix()
	for i, p := range w.Places {
		if p.Target == 2 {
			t.Fatalf("request %d goes to the second name", i)
		}
	}
}
