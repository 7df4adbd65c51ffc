package report

import "github.com/fastreplay/fastreplay/engine/metrics"

// routing prints the hits that prefix caches could have had by who routes.
func (p *page) routing(s *metrics.Summary) {
	if s.Routing == nil {
		return
	}
	head, lines := s.Routing.Table()
	var rows []tableRow
	for _, line := range lines {
		rows = append(rows, tableRow{line[0], line[1:]})
	}
	p.table(head[0], rows, head[1:]...)
}
