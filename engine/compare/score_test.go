package compare

import (
	"fmt"
	"math"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/worlds"
)

// score counts how often a method's intervals were right in a world.
type score struct {
	Answered worlds.Share
	Covers   worlds.Share // of the answers: those whose interval holds the truth
	False    worlds.Share // of the answers: those that claim a change, and there is none or one of the other sign
}

// Add counts an interval of a change. If the method does not know, low and high are NaN.
func (s *score) Add(low, high, truth float64) {
	known := !math.IsNaN(low) && !math.IsNaN(high)
	s.Answered.Add(known)
	if known {
		const rounding = 1e-9 // of intervals of width 0
		s.Covers.Add(low-rounding <= truth && truth <= high+rounding)
		s.False.Add(low > 0 && truth <= 0 || high < 0 && truth >= 0)
	}
}

// scoreHead is the head of the table of scores, in percent.
var scoreHead = line("world", "answered", "covers", "false")

// Row returns a line of the table of scores.
func (s score) Row(world string) string {
	return line(world, s.Answered.String(), s.Covers.String(), s.False.String())
}

// gates counts how often a gate's word was wrong in a world.
type gates struct {
	Passed    worlds.Share // wrongly: of the trials whose change lies beyond the limit
	Failed    worlds.Share // wrongly: of the trials whose change does not
	Undecided worlds.Share
}

// Add counts a gate's word: passed, failed or neither.
func (g *gates) Add(passed, failed bool, truth, limit float64) {
	g.Undecided.Add(!passed && !failed)
	if truth > limit {
		g.Passed.Add(passed)
	} else {
		g.Failed.Add(failed)
	}
}

// gatesHead is the head of the table of gates, in percent.
var gatesHead = line("world", "passed wrongly", "failed wrongly", "undecided")

// Row returns a line of the table of gates.
func (g gates) Row(world string) string {
	return line(world, g.Passed.String(), g.Failed.String(), g.Undecided.String())
}

func line(world string, cells ...string) string {
	out := fmt.Sprintf("%-16s", world)
	for _, cell := range cells {
		out += fmt.Sprintf("%22s", cell)
	}
	return out
}

// TestScore counts answers by hand.
func TestScore(t *testing.T) {
	of := func(hits, all int) worlds.Share { return worlds.Share{Hits: hits, Of: all} }
	var s score
	s.Add(-1, 1, 0)                  // right
	s.Add(0.5, 1, 0)                 // claims a change where there is none
	s.Add(0.5, 1, 2)                 // finds the change, misses its size
	s.Add(-1, -0.5, 2)               // claims the other sign
	s.Add(math.NaN(), math.NaN(), 2) // does not know
	want := score{Answered: of(4, 5), Covers: of(1, 4), False: of(2, 4)}
	expect.Equal(t, s, want)
	var g gates
	g.Add(true, false, 3, 2)  // passes what is too slow
	g.Add(false, true, 3, 2)  // right
	g.Add(false, true, 2, 2)  // fails what keeps the limit
	g.Add(false, false, 2, 2) // undecided
	expect.Equal(t, g, (gates{Passed: of(1, 2), Failed: of(1, 2), Undecided: of(1, 4)}))
}
