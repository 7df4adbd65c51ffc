package mockllm

import (
	"net"
	"time"
)

// stampReader reads a connection and notes when what it read last had arrived: by the kernel's own stamp where there is
// one, since on a busy machine this process may get to read milliseconds later, else the moment after the read. Bytes
// that the kernel has joined by then bear the stamp of their last segment.
type stampReader struct {
	nc     net.Conn
	kernel *kernelReader // nil: no kernel stamps
	clock  *clock
	lastNS int64
}

func (s *stampReader) Read(p []byte) (int, error) {
	if s.kernel == nil {
		n, err := s.nc.Read(p)
		s.lastNS = s.clock.now()
		return n, err
	}
	n, wallNS, err := s.kernel.read(p)
	now := time.Now()
	s.lastNS = s.clock.at(now)
	if wallNS != 0 {
		s.lastNS -= max(0, now.UnixNano()-wallNS)
	}
	return n, err
}
