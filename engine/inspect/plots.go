package inspect

import (
	"slices"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// plots prints what is better seen than read.
func (p *page) plots(r *Report) {
	p.timeline(r)
	p.Line("")
	p.beside(p.histogram("input tokens", r.InputTokens.Histogram, lengthRange), p.histogram("output tokens", r.OutputTokens.Histogram, lengthRange))
	if u := r.Reuse; u != nil && u.References > 0 {
		p.Line("")
		p.beside(p.histogram("block reused after", u.TimeHistogram, timeRange), p.histogram("other tokens used since", u.TokensHistogram, func(b Bin) string {
			return format.Short(b.From) + "–" + format.Short(b.To)
		}))
	}
}

// timelineLines is the height of the plot of arrivals.
const timelineLines = 4

func (p *page) timeline(r *Report) {
	a := &r.Arrivals
	if a.Timeline == nil {
		return
	}
	p.Line("")
	p.Line("  rows by time, each column " + format.Span(a.BinS))
	for i, line := range chart.Skyline(a.Timeline, timelineLines) {
		label := ""
		if i == 0 {
			label = format.Count(slices.Max(a.Timeline))
		} else if i == timelineLines-1 {
			label = "0"
		}
		p.Line(format.Right(label, 9) + " ┤" + line)
	}
	end := format.Span(a.SpanS)
	p.Line(format.Left("", 11) + format.Left("0", timelineBins-format.Columns(end)) + end)
}

// histogram draws bins as lines of half a page.
func (p *page) histogram(title string, bins []Bin, name func(Bin) string) []string {
	const label, number = 17, 9
	cells, most := p.Width/2-label-number-2, int64(1)
	for _, b := range bins {
		most = max(most, b.Count)
	}
	lines := []string{"  " + title}
	for _, b := range bins {
		drawn := chart.Bar(float64(b.Count)/float64(most), cells)
		lines = append(lines, format.Right(name(b), label)+" "+format.Left(drawn, cells)+format.Right(format.Count(b.Count), number))
	}
	return lines
}

// lengthRange prints a bin of whole numbers, both ends included.
func lengthRange(b Bin) string {
	if b.To == b.From+1 {
		return whole(b.From)
	}
	return whole(b.From) + "–" + whole(b.To-1)
}

// timeRange names a bin of timeEdges.
func timeRange(b Bin) string {
	return [...]string{
		"at once", "below 1 s", "1–3 s", "3–10 s", "10–30 s", "30 s–1 min", "1–3 min", "3–10 min", "10–30 min", "30 min–1 h", "1–3 h", "3–12 h", "12 h–1 d",
		"1–7 d", "above 7 d",
	}[slices.Index(timeEdges(), b.From)]
}
