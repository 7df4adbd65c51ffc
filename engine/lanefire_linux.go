package engine

import (
	"syscall"

	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// What follows is the hot path of a lane in a process of its own. None of it checks the stack: see sched.NewLoneWaiter.

// fireAll fires whatever no other lane has claimed.
//
//go:nosplit
func (l *laneServer) fireAll(s *laneState, w *sched.Waiter) {
	for i := l.claim(s); i < int64(len(l.shots)); i = l.claim(s) {
		if !w.Wait(l.shots[i].releaseNS) {
			return
		}
		told := l.fire(&l.shots[i])
		s.at.Store(i + 1)
		if told {
			l.wakeReplay()
		}
	}
}

// claim takes the next shot for the lane s.
//
//go:nosplit
func (l *laneServer) claim(s *laneState) int64 {
	i := l.board.claimed.Add(1) - 1
	s.at.Store(i)
	return i
}

// fire writes one shot, and reports whether the replay must be told of the result at once.
//
//go:nosplit
func (l *laneServer) fire(s *shot) (tell bool) {
	for !s.state.CompareAndSwap(shotArmed, shotFiring) {
		if s.state.CompareAndSwap(shotEmpty, shotMissed) {
			return true
		}
	}
	key := s.conn.Load()
	word := l.table[uint32(key)].word.Load()
	s.sentNS = l.clock.Now()
	if word>>32 != key>>32 {
		return s.fail(syscall.ENOTCONN)
	}
	n, errno := wire.WriteNow(uintptr(uint32(word)), l.bytes(s))
	s.writtenNS = l.clock.Now()
	s.wrote = int64(n)
	l.board.fired.Add(1)
	switch {
	case errno == syscall.EAGAIN || errno == 0 && s.wrote < s.size:
		s.state.Store(shotPart)
		return true
	case errno != 0:
		return s.fail(errno)
	}
	s.state.Store(shotWhole)
	return false
}

// bytes is what a shot writes.
//
//go:nosplit
func (l *laneServer) bytes(s *shot) []byte {
	if s.offset < 0 {
		return l.stage[^s.offset:][:s.size]
	}
	return l.arena[s.offset:][:s.size]
}

// fail leaves errno as the result of a shot.
//
//go:nosplit
func (s *shot) fail(errno syscall.Errno) (tell bool) {
	s.errno = int32(errno)
	s.state.Store(shotFailed)
	return true
}

// wakeReplay sends a wake-up. One that does not fit is not missed: others wait to be read.
//
//go:nosplit
func (l *laneServer) wakeReplay() { _, _ = wire.WriteNow(laneLinkFD, l.wake[:]) }
