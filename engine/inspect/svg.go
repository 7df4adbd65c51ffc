package inspect

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// drawing is a picture of a report; nil where the trace does not have what it shows.
type drawing struct {
	*chart.Drawing
	title string
	keys  []string // what its lines are; none for bars
}

// drawings are the pictures of a report, in the same order for each.
func drawings(r *Report) []drawing {
	all := []drawing{{timeline(r), "Rows by time", nil}}
	for _, h := range histograms(r) {
		all = append(all, drawing{h.draw(), h.title, nil})
	}
	const held = "Tokens that an LRU cache would have held, by capacity in tokens"
	return slices.Insert(all, 3, drawing{curves(r), held, []string{"in order", "tail first"}})
}

// timeline draws rows by time; nil where the trace has no times.
func timeline(r *Report) *chart.Drawing {
	a := &r.Arrivals
	if a.Timeline == nil {
		return nil
	}
	d := chart.New(float64(max(1, slices.Max(a.Timeline))), format.Short)
	for i, c := range a.Timeline {
		from := duration(float64(i) * a.BinS)
		d.Bar("bar", i, len(a.Timeline), float64(c), fmt.Sprintf("from %s: %s rows in %s", from, count(c), duration(a.BinS)))
	}
	d.Ends(duration(a.SpanS))
	return d
}

// draw draws a histogram; nil where it is empty.
func (h *histogram) draw() *chart.Drawing {
	if len(h.bins) == 0 {
		return nil
	}
	d := chart.New(mostOf(h.bins), format.Short)
	for i, b := range h.bins {
		d.Bar("bar", i, len(h.bins), float64(b.Count), h.name(b)+": "+count(b.Count))
		if every := (len(h.bins) + 7) / 8; i%every == 0 {
			text := h.edge(b.From)
			if b.To == timeEdges()[1] {
				text = "at once"
			}
			d.Below(float64(i)/float64(len(h.bins)), "start", text)
		}
	}
	return d
}

// curves draws the hits of LRU caches by capacity; nil where they are not known.
func curves(r *Report) *chart.Drawing {
	if r.Cache == nil || len(r.Cache.Curve) < 2 {
		return nil
	}
	points := r.Cache.Curve
	log := func(p Capacity) float64 { return math.Log10(float64(p.Tokens)) }
	low, high := log(points[0]), log(points[len(points)-1])
	at := func(log float64) float64 { return (log - low) / math.Max(1e-9, high-low) }
	most := math.Max(0.1, math.Ceil(r.Cache.Infinite.Tokens*10)/10)
	d := chart.New(most, func(v float64) string { return whole(100*v) + " %" })
	for decade := math.Ceil(low); decade <= high; decade++ {
		d.Mark(at(decade), format.Short(math.Pow(10, decade)))
	}
	d.Line("first", len(points), func(i int) (float64, *float64) { return at(log(points[i])), &points[i].TokenRatio })
	d.Line("second", len(points), func(i int) (float64, *float64) { return at(log(points[i])), &points[i].TailFirstTokens })
	return d
}
