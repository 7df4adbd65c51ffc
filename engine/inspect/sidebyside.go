package inspect

import "path/filepath"

const (
	quantityWidth = 26 // of the labels
	reportWidth   = 18 // of a report's column: three fit into 80
)

// sideBySide prints the findings of each report, then a column for each.
func (p *page) sideBySide(reports []*Report) {
	for _, r := range reports {
		if len(r.Findings) > 0 {
			p.line(shorten(r.Trace, p.width))
			p.findings(r)
		}
	}
	perBand := (p.width - quantityWidth) / reportWidth
	all, names := sections(reports), shortNames(reports)
	for from := 0; from < len(reports); from += perBand {
		if from > 0 {
			p.line("")
		}
		to := min(len(reports), from+perBand)
		p.band(all, reports[from:to], names[from:to])
	}
}

// band prints as many reports as fit beside each other.
func (p *page) band(all []section, reports []*Report, names []string) {
	for i, s := range all {
		head := left(s.title, quantityWidth)
		if i > 0 {
			p.line("")
		}
		for _, name := range names {
			if i == 0 {
				head += right(shorten(name, reportWidth-2), reportWidth)
			}
		}
		p.line(head)
		for _, q := range s.quantities {
			line := left("  "+q.label, quantityWidth)
			for _, r := range reports {
				line += right(q.of(r), reportWidth)
			}
			p.line(line)
		}
	}
}

// shortNames are the files' names without their folders, where that tells them apart.
func shortNames(reports []*Report) []string {
	full, short := make([]string, len(reports)), make([]string, len(reports))
	seen := map[string]bool{}
	for i, r := range reports {
		full[i], short[i] = r.Trace, filepath.Base(r.Trace)
		seen[short[i]] = true
	}
	if len(seen) < len(reports) {
		return full
	}
	return short
}
