//go:build unix && !linux

package engine

import (
	"errors"
	"syscall"
)

// stampedReader is the portable twin: there is none.
type stampedReader struct {
	wallNS  int64
	segment int64
}

func newStampedReader(_ syscall.RawConn, s Stamps) (*stampedReader, error) {
	if s.Receive {
		return nil, ProbeStamps(s)
	}
	return nil, nil
}

func (*stampedReader) Read([]byte) (int, error) { panic("BUG: no kernel timestamps here") }
func (*stampedReader) took() bool               { panic("BUG: no kernel timestamps here") }
func (*stampedReader) sent(func(sentStamp))     { panic("BUG: no kernel timestamps here") }

// ProbeStamps finds out whether the kernel stamps as s asks. An error says why not.
func ProbeStamps(Stamps) error { return errors.New("this system has no SO_TIMESTAMPING; Linux has") }
