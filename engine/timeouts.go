package engine

import (
	"time"

	"github.com/fastreplay/fastreplay/engine/host"
)

// watchTimeouts is the watchdog. Twenty times within the shortest limit, and every 100 ms at least, it looks at every
// request in flight. It cancels those over a limit, or all if the run is aborted. One sweep for all needs no timers
// on the receive path.
func (r *Run) watchTimeouts(stop <-chan struct{}, gcLimit *host.GCLimit) {
	tick := time.NewTicker(max(time.Millisecond, min(100*time.Millisecond, r.cfg.Timeout/20, r.cfg.IdleTimeout/20)))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			r.cancelOverdue(r.aborted())
			r.large.trim()
			gcLimit.RaiseLimit()
		}
	}
}

// cancelOverdue cancels the requests in flight that are over a limit, or all of them.
func (r *Run) cancelOverdue(all bool) {
	now := r.clock.Now()
	for _, p := range r.pools {
		p.eachConn(func(c *conn) {
			if c.state.Load() != busy {
				return
			}
			i := c.request.Load()
			startedNS := c.startedNS.Load()
			switch {
			case all:
				c.cancel(i, runAborted)
			case now-startedNS > int64(r.cfg.Timeout):
				if c.isOverdue(i) {
					c.cancel(i, overTimeout)
				}
			case now-max(startedNS, c.lastReadNS.Load()) > int64(r.cfg.IdleTimeout):
				if c.isOverdue(i) {
					c.cancel(i, overIdleTimeout)
				}
			default:
				c.over = noRequest
			}
		})
	}
}
