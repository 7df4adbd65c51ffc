package engine

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/host"
)

// cut is why a request in flight is ended by us.
type cancelReason uint8

const (
	notCancelled cancelReason = iota
	overTimeout
	overIdleTimeout
	runAborted
)

func (w cancelReason) outcome() record.Outcome {
	if w == runAborted {
		return record.Cancelled
	}
	return record.Timeout
}

func (w cancelReason) text(r *Run) string {
	switch w {
	case overTimeout:
		return fmt.Sprintf("no end of the response within %v (--timeout)", r.cfg.Timeout)
	case overIdleTimeout:
		return fmt.Sprintf("no byte of the response for %v (--idle-timeout)", r.cfg.IdleTimeout)
	default:
		if r.expired.Load() {
			return "the run's time was over"
		}
		return "the run was interrupted"
	}
}

// cancelCode binds a reason to a request, so that it never hits a later request of the same connection.
func cancelCode(request int32, why cancelReason) int64 { return int64(request+1)<<8 | int64(why) }

// cancelReason is why the current request was cut, notCancelled if it was not.
func (c *conn) cancelReason() cancelReason {
	code := c.cancelled.Load()
	if code>>8 != int64(c.request.Load())+1 {
		return notCancelled
	}
	return cancelReason(code & 0xff)
}

// cancel ends request i if the connection still carries it. It is called again with each sweep until the request has
// ended, since a deadline may be lifted by somebody who took it for an earlier request's.
func (c *conn) cancel(i int32, why cancelReason) {
	if c.cancelReason() == notCancelled {
		c.cancelled.Store(cancelCode(i, why))
	}
	c.sock.Interrupt()
	c.leaveEpoll()
	c.run.large.changed.Broadcast()
}

// isOverdue is asked when request i is over a limit, and tells whether that is the server's doing: all that had come when it was asked
// first has been read since. What lies unread is our slowness, not the server's.
func (c *conn) isOverdue(i int32) bool {
	came, unread := c.sock.Received()
	if c.over != i {
		c.over, c.overCame = i, came
		return false
	}
	return came-unread >= c.overCame
}

// watch is the watchdog: it looks at every connection in flight a few times per shortest limit and cuts those over a
// limit, or all of them when the run is aborted. One sweep for all keeps timers off the receive path.
func (r *Run) watchTimeouts(stop <-chan struct{}, collector *host.Collector) {
	tick := time.NewTicker(r.watchEvery())
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			r.cancelOverdue(r.aborted())
			r.large.trim()
			collector.RaiseLimit()
		}
	}
}

// watchEvery is a twentieth of the shortest limit, 100 ms at most.
func (r *Run) watchEvery() time.Duration {
	return max(time.Millisecond, min(100*time.Millisecond, r.cfg.Timeout/20, r.cfg.IdleTimeout/20))
}

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
