//go:build !linux

package mockllm

import (
	"net"
	"time"
)

// kernelReader is Linux only.
type kernelReader struct{}

func newKernelReader(*net.TCPConn) *kernelReader { return nil }

func (*kernelReader) read([]byte) (int, int64, error) { panic("BUG: no kernel stamps here") }

func finePause(d time.Duration) { time.Sleep(d) }
