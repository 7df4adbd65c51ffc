package engine

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause is how an epoll reader lets bytes lie for a while, and then reads all connections that have some. Waking a
// thread takes more processor time than reading an event. It belongs to one reader.
//
// No instant depends on it, since a ring tells the segments of a read apart. So there is none without a ring, while the
// ring misses segments, or if something else depends on when bytes are read.
type pause struct {
	batchNS  int64 // when the latest batch of reads began
	lengthNS int64 // from there
	hurries  bool  // that batch had what must not wait
	resumeNS int64 // there is none before, since the ring has missed segments
}

const (
	// shortestPause is from the beginning of a batch. At 25,000 events/s, 0.5, 1 and 2 ms had 9.5, 8.8 and 10.0 µs an
	// event, where 13.1 were without ring and pauses (2 cores of an AMD EPYC, load average 57).
	shortestPause = time.Millisecond
	// longestPause is that of a reader whose batches take so long that it would hardly pause. At 200,000 events/s of
	// 500 streams, a read then finds two or three events.
	longestPause = 8 * time.Millisecond
	// pauseAfterMiss is how long there is none after the ring has missed segments.
	pauseAfterMiss = time.Second
)

// take pauses, if it may, until wake is written at the latest, and reports whether it has. After a batch that took half
// of a pause, pauses are longer. The call is a raw one. If another one takes longer than 20
// µs, Go's monitor takes its P back, and then looks every 20 µs for others. That takes 7 % of the processor time
// (25,000 events/s), not 3.
func (p *pause) take(r *Run, wake int) bool {
	now := r.clock.Now()
	switch took := now - p.batchNS; {
	case took > p.lengthNS/2:
		p.lengthNS = min(2*p.lengthNS, int64(longestPause))
	case took < p.lengthNS/8:
		p.lengthNS /= 2
	}
	p.lengthNS = max(p.lengthNS, int64(shortestPause))
	left := p.batchNS + p.lengthNS - now
	if left < int64(shortestPause/2) || p.hurries || now < p.resumeNS || !r.mayPause() {
		return false
	}
	poll := unix.PollFd{Fd: int32(wake), Events: unix.POLLIN}
	sleep := unix.NsecToTimespec(left)
	_, _, _ = syscall.RawSyscall6(
		unix.SYS_PPOLL,
		uintptr(unsafe.Pointer(&poll)),
		1,
		uintptr(unsafe.Pointer(&sleep)),
		0,
		0,
		0,
	)
	return true
}

// begin notes that a batch of reads begins. If more is ready than it may have, that must not wait.
func (p *pause) begin(nowNS int64, more bool) {
	p.batchNS = nowNS
	p.hurries = more
}

// note notes a read of n bytes, of which the ring has seen all segments, or not.
func (p *pause) note(n int, seen bool) {
	p.hurries = p.hurries || n >= leastWindow // the server may wait for room
	if !seen {
		p.resumeNS = p.batchNS + int64(pauseAfterMiss)
	}
}

// mayPause reports whether nothing depends on when bytes are read: no request waits for an answer, no writer for room.
func (r *Run) mayPause() bool {
	return r.ring != nil && !r.cfg.LagBounded && r.work.Plan.ByClock() && r.lateRouter == nil &&
		r.cfg.History == nil && r.flushing.Load() == 0 && !r.pacer.isPreparing()
}
