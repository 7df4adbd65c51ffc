package engine

import (
	"runtime"
	"syscall"
)

// What a connection goes through for a request that the lane's process writes. Between arming and the lane's write the
// connection is busy; its reader's side is the receiver, as ever, and the writer's side is ended by whoever settles the
// shot: the receiver if the kernel took all of it, else the replay's side of the lane.

// arm claims the connection for request i, which the lane will write. False: somebody else has it, it died, or the lane
// has passed the request.
func (c *conn) arm(i int32, s *shot) bool {
	if !c.state.CompareAndSwap(parked, claimed) {
		return false
	}
	c.carry(i, parked, s.releaseNS)
	s.conn.Store(c.key)
	if c.sock.UsesTLS() && !c.run.remote.put(i, s, c) {
		c.drop() // it is broken
		return false
	}
	if !s.state.CompareAndSwap(shotEmpty, shotArmed) {
		c.unclaim()
		return false
	}
	c.peer.fired.Add(1)
	c.state.Store(busy)
	return true
}

// unclaim gives back a claimed connection that has nothing to send after all.
func (c *conn) unclaim() {
	c.request.Store(noRequest)
	if c.sock.UsesTLS() {
		c.drop() // TLS counts what it has encrypted, so it can carry nothing else
		return
	}
	c.peer.park(c, claimed)
}

// drop ends a claimed connection.
func (c *conn) drop() {
	c.state.Store(dead)
	c.bury()
}

// takeBack frees the busy connection of a request that the lane will not write. Its shot is abandoned, so nobody else
// touches it.
func (c *conn) takeBack() {
	c.state.Store(claimed)
	c.unclaim()
}

// sent tells whether request i of a busy connection has left, or is leaving: not that it waits for the lane, or is being
// taken back.
func (c *conn) sent(i int32) bool {
	l := c.run.remote
	if l == nil {
		return true
	}
	switch l.shots[i].state.Load() {
	case shotEmpty, shotArmed, shotAbandoned:
		return false
	}
	return true
}

// disarm is for a receiver that has found its connection over. If the lane has not written request i yet, the request
// gets another connection and this one is buried; true then.
func (c *conn) disarm(i int32) bool {
	if !c.run.remote.shots[i].state.CompareAndSwap(shotArmed, shotEmpty) {
		return false
	}
	c.peer.fired.Add(-1)
	c.state.Store(dead)
	c.closedUnused()
	c.run.remote.rearm(i)
	return true
}

// beingWritten tells whether a lane in its own process writes the current request this moment.
func (c *conn) beingWritten() bool {
	l := c.run.remote
	return l != nil && l.shots[c.request.Load()].state.Load() == shotFiring
}

// settleShot ends the writer's side of a request that the lane has written whole, when its reply is there.
func (c *conn) settleShot(i int32) {
	l := c.run.remote
	if l == nil {
		return
	}
	s := &l.shots[i]
	for s.state.Load() == shotFiring {
		runtime.Gosched() // the reply is quicker than the lane's return from the write
	}
	if s.state.CompareAndSwap(shotWhole, shotSettled) {
		c.run.wholeWrites.Add(1)
		c.took(i, s)
		c.run.records[i].WrittenNS = s.writtenNS
		c.run.work.Images.Wrote(i)
		c.endSide()
	}
}

// took puts what the lane did into the books.
func (c *conn) took(i int32, s *shot) {
	rec := &c.run.records[i]
	rec.SentNS, rec.ConnWaitNS, rec.WrittenFirstBytes = s.sentNS, 0, s.wrote
	c.sock.CountWrite(s.wrote)
}

// tookPart goes on with a request that the kernel did not take whole from the lane.
func (c *conn) tookPart(i int32, s *shot, failed bool) {
	if failed {
		s.wrote = 0
	}
	c.took(i, s)
	if failed {
		c.writeErr = syscall.Errno(s.errno)
		c.run.work.Images.Wrote(i)
		c.endSide()
		return
	}
	c.sock.KeepRest(c.run.remote.bytesOf(i)[s.wrote:])
	c.run.partialWrites.Add(1)
	c.run.workers.do(c.flushRest)
}
