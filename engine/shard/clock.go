package shard

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// stamped is a connection that notes when bytes came and left last. It lies below TLS and HTTP: what these do would
// count as the way.
type stamped struct {
	net.Conn
	readNS, wroteNS atomic.Int64 // by the machine's monotonic clock
}

func (s *stamped) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.readNS.Store(sched.MonotonicNS())
	return n, err
}

func (s *stamped) Write(p []byte) (int, error) {
	s.wroteNS.Store(sched.MonotonicNS())
	return s.Conn.Write(p)
}

// stampedListener accepts connections that are stamped.
type stampedListener struct{ net.Listener }

func (l *stampedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &stamped{Conn: conn}, err
}

// newClock is this machine's wall clock since the agreed start, as if nobody set it: it goes on as the monotonic clock
// does.
func (g *Group) newClock(zero time.Time) *sched.Monotonic {
	clock := sched.NewMonotonic()
	clock.StartAtWall(zero.Add(-time.Duration(g.shiftNS)))
	return clock
}

const (
	between = 3 * time.Millisecond // from one question to the next
	// of all questions at a time: the start is times.lead ahead, however far away shard 0 is
	longest   = time.Second
	readingNS = 200 // the error of two clocks' zeros, of which each is set to within 50 ns
)

// instants are those at which the leader has a question for the time, in ns since the start.
type instants struct {
	CameNS   int64
	LeavesNS int64
}

// serveClock answers a question for the time. The answer leaves some 10 µs after it says so, since net/http comes in
// between: offsets are off by half of that, within their error.
func (l *leader) serveClock(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	zero := l.zero
	l.mu.Unlock()
	if zero == nil {
		http.Error(w, "there is no start", http.StatusConflict)
		return
	}
	came := connOf(r).NetConn().(*stamped).readNS.Load() - zero.MonotonicStartNS()
	answer(w, &instants{CameNS: came, LeavesNS: zero.Now()})
}

// compare asks the leader for the time, n times, on the connection that is there. The answer that took the shortest way
// counts. As in NTP, the question leaves at t1 and comes at t2, and the answer leaves at t3 and comes at t4. The error
// is half of the time on both ways: how they share it is unknown. If the connection fails, nothing more is known. It
// takes a second at most.
func (g *Group) compare(n int) {
	var best Offset
	for began := g.clock.Now(); n > 0 && g.clock.Now()-began < int64(longest); n-- {
		var asked instants
		if g.ask(clockPath, askTimeout, nil, &asked) != nil {
			break
		}
		wire := g.wire.Load()
		t1 := wire.wroteNS.Load() - g.clock.MonotonicStartNS()
		t4 := wire.readNS.Load() - g.clock.MonotonicStartNS()
		t2 := asked.CameNS
		t3 := asked.LeavesNS
		within := (t4-t1-(t3-t2))/2 + readingNS
		if best.ErrorNS == 0 || within < best.ErrorNS {
			best = Offset{AtNS: t4, OffsetNS: (t1 - t2 + t4 - t3) / 2, ErrorNS: within}
		}
		time.Sleep(between)
	}
	if best.ErrorNS > 0 {
		g.samples = append(g.samples, best)
	}
}

// compareOften compares the clocks during a run.
func (g *Group) compareOften(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(g.times.sample/2 + rand.N(g.times.sample)):
			g.compare(8)
		}
	}
}
