package engine

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/host"
)

// cancelReason is why we end a request in flight.
type cancelReason uint8

const (
	notCancelled cancelReason = iota
	overTimeout
	overIdleTimeout
	runAborted
)

// outcome returns what a record has of a request that was ended for this reason.
func (w cancelReason) outcome(r *Run) (record.Outcome, string) {
	switch {
	case w == overTimeout:
		return record.Timeout, fmt.Sprintf("no end of the response within %v (--timeout)", r.cfg.Timeout)
	case w == overIdleTimeout:
		return record.Timeout, fmt.Sprintf("no byte of the response for %v (--idle-timeout)", r.cfg.IdleTimeout)
	case r.expired.Load():
		return record.Cancelled, "the run's time was over"
	}
	return record.Cancelled, "the run was interrupted"
}

// cancelReason returns why the current request was cancelled; notCancelled if it was not.
func (c *conn) cancelReason() cancelReason {
	code := c.cancelled.Load()
	if code>>8 != int64(c.request.Load())+1 {
		return notCancelled
	}
	return cancelReason(code & 0xff)
}

// cancel ends request i if the connection still carries it. Each sweep calls it again until the request has ended,
// since another goroutine may clear the deadline: it takes it for an earlier request's.
func (c *conn) cancel(i int32, why cancelReason) {
	if c.cancelReason() == notCancelled {
		c.cancelled.Store(int64(i+1)<<8 | int64(why))
	}
	c.sock.Interrupt()
	if c.receiver.CompareAndSwap(byEpoll, byGoroutine) { // and its reader does not read it at this moment
		c.readInGoroutine(nil)
	}
	c.run.large.changed.Broadcast()
}

// isOverdue reports whether the server causes that request i is over a limit: all bytes that had arrived at the first
// call for i have been read. If bytes are unread, the client is slow, not the server.
func (c *conn) isOverdue(i int32) bool {
	came, unread := c.sock.Received()
	if c.over != i {
		c.over = i
		c.overCame = came
		return false
	}
	return came-unread >= c.overCame
}

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
			switch {
			case all:
				c.cancel(i, runAborted)
			case now-c.startedNS.Load() > int64(r.cfg.Timeout):
				if c.isOverdue(i) {
					c.cancel(i, overTimeout)
				}
			case now-c.lastReadNS.Load() > int64(r.cfg.IdleTimeout):
				if c.isOverdue(i) {
					c.cancel(i, overIdleTimeout)
				}
			default:
				c.over = noRequest
			}
		})
	}
}
