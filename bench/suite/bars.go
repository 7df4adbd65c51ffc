package main

import "fmt"

// bar is what a measure must reach: at most, or at least, limit. With by set, the ratio of the two within each run must.
type bar struct {
	of, by  key
	limit   float64
	atLeast bool
	beside  key // a rival's or the floor's measure, shown with the ratio to ours
}

// judged is a bar with what was measured.
type judged struct {
	bar
	unit    unit
	spread  spread
	values  []float64
	missing bool
}

func (j *judged) met() bool {
	if j.atLeast {
		return j.spread.Median >= j.limit
	}
	return j.spread.Median <= j.limit
}

// judge measures every bar whose numbers are there; others are missing.
func (r *results) judge(all []bar) []judged {
	out := make([]judged, 0, len(all))
	for _, b := range all {
		j := judged{bar: b, unit: ratio}
		if b.by != (key{}) {
			j.values = r.over(b.of, b.by)
		} else if m := r.byKey[b.of]; m != nil {
			j.values, j.unit = m.values(r.runs), m.unit
		}
		if j.missing = len(j.values) == 0; j.missing && b.by == (key{}) {
			j.unit = r.unitOf(b.of, b.beside)
		}
		j.spread = spreadOf(j.values)
		out = append(out, j)
	}
	return out
}

// unitOf is the unit that a missing measure would have: that of what stands beside it, else of any measure so named; without
// either, plain numbers.
func (r *results) unitOf(missing, beside key) unit {
	if m := r.byKey[beside]; m != nil {
		return m.unit
	}
	for _, m := range r.order {
		if m.Name == missing.Name {
			return m.unit
		}
	}
	return count
}

// text is the bar in words.
func (b *bar) text(u unit) string {
	sign := "≤"
	if b.atLeast {
		sign = "≥"
	}
	if b.by == (key{}) {
		return fmt.Sprintf("%s %s", sign, u.text(b.limit))
	}
	return fmt.Sprintf("%s %s that of %s", sign, u.text(b.limit), b.by.Who)
}

// besideText is what stands beside the bar in the same runs, and how many times that ours is.
func (r *results) besideText(b *bar) string {
	measured := func(k key) string {
		m := r.byKey[k]
		if m == nil {
			return ""
		}
		return m.unit.spread(spreadOf(m.values(r.runs)))
	}
	if of, by := measured(b.of), measured(b.by); b.by != (key{}) {
		if of == "" || by == "" {
			return ""
		}
		return of + " against " + by
	}
	beside := measured(b.beside)
	if beside == "" {
		return ""
	}
	if times := r.over(b.of, b.beside); len(times) > 0 {
		return fmt.Sprintf("%s that of %s, %s", ratio.text(median(times)), b.beside.Who, beside)
	}
	return fmt.Sprintf("%s: %s", b.beside.Who, beside)
}
