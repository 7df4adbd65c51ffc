package worlds

import (
	"math"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestScore counts answers by hand.
func TestScore(t *testing.T) {
	var s Score
	s.Add(-1, 1, 0)                  // right
	s.Add(0.5, 1, 0)                 // claims a change where there is none
	s.Add(0.5, 1, 2)                 // finds the change, misses its size
	s.Add(-1, -0.5, 2)               // claims the other sign
	s.Add(math.NaN(), math.NaN(), 2) // does not know
	want := Score{Answered: Share{4, 5}, Covers: Share{1, 4}, False: Share{2, 4}, Finds: Share{1, 3}}
	expect.Equal(t, s, want)
	var g Gates
	g.Add(true, false, 3, 2)  // passes what is too slow
	g.Add(false, true, 3, 2)  // right
	g.Add(false, true, 2, 2)  // fails what keeps the limit
	g.Add(false, false, 2, 2) // undecided
	expect.Equal(t, g, (Gates{Passed: Share{1, 2}, Failed: Share{1, 2}, Undecided: Share{1, 4}}))
}

// TestWilson: the interval of 4 of 100 is the published one.
func TestWilson(t *testing.T) {
	expect.Equal(t, (Share{4, 100}).String(), "4.0 [1.6, 9.8]")
	expect.Equal(t, (Share{}).String(), "–")
}
