package worlds

import (
	"reflect"
	"testing"
)

// TestRunIsFixed: seed and run fix all, the trace depends on the seed alone.
func TestRunIsFixed(t *testing.T) {
	for _, w := range Worlds() {
		a, again, b := w.Run(7, 0, 500, 1), w.Run(7, 0, 500, 1), w.Run(7, 1, 500, 1)
		if !reflect.DeepEqual(a, again) {
			t.Errorf("%s: one run, told twice, differs", w.Name)
		}
		same := 0
		for i := range a {
			if a[i].At != b[i].At || a[i].Conversation != b[i].Conversation || a[i].Output != b[i].Output {
				t.Fatalf("%s: request %d differs in the trace: %+v, %+v", w.Name, i, a[i], b[i])
			}
			if a[i].OK && a[i].TTFT == b[i].TTFT {
				same++
			}
		}
		if same > 0 && w.Name != "ticks" {
			t.Errorf("%s: %d requests of two runs have one TTFT", w.Name, same)
		}
	}
}
