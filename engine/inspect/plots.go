package inspect

import "math"

// plots prints what is better seen than read.
func (p *page) plots(r *Report) {
	p.timeline(r)
	p.line("")
	p.beside(p.histogram("input tokens", r.InputTokens.Histogram, short), p.histogram("output tokens", r.OutputTokens.Histogram, short))
	if u := r.Reuse; u != nil && u.References > 0 {
		p.line("")
		p.beside(p.histogram("block reused after", u.TimeHistogram, step), p.histogram("other tokens since", u.TokensHistogram, short))
	}
}

// timelineLines is the height of the plot of arrivals.
const timelineLines = 4

func (p *page) timeline(r *Report) {
	a := &r.Arrivals
	if a.Timeline == nil {
		return
	}
	p.line("")
	p.line("  rows by time, each column " + duration(a.BinS))
	for i, line := range skyline(a.Timeline, timelineLines) {
		label := ""
		if i == 0 {
			label = count(peakOf(a.Timeline))
		} else if i == timelineLines-1 {
			label = "0"
		}
		p.line(right(label, 9) + " ┤" + line)
	}
	end := duration(a.SpanS)
	p.line(left("", 11) + left("0", timelineBins-columns(end)) + end)
}

// histogram draws bins as lines of half a page.
func (p *page) histogram(title string, bins []Bin, edge func(float64) string) []string {
	const label, number = 13, 10
	cells := p.width/2 - label - number - 3
	lines := []string{"  " + title}
	for _, b := range bins {
		text := edge(b.From) + " –"
		if b.To == timeEdges()[1] {
			text = "at once"
		}
		lines = append(lines, right(text, label)+" "+left(bar(float64(b.Count)/float64(mostOf(bins)), cells), cells)+right(count(b.Count), number))
	}
	return lines
}

// step prints an edge of the time bins, a whole number of its unit.
func step(s float64) string {
	for _, u := range []struct {
		unit string
		s    float64
	}{{" d", 86400}, {" h", 3600}, {" min", 60}} {
		if s >= u.s {
			return short(s/u.s) + u.unit
		}
	}
	return short(math.Floor(s)) + " s"
}
