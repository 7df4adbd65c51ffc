//go:build !race

package workload_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
)

// TestBuildingMakesNoGarbage: nothing is collected during a run, so what is built then must leave nothing behind.
// A pool loses some of what it is given while the race detector runs.
func TestBuildingMakesNoGarbage(t *testing.T) {
	m := must.Have(workloadtest.Builder(t, "", "run1", 7).Layout(t.Context(), workloadtest.Work(t, 10)))(t)
	must.Do(t, m.UseRing(int64(10*m.Largest())))
	expect.Equal(t, testing.AllocsPerRun(100, func() { m.Whole(3) }), 1, "allocations, of which one is the request")
	must.Do(t, m.Free())
}
