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
	middle := p + z*z/(2*n)
	reach := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
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
