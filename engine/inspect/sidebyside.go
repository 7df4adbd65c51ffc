package inspect

const (
	quantityWidth = 26 // of the labels
	narrowest     = 28 // of a report's column: what the LRU table needs
)

// sideBySide prints a column for each report, and the findings of each above.
func (p *page) sideBySide(reports []*Report) {
	for _, r := range reports {
		if len(r.Findings) > 0 {
			p.line(shorten(r.Trace, p.width))
			p.findings(r)
		}
	}
	width := max(narrowest, (p.width-quantityWidth)/len(reports))
	perBand := max(1, (p.width-quantityWidth)/width)
	for from := 0; from < len(reports); from += perBand {
		if from > 0 {
			p.line("")
		}
		p.band(reports, reports[from:min(len(reports), from+perBand)], width)
	}
}

// band prints as many reports as fit beside each other, with the lines that all of them share.
func (p *page) band(all, reports []*Report, width int) {
	head := left("", quantityWidth)
	for _, r := range reports {
		head += right(shorten(r.Trace, width-2), width)
	}
	p.line(head)
	for _, s := range sections(all) {
		if s.title != "" {
			p.line("")
			p.line("  " + s.title)
		}
		for _, q := range s.quantities {
			line := left("  "+q.label, quantityWidth)
			for _, r := range reports {
				line += right(q.of(r), width)
			}
			p.line(line)
		}
	}
}
