//go:build !linux

package mockllm

import "net"

// kernelReader is Linux only.
type kernelReader struct{}

func newKernelReader(*net.TCPConn) *kernelReader { return nil }

func (*kernelReader) read([]byte) (int, int64, error) { panic("BUG: no kernel stamps here") }
