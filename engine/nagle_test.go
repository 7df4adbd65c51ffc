package engine

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// peers are the two ends of a connection, in steps of 0.1 ms: a server of small segments, with or without Nagle's
// algorithm, and Linux's acknowledgements of them.
type peers struct {
	nagle     bool
	trip      int   // each way, steps
	pending   int   // bytes that the server holds back
	unacked   int   // segments that it knows of as not acknowledged
	coming    []int // when each segment comes, steps …
	sizes     []int // … and its bytes
	acks      []int // when an acknowledgement comes, of all before
	acked     []int // … and how many segments that are
	quick     int   // acknowledgements that leave at once
	came      int   // segments
	told      int   // acknowledged by the client, of those
	lastCame  int
	firstLies int // when the first came that is not acknowledged
	unread    []wire.Arrival
}

func (p *peers) acknowledge(at int) {
	if p.told < p.came {
		p.acks, p.acked = append(p.acks, at+p.trip), append(p.acked, p.came-p.told)
		p.told = p.came
	}
}

// step is one of the kernels' at an instant. The server's program writes so many bytes.
func (p *peers) step(at, written int) {
	for len(p.acks) > 0 && p.acks[0] <= at {
		p.unacked -= p.acked[0]
		p.acks, p.acked = p.acks[1:], p.acked[1:]
	}
	if p.pending += written; p.pending > 0 && (!p.nagle || p.unacked == 0) {
		p.coming, p.sizes = append(p.coming, at+p.trip), append(p.sizes, p.pending)
		p.pending, p.unacked = 0, p.unacked+1
	}
	for len(p.coming) > 0 && p.coming[0] <= at {
		if p.came == 0 || at-p.lastCame > 2000 {
			p.quick = quickAcks
		}
		if p.told == p.came {
			p.firstLies = at
		}
		p.came++
		p.lastCame = at
		p.unread = append(p.unread, wire.Arrival{Bytes: p.sizes[0], WallNS: int64(at) * 1e5})
		p.coming, p.sizes = p.coming[1:], p.sizes[1:]
		if p.quick > 0 {
			p.quick--
			p.acknowledge(at)
		}
	}
	if p.told < p.came && at-p.firstLies >= 400 {
		p.acknowledge(at)
	}
}

// TestNagleIsNeverProvedAbsentWhereItIs: whatever a server with it writes, and whenever a client reads, no read is a
// proof. Without it, most worlds have one.
func TestNagleIsNeverProvedAbsentWhereItIs(t *testing.T) {
	const worlds = 1000
	proofs := [2]int{}
	for seed := range uint64(2 * worlds) {
		rng := rand.New(rand.NewPCG(seed, 34))
		p := peers{nagle: seed%2 == 1, trip: rng.IntN(300)}
		gap, wait := 1+rng.IntN(600), 1+rng.IntN(600)
		var known smallSegments
		proved := false
		for at := range 50_000 {
			written := 0
			if rng.IntN(gap) == 0 {
				written = 1 + rng.IntN(200)
			}
			p.step(at, written)
			if rng.IntN(wait) == 0 && len(p.unread) > 0 {
				proved = known.note(p.unread) || proved
				p.unread = p.unread[:0]
				p.acknowledge(at)
			}
		}
		if proved {
			proofs[seed%2]++
		}
	}
	if proofs[1] > 0 || proofs[0] < worlds/2 {
		t.Errorf("%d proofs without Nagle's algorithm, %d with it; want %d at least, and 0", proofs[0], proofs[1], worlds/2)
	}
}

// TestTrialsFindNagle: the same by the kernel itself.
func TestTrialsFindNagle(t *testing.T) {
	if err := wire.ProbeRing(); err != nil {
		t.Skip(err)
	}
	for _, has := range []bool{false, true} {
		w, s := equalWork(t, 8, openPlan)
		r := newRun(t, oneThread, w, new(sink))
		r.useStamps(wire.Stamps{Receive: true, Ring: true})
		r.openRing()
		known := &r.pools[0].nagle
		const trials = 4
		s.handle = func(_ int64, c net.Conn) {
			defer func() { _ = c.Close() }()
			must.Do(t, c.(*net.TCPConn).SetNoDelay(!has))
			for buf := make([]byte, s.request); ; {
				if _, err := io.ReadFull(c, buf); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for !known.absent() && (!has || known.trials.Load() < trials) {
					_, _ = io.WriteString(c, chunk(events(1)))
					time.Sleep(5 * time.Millisecond)
				}
				_, _ = io.WriteString(c, chunk(events(1, finish, done))+chunk(""))
			}
		}
		do(t, s, r)
		expect.Equal(t, known.absent(), !has, "the server has Nagle's algorithm: %v; known to have none", has)
	}
}
