package mockllm

import (
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// splitPause separates the writes of a split event: long enough for a client to see them one by one.
const splitPause = 200 * time.Microsecond

// driver serves one reply from a goroutine of its own, which may block on the socket. It is for TLS, gzip, most faults
// and clients that do not read.
type driver struct {
	*reply
	buf     eventBuffer
	timer   *time.Timer
	faulted bool // the fault has happened
	zip     *gzip.Writer
	zipped  []byte
}

// drive takes over r until its end.
func (r *reply) drive() {
	select { // a wake of an earlier reply
	case <-r.c.wake:
	default:
	}
	d := &driver{reply: r, timer: time.NewTimer(time.Hour)}
	defer d.timer.Stop()
	r.end(d.run())
}

// run serves the reply and returns how it ended.
func (d *driver) run() ending {
	if len(d.pending) > 0 {
		if _, err := d.c.nc.Write(d.pending); err != nil {
			return endGone
		}
	}
	for d.phase != phaseEnd {
		if !d.waitUntil(d.due) {
			return endGone
		}
		if d.faultIsDue() {
			d.faulted = true
			if how, over := d.commit(); over {
				return how
			}
			continue
		}
		next := d.compose()
		d.releaseAtEnd()
		if err := d.write(next); err != nil {
			return endGone
		}
	}
	return endDone
}

// compose returns the bytes of the next write.
func (d *driver) compose() []byte {
	now := d.srv.clock.now()
	if !d.compress {
		d.buf.out = d.appendDue(&d.buf, d.buf.out[:0], now)
		return d.buf.out
	}
	d.buf.event = d.appendEvent(d.buf.event[:0], now)
	last := d.phase == phaseEnd
	d.buf.out = d.frame(d.buf.out[:0], d.deflate(d.buf.event, last), last)
	return d.buf.out
}

// deflate compresses an event so that the client can read it at once.
func (d *driver) deflate(event []byte, last bool) []byte {
	d.zipped = d.zipped[:0]
	if d.zip == nil {
		d.zip, _ = gzip.NewWriterLevel(d, gzip.BestSpeed) // fails only on an unknown level
	}
	_, _ = d.zip.Write(event) // d.Write never fails
	if last {
		_ = d.zip.Close()
	} else {
		_ = d.zip.Flush()
	}
	return d.zipped
}

// Write collects what the compressor makes.
func (d *driver) Write(p []byte) (int, error) {
	d.zipped = append(d.zipped, p...)
	return len(p), nil
}

// waitUntil returns at the instant, or false when the client is gone.
func (d *driver) waitUntil(instant int64) bool {
	if d.gone.Load() {
		return false
	}
	wait := instant - d.srv.clock.now()
	if wait <= 0 {
		return true
	}
	return d.pause(time.Duration(wait))
}

func (d *driver) pause(wait time.Duration) bool {
	d.timer.Reset(wait)
	select {
	case <-d.timer.C:
		return true
	case <-d.c.wake:
		return false
	}
}

// write sends p, whole or in the pieces of the fault.
func (d *driver) write(p []byte) error {
	size := len(p)
	wait := splitPause
	switch d.fault.Kind {
	case fault.Split:
		size = (len(p) + d.fault.N - 1) / d.fault.N
	case fault.SlowBytes:
		size = 1
		wait = d.fault.D
	}
	for first := true; len(p) > 0; first = false {
		if !first && !d.pause(wait) {
			return errGone
		}
		n := min(size, len(p))
		if _, err := d.c.nc.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// faultIsDue reports whether the fault happens before the next event.
func (d *driver) faultIsDue() bool {
	switch {
	case d.faulted || d.fault.Kind == "":
		return false
	case d.fault.Kind == fault.BigEvent:
		return true
	}
	return d.fault.AtToken() && d.phase != phaseOpen && (d.sent >= d.fault.N || d.phase == phaseBody)
}
