package engine

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/host"
)

// cut is why a request in flight is ended by us.
type cut uint8

const (
	cutNone cut = iota
	cutTimeout
	cutIdle
	cutCancelled
)

func (w cut) outcome() record.Outcome {
	if w == cutCancelled {
		return record.Cancelled
	}
	return record.Timeout
}

func (w cut) text(r *Run) string {
	switch w {
	case cutTimeout:
		return fmt.Sprintf("no end of the response within %v (--timeout)", r.cfg.Timeout)
	case cutIdle:
		return fmt.Sprintf("no byte of the response for %v (--idle-timeout)", r.cfg.IdleTimeout)
	default:
		if r.expired.Load() {
			return "the run's time was over"
		}
		return "the run was interrupted"
	}
}

// cutCode binds a reason to a request, so that it never hits a later request of the same connection.
func cutCode(request int32, why cut) int64 { return int64(request+1)<<8 | int64(why) }

// cutReason is why the current request was cut, cutNone if it was not.
func (c *conn) cutReason() cut {
	code := c.cut.Load()
	if code>>8 != int64(c.request.Load())+1 {
		return cutNone
	}
	return cut(code & 0xff)
}

// cutNow ends request i if the connection still carries it. It is called again with each sweep until the request has
// ended, since a deadline may be lifted by somebody who took it for an earlier request's.
func (c *conn) cutNow(i int32, why cut) {
	if c.cutReason() == cutNone {
		c.cut.Store(cutCode(i, why))
	}
	c.sock.Interrupt()
	c.leaveLoop()
	c.run.large.changed.Broadcast()
}

// overdue is asked when request i is over a limit, and tells whether that is the server's doing: all that had come when it was asked
// first has been read since. What lies unread is our slowness, not the server's.
func (c *conn) overdue(i int32) bool {
	came, unread := c.sock.Received()
	if c.over != i {
		c.over, c.overCame = i, came
		return false
	}
	return came-unread >= c.overCame
}

// watch is the watchdog: it looks at every connection in flight a few times per shortest limit and cuts those over a
// limit, or all of them when the run is aborted. One sweep for all keeps timers off the receive path.
func (r *Run) watch(stop <-chan struct{}, collector *host.Collector) {
	tick := time.NewTicker(r.watchEvery())
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			r.sweep(r.aborted())
			r.large.trim()
			collector.RaiseLimit()
		}
	}
}

// watchEvery is a twentieth of the shortest limit, 100 ms at most.
func (r *Run) watchEvery() time.Duration {
	return max(time.Millisecond, min(100*time.Millisecond, r.cfg.Timeout/20, r.cfg.IdleTimeout/20))
}

func (r *Run) sweep(all bool) {
	now := r.clock.Now()
	for _, p := range r.pools {
		p.eachConn(func(c *conn) {
			if c.state.Load() != busy {
				return
			}
			i := c.request.Load()
			switch {
			case all:
				c.cutNow(i, cutCancelled)
			case now-c.startedNS.Load() > int64(r.cfg.Timeout):
				if c.overdue(i) {
					c.cutNow(i, cutTimeout)
				}
			case now-c.lastReadNS.Load() > int64(r.cfg.IdleTimeout):
				if c.overdue(i) {
					c.cutNow(i, cutIdle)
				}
			default:
				c.over = noRequest
			}
		})
	}
}
