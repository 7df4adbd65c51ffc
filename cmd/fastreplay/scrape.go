package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// The values of --scrape.
const (
	scrapeAuto = "auto"
	scrapeOn   = "on"
	scrapeOff  = "off"
)

// scrapeFlags say whether, how often and where the servers' own metrics are read.
type scrapeFlags struct {
	mode     string
	interval time.Duration
	urls     []string
	given    func(flag string) bool
}

// leastScrapeInterval keeps a server from being asked more than it can bear.
const leastScrapeInterval = 100 * time.Millisecond

func (f *scrapeFlags) check() error {
	switch {
	case f.interval < leastScrapeInterval:
		return fmt.Errorf("--scrape-interval is %v; want at least %v", f.interval, leastScrapeInterval)
	case f.mode == scrapeOff && (len(f.urls) > 0 || f.given("scrape-interval")):
		return errors.New("--scrape-url, --scrape-interval: --scrape is off")
	}
	for _, url := range f.urls {
		if _, err := probe.ParseScrapeTarget(url); err != nil {
			return err
		}
	}
	return nil
}

// demanded reports whether a page that cannot be read is an error.
func (f *scrapeFlags) demanded() bool { return f.mode == scrapeOn || len(f.urls) > 0 }

// checkMetrics reads the pages that must be there, before requests are built for nothing.
func (p *prepared) checkMetrics(ctx context.Context) error {
	if p.o.dryRun || !p.o.scrape.demanded() {
		return nil
	}
	_, _, err := p.readServers(ctx)
	return err
}

// readServers reads every page once. silent says why pages that are not demanded cannot be.
func (p *prepared) readServers(ctx context.Context) (s *probe.Scraper, silent []error, err error) {
	f := &p.o.scrape
	s, silent, err = p.prober.Scraper(ctx, f.urls, f.interval)
	switch {
	case err != nil || len(silent) == 0:
	case len(f.urls) > 0:
		err = fmt.Errorf("--scrape-url: metrics cannot be read: %w; correct it or leave it out", silent[0])
	case f.demanded():
		err = fmt.Errorf("--scrape on: metrics cannot be read: %w; use --scrape auto to run without them", silent[0])
	}
	return s, silent, err
}

// serverWatch takes the samples of a run to disk and sums them up. The scraper calls sample, one call at a time.
type serverWatch struct {
	scraper *probe.Scraper // nil = nobody is read
	every   time.Duration
	file    *report.SampleWriter
	err     error // of writing; known from end on
	sums    *scrape.Watch
	meter   *live.Meter // gets the latest, for who watches the run
	run     *engine.Run // nil before it starts
	whole   bool
	counted [2]int64 // from when until when all pages count, ns since the start
}

// watchServers takes the samples before the run and opens the file of samples in dir.
func (p *prepared) watchServers(ctx context.Context, dir string) (*serverWatch, error) {
	w := &serverWatch{every: p.o.scrape.interval}
	if f := &p.o.scrape; f.mode == scrapeOff || p.o.noProbe && !f.demanded() { // servers that may not be probed are read only on demand
		return w, nil
	}
	var silent []error
	var err error
	if w.scraper, silent, err = p.readServers(ctx); err != nil {
		return w, err
	}
	if w.scraper == nil {
		return w, nil
	}
	pages := len(w.scraper.Targets())
	if len(silent) > 0 {
		p.ui.note("no metrics can be read from %d of %s, such as %v", len(silent), format.Many(len(silent)+pages, "server"), silent[0])
	}
	w.whole = len(p.o.scrape.urls) == 0 && len(silent) == 0
	w.sums = scrape.NewWatch(w.scraper.Targets())
	if w.file, err = report.NewSampleWriter(dir, p.ui.removed); err != nil {
		return w, err
	}
	p.ui.detail("servers: metrics of %s are read every %s", format.Many(pages, "page"), format.Duration(w.every, 3))
	return w, nil
}

// lookAgain takes the samples before the run, which begins at start, anew, as late as ctx allows: other shards have sent probes meanwhile.
func (w *serverWatch) lookAgain(ctx context.Context, start time.Time) {
	if w.scraper != nil {
		w.counted[0] = int64(w.scraper.Again(ctx).Sub(start))
	}
}

// start begins to sample.
func (w *serverWatch) start(run *engine.Run, meter *live.Meter) {
	if w.scraper != nil {
		w.meter, w.run, w.counted[1] = meter, run, math.MaxInt64
		w.scraper.Start(run.Clock(), w.sample)
	}
}

// sample takes one to disk at once, so that it outlives us.
func (w *serverWatch) sample(page int, s *scrape.Sample) {
	if s.Phase == scrape.During && !w.run.Began(s.AtNS) {
		return // by a clock that does not count from the start yet: a busy machine took long to start
	}
	switch s.Phase {
	case scrape.Before:
		s.AtNS = -1e9
	case scrape.After:
		w.counted[1] = min(w.counted[1], s.AtNS-int64(s.TookMS*1e6)) // a server may have counted when it was asked
	}
	w.sums.Add(page, s)
	w.file.Append(s)
	w.meter.Sample(page, s)
}

// end takes the samples after the run.
func (w *serverWatch) end() {
	if w.scraper == nil {
		return
	}
	w.scraper.Stop()
	w.err = w.file.Close()
}

// summary is what all samples say; nil if there are none.
func (w *serverWatch) summary() *metrics.Servers {
	if w.scraper == nil {
		return nil
	}
	return &metrics.Servers{Servers: *w.sums.Servers(w.every.Seconds()), Whole: w.whole}
}
