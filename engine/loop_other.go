//go:build unix && !linux

package engine

import "net"

// loops is the portable twin: there are none, and each connection is read by a goroutine of its own.
type loops struct{}

func (*loops) take(*conn) (bool, error) { return false, nil }
func (*loops) end()                     {}

func newWatched(c *net.TCPConn) (tcpConn, error) { return c, nil }
