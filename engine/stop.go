package engine

import (
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Stop releases nothing more and lets what is in flight end within the grace period. It may be called at any time.
func (r *Run) Stop() {
	if !r.stop.Swap(true) {
		time.AfterFunc(r.cfg.Grace, r.Abort)
	}
}

// Abort releases nothing more and cuts what is in flight, within a tick of the watchdog. It may be called at any time.
func (r *Run) Abort() {
	r.stop.Store(true)
	r.abort()
}

// expire is Abort at the end of the run's own time: whatever it ends was not interrupted.
func (r *Run) expire() {
	if !r.stop.Swap(true) {
		r.expired.Store(true)
	}
	r.abort()
}

// aborted tells whether what is in flight is to be cut.
func (r *Run) aborted() bool { return r.ctx.Err() != nil }

// notItsTime is why a request of a stopped run was not sent.
func (r *Run) notItsTime() string {
	if r.expired.Load() {
		return "the run's time was over first"
	}
	return "the run was interrupted before its time"
}

// unsent ends a request that was not sent.
func (r *Run) unsent(i int32, why string) {
	r.records[i].Outcome, r.records[i].Error = record.NotSent, why
	r.finish(i)
}

// skip takes requests, in ascending order, out of the run that nobody has released before its time was over.
func (r *Run) skip(requests []int32) {
	r.leftOut = requests
	r.skipped.Store(int64(len(requests)))
	r.settle(int64(len(requests)))
}

// isLeftOut tells whether request i was skipped. Call it after Do.
func (r *Run) isLeftOut(i int32) bool {
	_, out := slices.BinarySearch(r.leftOut, i)
	return out
}
