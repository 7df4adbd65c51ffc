package report

import "github.com/fastreplay/fastreplay/engine/metrics"

// routing prints the hits that prefix caches could have had by who routes.
func (p *page) routing(s *metrics.Summary) {
	if s.Routing != nil {
		s.Routing.Print(&p.Page)
	}
}
