package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// The values of Scrape.Mode.
const (
	ScrapeAuto = "auto"
	ScrapeOn   = "on"
	ScrapeOff  = "off"
)

// Scrape says whether, how often and where the servers' own metrics are read.
type Scrape struct {
	Mode     string        // ScrapeAuto, ScrapeOn or ScrapeOff
	Interval time.Duration // from one reading to the next
	URLs     []string      // pages to read in place of the targets' own
}

// Demanded reports whether a page that cannot be read is an error.
func (f *Scrape) Demanded() bool { return f.Mode == ScrapeOn || len(f.URLs) > 0 }

// checkMetrics reads the pages that must be there, before requests are built for nothing.
func (p *Prepared) checkMetrics(ctx context.Context) error {
	if p.o.DryRun || !p.o.Scrape.Demanded() {
		return nil
	}
	_, _, err := p.ReadServers(ctx)
	return err
}

// ReadServers reads every page once. silent says why pages that are not demanded cannot be.
func (p *Prepared) ReadServers(ctx context.Context) (s *probe.Scraper, silent []error, err error) {
	f := &p.o.Scrape
	s, silent, err = p.Prober.Scraper(ctx, f.URLs, f.Interval)
	switch {
	case err != nil || len(silent) == 0:
	case len(f.URLs) > 0:
		err = fmt.Errorf("--scrape-url: metrics cannot be read: %w; correct it or leave it out", silent[0])
	case f.Demanded():
		err = fmt.Errorf("--scrape on: metrics cannot be read: %w; use --scrape auto to run without them", silent[0])
	}
	return s, silent, err
}

// WarmUp lets the servers answer some requests before the measurement, which has none of them.
func (p *Prepared) WarmUp(ctx context.Context) error {
	if p.o.Warmup == 0 || p.o.Sessions.Snapshot != nil {
		return nil
	}
	p.line("warm-up: %s, outside of the measurement", format.Requests(p.o.Warmup))
	began := time.Now()
	prober := *p.Prober
	prober.Timeout = p.o.Timeout
	prober.Backend = p.probeBackend
	if err := prober.WarmUp(ctx, p.Work, p.source, p.o.Warmup, p.o.Pacing.Concurrency, p.salt); err != nil {
		return err
	}
	p.detail("         answered in %s", format.Duration(time.Since(began), 3))
	return nil
}
