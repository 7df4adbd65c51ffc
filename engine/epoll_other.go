//go:build unix && !linux

package engine

// loops is the portable twin: there are none, and each connection is read by a goroutine of its own.
type epollReaders struct{}

func (*epollReaders) add(*conn) (bool, error) { return false, nil }
func (*epollReaders) end()                    {}
