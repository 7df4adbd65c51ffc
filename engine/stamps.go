package engine

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// lagBatch is how many delays a receiver keeps before it adds them to the total.
const lagBatch = 64

// readLag has a receiver's latest delays between stamp and read, ns. A delay above two seconds is noted as
// math.MaxInt32.
type readLag struct {
	ns                 [lagBatch]int32
	n                  int
	unstamped, dropped int64
	missed             int64         // reads of which the ring did not see all segments
	paused             bool          // an epoll reader has paused before the batch
	takenNS            int64         // an epoll reader's: just before it began to read what it looks at; 0 = not known
	read               sched.Reading // just after it

	lastNS           int64 // the instant of the receiver's last read …
	endNS, settledNS int64 // … and that at the end of an epoll reader's last batch, and of the one before
}

// lateRead is how long after the kernel's stamp a read counts as late. A reader that waits is awake within 0.1 ms
// (p50 21 µs, p99 210 µs; 2 cores, Linux 6.18).
const lateRead = 250_000

// note notes that reads have ended.
func (l *readLag) note(r *Run) {
	if wall := r.wall.Load(); wall != nil {
		l.read = wall.Read()
	} else {
		l.read = sched.Reading{NowNS: r.clock.Now()}
	}
}

// settle notes that epoll_wait(2) has returned every connection that had bytes. What it did not return came after the
// batch before.
func (l *readLag) settle() { l.settledNS, l.endNS = l.endNS, l.lastNS }

// readLagTotal has the delays of all receivers.
type readLagTotal struct {
	sync.Mutex
	lag                *stats.Distribution
	unstamped, dropped int64
	missed             int64
}

func (t *readLagTotal) take(l *readLag) {
	t.Lock()
	defer t.Unlock()
	for _, ns := range l.ns[:l.n] {
		t.lag.Add(int64(ns))
	}
	t.unstamped += l.unstamped
	t.dropped += l.dropped
	t.missed += l.missed
	l.n = 0
	l.unstamped = 0
	l.dropped = 0
	l.missed = 0
}

// wallTick is how often the wall clock is compared with the run's.
const wallTick = time.Second

// keepWall compares the clocks every wallTick until halt is closed.
func (r *Run) keepWall(halt <-chan struct{}) {
	tick := time.NewTicker(wallTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			r.wall.Load().Sample()
			return
		case <-tick.C:
			r.wall.Load().Sample()
		}
	}
}

// stampCounts returns what the stamps of the run came to, and how long after them reads were, in ns; nil without
// stamps.
func (r *Run) stampCounts() (s metrics.Stamps, lag *stats.Distribution) {
	s = metrics.Stamps{Received: r.cfg.Stamps.Receive, Sent: r.cfg.Stamps.Send}
	if !s.Received {
		return s, nil
	}
	r.readLag.Lock()
	defer r.readLag.Unlock()
	lag, s.Unstamped, s.Dropped = r.readLag.lag, r.readLag.unstamped, r.readLag.dropped
	s.Reads = lag.Count()
	s.Ring = r.ring != nil
	s.RingMissed = r.readLag.missed
	s.RingLost = r.ringLost
	if w := r.wall.Load(); w != nil {
		steps, largestNS := w.Steps()
		s.ClockSteps = steps
		s.StepMS = float64(largestNS) / 1e6
	}
	return s, lag
}

// instants returns the instant of n bytes that were just read, and that of the read, which readLag.note has noted. They
// differ if the kernel stamped the bytes. On one connection the former never descends, nor is it before its request.
func (c *conn) instants(n int) (dataNS, readNS int64) {
	c.parts = c.parts[:0]
	now := c.readLag.read.NowNS
	if n == 0 || c.run.wall.Load() == nil {
		return now, now
	}
	wallNS, fresh := c.sock.ReadStamp() // not fresh: TLS had read the bytes before
	if wallNS == 0 {
		if fresh {
			c.readLag.unstamped++
		}
		c.dataNS = now
		c.noteRoom(now, now)
		return now, now
	}
	at, ok := c.readLag.read.At(wallNS)
	at = min(now, max(at, c.dataNS, c.startedNS.Load()))
	if ok && c.pool.dial.Ring != nil {
		at = c.noteParts(at, fresh)
	}
	c.dataNS = at
	if fresh { // else it is as of that read
		c.noteRoom(at, now)
	}
	switch {
	case !fresh:
	case !ok:
		c.readLag.dropped++
	default:
		c.readLag.ns[c.readLag.n] = int32(min(now-at, math.MaxInt32))
		if c.readLag.n++; c.readLag.n == lagBatch {
			c.run.readLag.take(c.readLag)
		}
	}
	return at, now
}

// part is a number of bytes that came at one instant.
type part struct {
	bytes int
	atNS  int64
}

