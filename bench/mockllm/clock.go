package mockllm

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads the machine's CLOCK_MONOTONIC in absolute nanoseconds, so that stamps of several processes on one machine
// compare. Go's own monotonic reading is the same clock without a system call, but with a hidden origin. That origin is
// measured once. (On macOS the two drift apart while the machine sleeps.)
type clock struct {
	origin time.Time
	base   int64 // CLOCK_MONOTONIC at origin, ns
}

// calibrationRounds readings are bracketed and the tightest is kept: the error is then below 100 ns on an idle machine.
const calibrationRounds = 64

func newClock() (clock, error) {
	var best clock
	width := time.Duration(1<<63 - 1)
	for range calibrationRounds {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return clock{}, err
		}
		if w := time.Since(before); w < width {
			width = w
			best = clock{origin: before, base: ts.Nano() - int64(w)/2}
		}
	}
	return best, nil
}

// now returns CLOCK_MONOTONIC in ns.
func (c *clock) now() int64 { return c.base + int64(time.Since(c.origin)) }

// at returns CLOCK_MONOTONIC at t, in ns.
func (c *clock) at(t time.Time) int64 { return c.base + int64(t.Sub(c.origin)) }

// stampReader reads a connection and notes when what it read last had arrived. It uses the kernel's own stamp if there
// is one, since on a busy machine this process may read milliseconds later. Otherwise it is the moment after the read.
// Bytes that the kernel has joined by then bear the stamp of their last segment.
type stampReader struct {
	nc     net.Conn
	kernel *kernelReader // nil: no kernel stamps
	clock  *clock
	lastNS int64
	single bool // the next read takes one byte, which then has the stamp of its own segment
}

func (s *stampReader) Read(p []byte) (int, error) {
	if s.single {
		p = p[:1]
		s.single = false
	}
	if s.kernel == nil {
		n, err := s.nc.Read(p)
		s.lastNS = s.clock.now()
		return n, err
	}
	n, wallNS, err := s.kernel.read(p)
	before := time.Now()
	now := time.Now()
	// A thread that loses its processor between the two clocks of one reading sets them apart.
	for range calibrationRounds {
		if now.Sub(before) < 2*time.Microsecond {
			break
		}
		before = now
		now = time.Now()
	}
	s.lastNS = s.clock.at(now)
	if wallNS != 0 {
		s.lastNS -= max(0, now.UnixNano()-wallNS)
	}
	return n, err
}
