package inspect

import (
	"path/filepath"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

const (
	quantityWidth = 26 // of the labels
	reportWidth   = 18 // of a report's column: three fit into 80
)

// sideBySide prints the findings of each report, then a column for each.
func (p *page) sideBySide(reports []*Report) {
	for _, r := range reports {
		if len(r.Findings) > 0 {
			p.Line(shorten(r.Trace, p.Width))
			p.findings(r)
		}
	}
	perBand := (p.Width - quantityWidth) / reportWidth
	all, names := sections(reports), shortNames(reports)
	for from := 0; from < len(reports); from += perBand {
		if from > 0 {
			p.Line("")
		}
		to := min(len(reports), from+perBand)
		p.band(all, reports[from:to], names[from:to])
	}
}

// band prints as many reports as fit beside each other.
func (p *page) band(all []section, reports []*Report, names []string) {
	for i, s := range all {
		head := human.Left(s.title, quantityWidth)
		if i > 0 {
			p.Line("")
		}
		for _, name := range names {
			if i == 0 {
				head += human.Right(shorten(name, reportWidth-2), reportWidth)
			}
		}
		p.Line(head)
		for _, q := range s.quantities {
			line := human.Left("  "+q.label, quantityWidth)
			for _, r := range reports {
				line += human.Right(q.of(r), reportWidth)
			}
			p.Line(line)
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
