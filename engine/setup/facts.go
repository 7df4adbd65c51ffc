package setup

import (
	"time"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Load is how large the load is. The ideal hits are the least that they can be.
func (p *Prepared) Load() metrics.Load {
	l := metrics.Load{Requests: int64(p.Requests()), SpanS: float64(p.Plan.SpanNS()) / 1e9}
	if p.Plan.Open() {
		l.Peak = new(int64(p.Plan.PeakWithin(time.Second)))
		if l.SpanS > 0 {
			l.RequestsPerS = new(float64(l.Requests) / l.SpanS)
		}
	}
	if !p.verbatims.all || p.Verbatim != nil {
		least, _ := p.idealShare()
		l.HitRatio = &least
	}
	return l
}

// idealShare returns the share of the input tokens that an ideal cache would hold, at least and at most.
func (p *Prepared) idealShare() (least, most float64) {
	var tokens, low, high int64
	for i := range p.Requests() {
		if n := p.ServerTokens(i); n > 0 {
			tokens += int64(n)
			low += p.Ideal.Least[i]
			high += p.Ideal.Most[i]
		}
	}
	return float64(low) / float64(max(1, tokens)), float64(high) / float64(max(1, tokens))
}

// Run adds to what a run found how it was set up.
func (p *Prepared) Run(run metrics.Run) metrics.Run {
	pacing := &p.o.Pacing
	run.Scale = pacing.Scale
	run.Pace = pacing.Words()
	run.Arrival = pacing.Summary()
	run.Warmup = int64(p.o.Warmup)
	run.Targets = p.URLs()
	run.API = p.o.API
	run.AskedWhole = p.o.NoStream
	run.Model = p.shownModel()
	for _, name := range p.Facts.Asked {
		run.AskedModels = append(run.AskedModels, p.Prober.Secrets.Label(name))
	}
	run.Version = p.o.Version
	run.Lanes = p.ofShard(pacing.Lanes)
	if pacing.Closed() {
		run.Concurrency = p.ofShard(pacing.Concurrency)
	}
	run.Host = host.Describe()
	run.Options = p.Flags()
	run.Demo = p.Facts.Demo
	return run
}

// ofShard is how many of n this run has, if it is one of several.
func (p *Prepared) ofShard(n int) int64 {
	if p.Shard != nil {
		n = p.o.Shard.Of(n)
	}
	return int64(n)
}

// Workload is what was measured: all of the work but what prepared it. It also returns the requests that were left out
// during the run, in ascending order.
func (p *Prepared) Workload(out []int32) metrics.Workload {
	first := 0
	if d := p.Plan.Dependencies; d != nil {
		first = int(d.Prepare)
	}
	t := p.Trace
	n := p.Requests() - first - len(out)
	w := p.fitted
	w.Trace = t.Name
	w.Format = t.Format
	w.Rows = int64(t.FileRows)
	w.Requests = int64(n)
	w.Repeat = int64(p.o.Repeat)
	w.BlockTokens = int64(t.BlockTokens)
	w.RepairedRows = int64(t.Lint.Repaired)
	w.DroppedRows = int64(t.Lint.Dropped)
	w.Fingerprint = p.Prebuilt.Fingerprint()
	for i := first; i < p.Requests(); i++ {
		if len(out) > 0 && int(out[0]) == i {
			out = out[1:]
			continue
		}
		if surplus := p.SurplusTokens(i); surplus > 0 {
			w.ShortRows++
			w.ShortSurplus += int64(surplus)
		}
		if p.Made(i) {
			w.InputTokens += int64(t.InputTokens[i])
		} else {
			w.Verbatims++
		}
		w.OutputTokens += int64(t.OutputTokens[i])
	}
	return w
}

// Flags are what results name as the options of the run: the caller's, and what was chosen here. What may be secret is
// masked.
func (p *Prepared) Flags() map[string]any {
	flags := map[string]any{}
	if p.o.Flags != nil {
		flags = p.o.Flags()
	}
	flags["api"] = p.o.API
	if shown := p.shownModel(); shown == p.model && !p.asksNoModel() {
		flags["model"] = shown
	}
	var headers []string
	for _, h := range p.secrets {
		headers = append(headers, h.Name+": "+Masked)
	}
	if headers != nil {
		flags["header"] = headers
	}
	return flags
}

// Masked stands in results for what may be secret.
const Masked = "***"