// noteParts notes when each part of the last read came, if the ring knows it, and returns the instant of the last one.
// The stamp of the read, atNS, is later than that if the kernel has joined the last part to what was not read. It is
// not fresh if TLS had read the bytes before.
func (c *conn) noteParts(atNS int64, fresh bool) (lastNS int64) {
	var known bool
	if c.arrived, known = c.sock.Arrived(c.arrived[:0]); !known {
		if fresh {
			c.readLag.missed++
		}
		return atNS
	}
	c.pool.nagle.note(&c.small, c.arrived)
	lastNS = max(c.dataNS, c.startedNS.Load())
	for _, a := range c.arrived {
		at, ok := c.readLag.read.At(a.WallNS)
		if !ok {
			at = atNS
		}
		lastNS = min(atNS, max(lastNS, at))
		c.parts = append(c.parts, part{a.Bytes, lastNS})
	}
	return lastNS
}

// noteRoom notes what the read of bytes that came at atNS, at nowNS, says of earlier and later bytes.
func (c *conn) noteRoom(atNS, nowNS int64) {
	found, left := c.sock.Queued()
	c.noteSlack(atNS, nowNS, left)
	c.noteFull(atNS, nowNS, found)
}

// noteSlack notes how much earlier than atNS parts of the n bytes may have come, which were read at nowNS. The kernel
// has one stamp for all of them, that of the last. In time they would have been read apart, so it is 0 for a read in
// time without a pause before it. Else they have come since the connection was last known to have nothing. left is how
// many bytes the read left in the kernel.
func (c *conn) noteSlack(atNS, nowNS int64, left int) {
	c.response.slackNS = 0
	if c.readLag.paused || nowNS-atNS > lateRead {
		c.response.slackNS = max(0, atNS-max(c.drainedNS, c.readLag.settledNS, c.startedNS.Load()))
	}
	if c.readLag.lastNS = nowNS; left == 0 {
		c.drainedNS = cmp.Or(c.readLag.takenNS, nowNS)
	}
}

// leastWindow is how many unread bytes may fill a receive buffer. Under memory pressure Linux offers a window of four
// segments, 5,840 bytes on Ethernet. A sender that avoids small segments does not fill the last one (tcp_input.c,
// tcp_clamp_window; RFC 1122, section 4.2.3.4). A buffer that is not full is usually 64 kB or more.
const leastWindow = 4 << 10

// fullBuffer is a receive buffer that may have been full when it was read late. Then the server waited for room with
// what followed. Those bytes have stamps in time, since they came after the read. How much memory a byte takes
// depends on its segment, so that a buffer was full cannot be known, but that it was not can.
type fullBuffer struct {
	roomNS int64 // when it was first read, so that there was room again
	// how long the server can have waited: from the latest byte that was in the buffer until its read; 0 = it did not
	waitNS int64
}

// noteFull notes a read that found so many bytes in the kernel. If bytes come after there was room again, all of the
// answer from them on may be late by the wait.
func (c *conn) noteFull(atNS, nowNS int64, found int) {
	f, p := &c.full, &c.response
	if f.roomNS < c.startedNS.Load() {
		*f = fullBuffer{}
		p.waitedNS = 0 // of an earlier answer
	}
	if f.waitNS > 0 && atNS >= f.roomNS {
		p.waitedNS += f.waitNS
		p.roomNS = atNS
		p.lastWaitNS = f.waitNS
		f.waitNS = 0
	}
	switch {
	case f.waitNS > 0:
		f.waitNS = nowNS - atNS
	case found >= leastWindow && nowNS-atNS > lateRead:
		f.roomNS = cmp.Or(c.readLag.takenNS, nowNS)
		f.waitNS = nowNS - atNS
	}
}

// initialWindow is how many segments may leave at once on a connection that was idle (RFC 6928).
const initialWindow = 10

// stampSent notes what the kernel reports about the sending of the request, when both sides of it have ended. The
// acknowledgement has come with the answer at the latest.
//
// There is one stamp for each write, that of its last byte. The request has departed when the last byte of its first
// write has. That is known only if the first write fits the initial window: the rest of a longer one waits for
// acknowledgements.
func (c *conn) stampSent(rec *record.Record) {
	wall := c.run.wall.Load()
	if wall == nil || !c.run.cfg.Stamps.Send {
		return
	}
	first := uint32(c.outBase)
	length := uint32(c.sock.BytesOut() - c.outBase)
	nearest := uint32(initialWindow * c.sock.Segment())
	c.sock.SentStamps(func(s wire.SentStamp) {
		read := wall.Read() // after the stamp
		at, ok := read.At(s.WallNS)
		offset := s.Key - first // of the byte within the request
		switch {
		case !ok || offset >= length:
		case s.Acked && offset == length-1:
			rec.AckedNS = at
		case !s.Acked && offset < nearest:
			nearest = offset
			rec.DepartedNS = at
		}
	})
}
