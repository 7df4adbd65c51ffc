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
		j.missing = len(j.values) == 0
		j.spread = spreadOf(j.values)
		out = append(out, j)
	}
	return out
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

// besideText is what stands beside the bar in the same runs, and how many times ours that is.
func (r *results) besideText(b *bar) string {
	other := b.beside
	if other == (key{}) {
		other = b.by
	}
	m := r.byKey[other]
	if m == nil || other == (key{}) {
		return ""
	}
	text := fmt.Sprintf("%s: %s", other.Who, m.unit.spread(spreadOf(m.values(r.runs))))
	if times := r.over(other, b.of); len(times) > 0 {
		text += fmt.Sprintf(", %s ours", ratio.text(median(times)))
	}
	return text
}
