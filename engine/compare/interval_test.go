package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// inOrder are two sides with a run for each letter of an order such as ABBA, which start in that order.
func inOrder(order string) *matched {
	m := &matched{}
	for k, side := range order {
		r := &run{summary: new(metrics.Summary)}
		r.summary.Run.StartedAt = time.Unix(int64(k), 0)
		m.samples = append(m.samples, &sample{run: r})
		m.sides[side-'A'] = append(m.sides[side-'A'], m.samples[k])
	}
	return m
}

// TestDrift: if servers are alike and get slower from run to run, sides that were run one behind the other hold no
// change in 95 % of cases. Sides that were run by turns are as sure as before.
func TestDrift(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		order    string
		separate bool
	}{{"AAABBB", true}, {"BBBAAA", true}, {"AAAAABBBBB", true}, {"AABABB", true}, {"ABBAAB", false}, {"ABABAB", false}} {
		m := inOrder(c.order)
		if got := isSeparate(m.starts()); got != c.separate {
			t.Errorf("%s: separate %v", c.order, got)
		}
		for _, drift := range []float64{0, 0.003, 0.01} {
			const trials = 2000
			held := 0
			for range trials {
				var values, seen [2][]float64
				for k, side := range c.order {
					values[side-'A'] = append(values[side-'A'], drift*float64(k)+0.005*draw.NormFloat64())
				}
				seen = [2][]float64{slices.Clone(values[0]), slices.Clone(values[1])}
				plain := ofRuns(values[0], values[1])
				e := ofDrift(plain, values, m.starts())
				if !slices.Equal(seen[0], values[0]) || !c.separate && e != plain || e.reach < plain.reach {
					t.Fatalf("%s: %+v of %+v", c.order, e, plain)
				}
				if math.Abs(e.distance) <= e.reach {
					held++
				}
			}
			if held < trials*94/100 {
				t.Errorf("%s, a drift of %v a run: %d of %d intervals hold 0", c.order, drift, held, trials)
			}
		}
	}
}

// TestStartsTogether: runs that start together share a place.
func TestStartsTogether(t *testing.T) {
	m := inOrder("ABAB")
	for k, s := range m.sides[1] {
		s.summary.Run.StartedAt = m.sides[0][k].summary.Run.StartedAt
	}
	if got := m.starts(); !slices.Equal(got[0], []float64{0.5, 2.5}) || !slices.Equal(got[1], got[0]) {
		t.Errorf("places %v", got)
	}
}

// TestNoStarts: if a run does not say when it began, nobody knows that the sides were run by turns.
func TestNoStarts(t *testing.T) {
	m := inOrder("ABBAAB")
	m.sides[1][2].summary.Run.StartedAt = time.Time{}
	if got := m.starts(); !isSeparate(got) || !slices.Equal(got[0], []float64{0, 1, 2}) || !slices.Equal(got[1], []float64{3, 4, 5}) {
		t.Errorf("places %v", got)
	}
	undated := func(s *metrics.Summary) { s.Run.StartedAt = time.Time{} }
	a := side(t, write(t, 200, nil, noisy(1, 1)), write(t, 200, undated, noisy(2, 1)))
	b := side(t, write(t, 200, nil, noisy(3, 1)), write(t, 200, nil, noisy(4, 1)))
	if r := compared(t, a, b); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "does not say when it began") {
		t.Errorf("%q", r.Notes)
	}
}

// TestRareFailures: if a server fails seldom, the intervals of three runs a side hold by how much more another does,
// though most runs see no failure.
func TestRareFailures(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		share float64 // of B; A has none
		n     int     // requests of a run
	}{{0.002, 200}, {0.001, 500}, {0.0005, 2000}, {0.05, 500}} {
		const trials = 2000
		held := 0
		for range trials {
			m := &matched{}
			var shares [2][]float64
			for side := range 2 {
				for range 3 {
					failed := 0
					for range c.n {
						if side == 1 && draw.Float64() < c.share {
							failed++
						}
					}
					shares[side] = append(shares[side], float64(failed)/float64(c.n))
					m.sides[side] = append(m.sides[side], &sample{all: make([]*row, c.n)})
				}
			}
			e := m.ofCounts(ofRuns(shares[0], shares[1]), shares)
			if math.Abs(e.distance-c.share) <= e.reach {
				held++
			}
		}
		if held < trials*94/100 {
			t.Errorf("%v of %d: %d of %d intervals hold the truth", c.share, c.n, held, trials)
		}
	}
}
