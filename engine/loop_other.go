//go:build unix && !linux

package engine

import "net"

// hasLoops tells that every connection is read by a goroutine of its own here.
const hasLoops = false

// loops is the portable twin: there are none.
type loops struct{}

func (*loops) take(*conn) (bool, error) { return false, nil }
func (*loops) end()                     {}

func newWatched(c *net.TCPConn) (tcpConn, error) { return c, nil }
