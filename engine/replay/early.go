package replay

import (
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
	r.loss, _ = collect.ParseLoss(r.cfg.Limits.AbortIf, int64(planned))
	if r.loss != nil && r.cfg.Sessions.Recycle {
		r.note("abort_recycle", "--abort-if %s: its plan has all %s that servers a hundred times as fast would "+
			"get, and the run counts as lost only whatever these do, so it may end late or not at all",
			r.loss.Text, format.Many(planned, "request"))
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
	r.EachOpen(func(plannedNS, sentNS, firstNS int64) {
		if r.loss.Exceeds(now, plannedNS, sentNS, firstNS) {
			inFlight++
		}
	})
	if r.loss.Lost(inFlight) {
		r.aborted = r.loss.Words(now, inFlight)
		r.alert("--abort-if %s: %s; requests in flight may end (--grace)", r.loss.Text, r.aborted)
		r.run.EndEarly(true)
	}
}
