package main

import (
	"fmt"
	"math"
)

// key names a measure: what was measured of whom in which scenario.
type key struct {
	Scenario string `json:"scenario"`
	Who      string `json:"who"`
	Name     string `json:"name"`
}

// measure is one number in each run.
type measure struct {
	key
	unit unit
	runs map[int]float64
}

// values are the runs' values in order; runs without one are left out.
func (m *measure) values(runs int) []float64 {
	var out []float64
	for i := range runs {
		if v, ok := m.runs[i]; ok {
			out = append(out, v)
		}
	}
	return out
}

// results collects measures in the order in which they first came.
type results struct {
	runs    int // begun so far
	order   []*measure
	byKey   map[key]*measure
	skipped []string
}

func newResults() *results { return &results{byKey: map[key]*measure{}} }

// put notes a value; NaN, a measure without samples, is left out.
func (r *results) put(run int, k key, u unit, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	m := r.byKey[k]
	if m == nil {
		m = &measure{key: k, unit: u, runs: map[int]float64{}}
		r.byKey[k] = m
		r.order = append(r.order, m)
	}
	m.runs[run] = v
	r.runs = max(r.runs, run+1)
}

// skip notes, once, what was not measured and why.
func (r *results) skip(scenario, why string) {
	line := fmt.Sprintf("%s: %s", scenario, why)
	for _, s := range r.skipped {
		if s == line {
			return
		}
	}
	r.skipped = append(r.skipped, line)
}

// over divides one measure by another within each run that has both.
func (r *results) over(of, by key) []float64 {
	a, b := r.byKey[of], r.byKey[by]
	if a == nil || b == nil {
		return nil
	}
	var out []float64
	for i := range r.runs {
		x, hasX := a.runs[i]
		y, hasY := b.runs[i]
		if hasX && hasY && y != 0 {
			out = append(out, x/y)
		}
	}
	return out
}
