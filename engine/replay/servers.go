package replay

import (
	"context"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// serverWatch takes the samples of a run to disk and sums them up. The scraper calls sample, one call at a time.
type serverWatch struct {
	scraper *probe.Scraper // nil = nobody is read
	every   time.Duration
	file    *report.SampleWriter
	err     error // of writing; known from end on
	sums    *scrape.Watch
	meter   *live.Meter // gets the latest, for who watches the run
	run     *engine.Run // nil before it starts
	pages   int         // at the start; others are of targets that join
	whole   bool
	counted [2]int64 // from when until when all pages count, ns since the start
}

// watchServers takes the samples before the run and opens the file of samples.
func (r *runner) watchServers(ctx context.Context) (*serverWatch, error) {
	w := &serverWatch{every: r.cfg.Scrape.Interval}
	// servers that may not be probed are read only on demand
	if f := &r.cfg.Scrape; f.Mode == setup.ScrapeOff || r.cfg.NoProbe && !f.Demanded() {
		return w, nil
	}
	var silent []error
	var err error
	if w.scraper, silent, err = r.load.ReadServers(ctx); err != nil {
		return w, err
	}
	if w.scraper == nil {
		return w, nil
	}
	pages := len(w.scraper.Targets())
	w.pages = pages
	if len(silent) > 0 {
		r.note(
			"metrics_partly",
			"no metrics can be read from %d of %s, such as %v",
			len(silent), format.Many(len(silent)+pages, "server"), silent[0],
		)
	}
	w.whole = len(r.cfg.Scrape.URLs) == 0 && len(silent) == 0
	w.sums = scrape.NewWatch(w.scraper.Targets())
	if w.file, err = report.NewSampleWriter(r.Dir, r.removed); err != nil {
		return w, err
	}
	r.notes.Say(
		setup.Detail, "",
		"servers: metrics of %s are read every %s",
		format.Many(pages, "page"), format.Duration(w.every, 3),
	)
	return w, nil
}

// lookAgain takes the samples before the run, which begins at start, anew, as late as ctx allows: other shards have
// sent probes meanwhile.
func (w *serverWatch) lookAgain(ctx context.Context, start time.Time) {
	if w.scraper != nil {
		w.counted[0] = int64(w.scraper.Again(ctx).Sub(start))
	}
}

// startAnew takes the samples before the run anew, and begins to sample.
func (w *serverWatch) startAnew(ctx context.Context, run *engine.Run, meter *live.Meter) {
	if w.scraper != nil {
		w.scraper.Again(ctx)
	}
	w.start(run, meter)
}

// start begins to sample.
func (w *serverWatch) start(run *engine.Run, meter *live.Meter) {
	if w.scraper != nil {
		w.meter = meter
		w.run = run
		w.counted[1] = math.MaxInt64
		w.scraper.Start(run.Clock(), w.sample)
	}
}

// look takes the first samples of a target that is about to join, if others are read. Once it has joined, join reads it
// on.
func (w *serverWatch) look(b *probe.Prober, t *workload.Target) (join func()) {
	if w.scraper == nil {
		return func() {}
	}
	begin, all := w.scraper.Look(b, t)
	return func() {
		begin(w.sums.Join)
		w.whole = w.whole && all
	}
}

// sample takes one to disk at once, so that it outlives us.
func (w *serverWatch) sample(page int, s *scrape.Sample) {
	if s.Phase == scrape.During && !w.run.Began(s.AtNS) {
		return // by a clock that does not count from the start yet: a busy machine took long to start
	}
	switch s.Phase {
	case scrape.Before:
		if page < w.pages {
			s.AtNS = -1e9
		}
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
