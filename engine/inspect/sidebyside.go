package inspect

import "path/filepath"

const (
	quantityWidth = 26 // of the labels
	reportWidth   = 18 // of a report's column: three fit into 80
)

// sideBySide prints the findings of each report, then a column for each, as many beside each other as fit.
func (p *page) sideBySide(reports []*Report) {
	for _, r := range reports {
		if len(r.Findings) > 0 {
			p.Line(shorten(r.Trace, p.Width))
			p.findings(r)
		}
	}
	perBand := (p.Width - quantityWidth) / reportWidth
	var names []string
	for _, name := range shortNames(reports) {
		names = append(names, shorten(name, reportWidth-2))
	}
	all := tables(reports)
	for from := 0; from < len(reports); from += perBand {
		to := min(len(reports), from+perBand)
		heads := names[from:to]
		for i, t := range all {
			if i > 0 || from > 0 {
				p.Line("")
			}
			p.row(t.Title, quantityWidth, []int{reportWidth}, heads...)
			heads = nil
			for _, row := range t.Rows {
				p.row("  "+row[0], quantityWidth, []int{reportWidth}, row[1+from:1+to]...)
			}
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
