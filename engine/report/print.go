package report

import (
	"io"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// PrintOptions says how a summary is printed. The zero value is 80 columns
// without colour.
type PrintOptions struct {
	Width  int    // columns of the terminal; 0 = 80
	Colour bool   // ANSI colours
	Dir    string // where the results are; "" prints no such line
}

// Print writes the summary for people: the verdict first, then what became of
// the requests, the latencies, and how the client itself fared. Lines are at
// most 100 columns, and fit into 80.
func Print(w io.Writer, s *metrics.Summary, o PrintOptions) error {
	p := newPage(o)
	p.verdict(s)
	p.run(s)
	p.requests(s)
	p.latencies(s)
	p.totals(s)
	p.targets(s)
	if s.Routing != nil {
		s.Routing.Print(&p.Page)
	}
	p.notes(s)
	_, err := w.Write(p.Bytes())
	return err
}
