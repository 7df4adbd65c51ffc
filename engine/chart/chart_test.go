package chart

import "testing"

// TestBlocks: what is above 0 is seen, and the highest fills its cells.
func TestBlocks(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.0001: "▏", 0.25: "█", 0.3: "█▎", 1: "████"} {
		if got := Bar(share, 4); got != want {
			t.Errorf("Bar(%v) = %q, want %q", share, got, want)
		}
	}
	if got := Skyline([]int64{0, 1, 50, 100}, 2); got[0] != "   █" || got[1] != " ▁██" {
		t.Errorf("Skyline: %q", got)
	}
}
