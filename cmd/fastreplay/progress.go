package main

import (
	"io"
	"log"
	"math"
	"net"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// progressFlags say how a run is watched.
type progressFlags struct {
	mode        string
	quiet       bool
	metricsAddr string
	listener    net.Listener // of metricsAddr; nil = nobody is served
}

// meter returns the meter of a run that is built, with what is known of it.
func (b *built) meter(known *report.Plan) *live.Meter {
	until := b.Plan.UntilNS
	if b.o.pacing.duration == 0 {
		until = math.MaxInt64
	}
	wait := b.o.timeout
	if b.o.cutAfter() > 0 {
		wait = min(wait, b.o.drain)
	}
	return live.NewMeter(live.Plan{
		Title: report.Title(&metrics.Summary{Run: known.Run, Workload: known.Workload, Amplify: b.amplify}), Version: buildVersion(), Targets: b.URLs(), ReleaseNS: b.Plan.ReleaseNS, ByClock: b.Plan.ByClock(), UntilNS: until,
		Requests: int64(b.Requests()), MaxDriftNS: int64(b.o.limits.MaxDriftMS * 1e6),
		TimeoutNS: int64(wait), DrainNS: int64(b.o.drain), Quits: b.takesKeys(),
	})
}

// takesKeys reports whether standard input is a terminal that is ours; it may be the trace.
func (b *built) takesKeys() bool { return !slices.Contains(b.o.traces, "-") && foreground(os.Stdin) }

// counts are what the run counts, as a meter takes it.
func counts(run *engine.Run) live.Counts {
	p := run.Progress()
	sent := p.Sent - p.Resent
	return live.Counts{NowNS: max(0, p.NowNS), Sent: sent, OK: p.OK, Left: p.Left, Stopping: p.Stopping,
		InFlight: max(0, sent-p.OK-p.Failed+p.Unsent)}
}

// watchRun shows how the run goes, until end is called. The key q interrupts it, once.
func (b *built) watchRun(run *engine.Run, meter *live.Meter, interrupts *interrupts) (end func()) {
	v := view{
		screen: func(width, height int) string { return live.Screen(meter.Snapshot(counts(run)), width, height) },
		line:   func() string { return live.Line(meter.Snapshot(counts(run))) },
	}
	if b.takesKeys() {
		v.quit = func() { interrupts.interrupt(true) }
	}
	return b.ui.watch(v)
}

// Limits of the server of --metrics-addr.
const (
	metricsTimeout     = 10 * time.Second
	metricsConnections = 16
)

// serveMetrics serves the page of metrics on l until it is closed.
func serveMetrics(l net.Listener, page func() []byte) {
	server := &fasthttp.Server{
		Name: "fastreplay", ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, Concurrency: metricsConnections, CloseOnShutdown: true,
		Logger: log.New(io.Discard, "", 0), // what its clients do wrong
		Handler: func(c *fasthttp.RequestCtx) {
			if path := string(c.Path()); path != "/metrics" && path != "/" {
				c.Error("the metrics are at /metrics\n", fasthttp.StatusNotFound)
				return
			}
			c.SetContentType("text/plain; version=0.0.4; charset=utf-8")
			c.SetBody(page())
		},
	}
	_ = server.Serve(l) // until it is closed
}
