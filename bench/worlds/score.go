package worlds

import (
	"fmt"
	"math"
)

// Share counts how often something held.
type Share struct{ Hits, Of int }

// Add counts once more.
func (s *Share) Add(hit bool) {
	s.Of++
	if hit {
		s.Hits++
	}
}

// Wilson returns the 95 % interval of the true share.
func (s Share) Wilson() (low, high float64) {
	if s.Of == 0 {
		return 0, 1
	}
	const z = 1.96
	n := float64(s.Of)
	p := float64(s.Hits) / n
	middle, reach := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, middle-reach) / (1 + z*z/n), (middle + reach) / (1 + z*z/n)
}

// String returns the share in percent and its interval.
func (s Share) String() string {
	if s.Of == 0 {
		return "–"
	}
	low, high := s.Wilson()
	return fmt.Sprintf("%.1f [%.1f, %.1f]", 100*float64(s.Hits)/float64(s.Of), 100*low, 100*high)
}

// Score counts how often a method's intervals were right in a world.
type Score struct {
	Answered Share
	Covers   Share // of the answers: those whose interval holds the truth
	False    Share // of the answers: those that claim a change, and there is none or one of the other sign
	Finds    Share // of the trials with a true change: those that claim it
}

// Add counts an interval of a change. If the method does not know, low and high are NaN.
func (s *Score) Add(low, high, truth float64) {
	known := !math.IsNaN(low) && !math.IsNaN(high)
	s.Answered.Add(known)
	if truth != 0 {
		s.Finds.Add(known && (low > 0 && truth > 0 || high < 0 && truth < 0))
	}
	if known {
		const rounding = 1e-9 // of intervals of width 0
		s.Covers.Add(low-rounding <= truth && truth <= high+rounding)
		s.False.Add(low > 0 && truth <= 0 || high < 0 && truth >= 0)
	}
}

// ScoreHead is the head of the table of scores, in percent.
var ScoreHead = row("world", "answered", "covers", "false", "finds")

// Row returns a line of the table of scores.
func (s Score) Row(world string) string {
	return row(world, s.Answered.String(), s.Covers.String(), s.False.String(), s.Finds.String())
}

// Gates counts how often a gate's word was wrong in a world.
type Gates struct {
	Passed    Share // wrongly: of the trials whose change lies beyond the limit
	Failed    Share // wrongly: of the trials whose change does not
	Undecided Share
}

// Add counts a gate's word: passed, failed or neither.
func (g *Gates) Add(passed, failed bool, truth, limit float64) {
	g.Undecided.Add(!passed && !failed)
	if truth > limit {
		g.Passed.Add(passed)
	} else {
		g.Failed.Add(failed)
	}
}

// GatesHead is the head of the table of gates, in percent.
var GatesHead = row("world", "passed wrongly", "failed wrongly", "undecided")

// Row returns a line of the table of gates.
func (g Gates) Row(world string) string {
	return row(world, g.Passed.String(), g.Failed.String(), g.Undecided.String())
}

func row(world string, cells ...string) string {
	out := fmt.Sprintf("%-16s", world)
	for _, cell := range cells {
		out += fmt.Sprintf("%22s", cell)
	}
	return out
}
