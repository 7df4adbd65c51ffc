package replay

import (
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
)

// watchEnd begins to watch for what ends the run early. Validate has refused what cannot.
func (r *runner) watchEnd() {
	r.until, _ = collect.ParseUntil(r.cfg.Limits.Until)
	planned := r.load.Requests()
	if d := r.load.Plan.Dependencies; d != nil {
		planned -= int(d.Prepare)
	}
	endNS := int64(0) // an open loop sends all that is planned
	if r.cfg.Pacing.Closed() || r.cfg.Sessions.Recycle {
		endNS = int64(r.cfg.Pacing.Duration)
	}
	r.loss, _ = collect.ParseLoss(r.cfg.Limits.AbortIf, int64(planned), endNS)
	if r.loss != nil && !r.loss.CanLose() {
		r.alert("--abort-if %s cannot end this run: even if all of %s were beyond the limit, chance could explain it",
			r.loss.Text, format.Requests(planned))
	}
}

// mayEnd ends the run if it knows enough, or is lost. It is called about once a second, by the goroutine that records.
func (r *runner) mayEnd() {
	if p := r.run.Progress(); p.Stopping || p.Left == 0 {
		return
	}
	if r.until != nil {
		enough := r.until.Look(r.collector)
		r.meter.Tell(r.until.Progress())
		if enough {
			r.alert("--until %s: %s; nothing more is sent", r.until.Text, r.until.Words())
			r.run.EndEarly(false)
			return
		}
	}
	if r.loss == nil {
		return
	}
	now := r.NowNS()
	inFlight := int64(0)
	r.EachOpen(func(_ rows.Owner, plannedNS, sentNS, firstNS int64) {
		if r.loss.Exceeds(now, plannedNS, sentNS, firstNS) {
			inFlight++
		}
	})
	if r.loss.Lost(now, inFlight) {
		r.aborted = r.loss.Words(now, inFlight)
		r.alert("--abort-if %s: %s; requests in flight may end (--grace)", r.loss.Text, r.aborted)
		r.run.EndEarly(true)
	}
}
