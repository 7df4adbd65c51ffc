package engine

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// EachOpen calls f for each request whose time has come and that the sink has no record of. f gets whose it is, and
// when it was planned, was sent and had its first token, in ns on the run's Clock. The latter two may be record.None.
// If requests wait for others or for room, those that are not sent are left out. The instant of sending then stands for
// the planned one. What prepares is left out. Only the goroutine that calls the sink may call it.
func (r *Run) EachOpen(f func(of rows.Owner, plannedNS, sentNS, firstNS int64)) {
	if r.pacer.isPreparing() {
		return
	}
	owner := r.work.Trace.OwnerOf
	barrier := r.pacer.barrierNS()
	type instants struct{ sentNS, firstNS int64 }
	busyWith := map[int32]instants{}
	for _, p := range r.pools {
		p.eachConn(func(c *conn) {
			i := c.request.Load()
			at := instants{c.startedNS.Load(), c.response.firstNS.Load()}
			if c.state.Load() == busy && i != noRequest && i == c.request.Load() {
				busyWith[i] = at
			}
		})
	}
	if !r.work.Plan.ByClock() {
		for i, at := range busyWith {
			if at.firstNS != record.None {
				at.firstNS -= barrier
			}
			if !r.recorded[i] {
				f(owner(int(i)), at.sentNS-barrier, at.sentNS-barrier, at.firstNS)
			}
		}
		return
	}
	at := r.work.Plan.ReleaseNS
	due, _ := slices.BinarySearch(at, r.clock.Now()+1)
	for r.firstOpen < due && r.recorded[r.firstOpen] {
		r.firstOpen++
	}
	for i := r.firstOpen; i < due; i++ {
		if is, sent := busyWith[int32(i)]; sent && !r.recorded[i] {
			f(owner(i), at[i], is.sentNS, is.firstNS)
		} else if !r.recorded[i] {
			f(owner(i), at[i], record.None, record.None)
		}
	}
}
