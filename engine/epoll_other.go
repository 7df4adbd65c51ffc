//go:build unix && !linux

package engine

// epollReaders is the portable twin: there are no epoll readers, and each connection has a goroutine as its receiver.
type epollReaders struct{}

func (*epollReaders) add(*conn) (bool, error) { return false, nil }
func (*epollReaders) end()                    {}
func (*epollReaders) hurry()                  {}
