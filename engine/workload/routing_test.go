package workload_test

import (
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload/workloadtest"
)

// TestOneServerOfTwoNames has one cache, and the weights of both.
func TestOneServerOfTwoNames(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2, 1)
	s := w.Servers()
	if !slices.Equal(s.Weights, []float64{4, 2}) || !slices.Equal(s.Capacity, []int64{16_000, 32_000}) || len(s.Targets) != 2 || s.Of[route.Place{Target: 2}] != 0 {
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
