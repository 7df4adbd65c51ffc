package engine

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause is how an epoll reader lets bytes lie for a while, and then reads all connections that have some. Waking a
// thread takes more processor time than reading an event, and a read takes hardly more for several events than for one.
// It belongs to one reader.
//
// No instant depends on it, since a ring tells the segments of a read apart. So there is none without a ring, while the
// ring misses segments, or if something else depends on when bytes are read.
type pause struct {
	batchNS  int64 // when the latest batch of reads began
	lengthNS int64 // from there
	hurries  bool  // that batch had what must not wait
	resumeNS int64 // there is none before, since the ring has missed segments
	segments int   // the most that a read of the batch has found
	bound    bool  // the batch had a server that may wait for acknowledgements
}

const (
	// shortestPause is from the beginning of a batch. At 25,000 events/s, 0.5, 1 and 2 ms had 9.5, 8.8 and 10.0 µs an
	// event, where 13.1 were without ring and pauses (2 cores of an AMD EPYC, load average 57).
	shortestPause = time.Millisecond
	// longestPause is less than the 40 ms after which Linux acknowledges what is not read. So nearly each
	// acknowledgement leaves with a read. At 25,000 events/s of 500 streams, a read then finds two.
	longestPause = 38 * time.Millisecond
	// mostLying is how many segments of a connection a pause may let lie. A server sends ten before it needs an
	// acknowledgement (RFC 6928).
	mostLying = 6
	// longestRaw is how long a pause may last of which Go's scheduler does not know. It sends a signal each 10 ms to
	// who holds a P, which would end the pause.
	longestRaw = 5 * time.Millisecond
	// pauseAfterMiss is how long there is none after the ring has missed segments of a read. If it has lost some, it
	// misses those of each read until the next answer.
	pauseAfterMiss = 100 * time.Millisecond
)

// take pauses, if it may, until wake is written at the latest, and reports whether it has. A short pause is a raw call.
// If another one takes longer than 20 µs, Go's monitor takes its P back, and then looks every 20 µs for others. With a
// pause each millisecond, that takes 7 % of the processor time (25,000 events/s), not 3.
func (p *pause) take(r *Run, wake int) bool {
	p.adapt()
	now := r.clock.Now()
	left := p.batchNS + p.lengthNS - now
	if left < int64(shortestPause/2) || p.hurries || now < p.resumeNS || !r.mayPause() {
		return false
	}
	sleep := unix.NsecToTimespec(left)
	poll := &unix.PollFd{Fd: int32(wake), Events: unix.POLLIN}
	limit := unsafe.Pointer(&sleep)
	if left <= int64(longestRaw) {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(poll)), 1, uintptr(limit), 0, 0, 0)
	} else {
		_, _, _ = syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(poll)), 1, uintptr(limit), 0, 0, 0)
	}
	return true
}

// adapt sets how long the next pause is. It is longer than the shortest only if no server depends on it.
func (p *pause) adapt() {
	switch {
	case p.bound:
		p.lengthNS = 0
	case p.segments > mostLying:
		p.lengthNS /= 2
	case p.segments > 0 && p.segments <= mostLying/2:
		p.lengthNS *= 2
	}
	p.lengthNS = min(max(p.lengthNS, int64(shortestPause)), int64(longestPause))
}

// begin notes that a batch of reads begins. If more is ready than it may have, that must not wait.
func (p *pause) begin(nowNS int64, more bool) {
	p.batchNS = nowNS
	p.hurries = more
	p.segments = 0
	p.bound = false
}

// note notes a read of n bytes. The ring has seen so many segments of it, 0 = not all. It is bound if the server may
// wait for the acknowledgement.
func (p *pause) note(n, segments int, bound bool) {
	p.hurries = p.hurries || n >= leastWindow // the server may wait for room
	p.bound = p.bound || bound
	if segments == 0 {
		p.resumeNS = p.batchNS + int64(pauseAfterMiss)
	}
	ofRoom := 2 * mostLying * n / leastWindow // above mostLying: half of it is taken
	p.segments = max(p.segments, segments, ofRoom)
}

// mayPause reports whether nothing depends on when bytes are read: no request waits for an answer, no writer for room.
func (r *Run) mayPause() bool {
	return r.ring != nil && !r.cfg.LagBounded && r.work.Plan.ByClock() && r.lateRouter == nil &&
		r.cfg.History == nil && r.flushing.Load() == 0 && !r.pacer.isPreparing()
}
