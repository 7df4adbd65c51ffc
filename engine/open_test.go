package engine

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/sched"
)

// openSink looks at the open requests at each record.
type openSink struct {
	sink
	t      *testing.T
	run    *Run
	ended  map[int64]bool // by planned_ns
	seen   int
	first  int           // with a first token
	looked chan struct{} // closed after the first look
}

func (s *openSink) Record(r *record.Record, target int) {
	s.sink.Record(r, target)
	s.ended[r.PlannedNS] = true
	open := map[int64]bool{}
	s.run.EachOpen(func(_ rows.Owner, plannedNS, sentNS, firstNS int64) {
		now := s.run.clock.Now()
		if plannedNS > now || s.run.work.Plan.ByClock() && (s.ended[plannedNS] || open[plannedNS]) {
			s.t.Errorf("a request planned at %d is open at %d; recorded %t, twice %t", plannedNS, now, s.ended[plannedNS], open[plannedNS])
		}
		if sentNS != record.None && (sentNS < plannedNS || sentNS > now) || firstNS != record.None && (firstNS < sentNS || firstNS > now) {
			s.t.Errorf("planned at %d, sent at %d, first token at %d, now %d", plannedNS, sentNS, firstNS, now)
		}
		open[plannedNS] = true
		if firstNS != record.None {
			s.first++
		}
	})
	if s.seen += len(open); len(s.records) == 1 {
		close(s.looked)
	}
	if s.run.work.Plan.ByClock() {
		for _, at := range s.run.work.Plan.ReleaseNS {
			if at < r.DoneNS && !s.ended[at] && !open[at] {
				s.t.Errorf("a request planned at %d is neither recorded nor open at %d", at, r.DoneNS)
			}
		}
	}
}

// holdSecond makes a server answer its first request when the second has come, and that one after the first look: it is
// open then.
func (k *openSink) holdSecond(s *server) func(int64, net.Conn) {
	second, came := make(chan struct{}), new(atomic.Int64)
	return func(_ int64, c net.Conn) {
		s.each(c, func([]byte) []byte {
			switch came.Add(1) {
			case 1:
				<-second
			case 2:
				close(second)
				<-k.looked
			}
			return s.answer
		})
	}
}

// TestEachOpen: each request whose time has come is either open or recorded, and nothing is both.
func TestEachOpen(t *testing.T) {
	for name, plan := range map[string]func([]int64) (sched.Plan, error){"open": fasterPlan, "closed": closedPlan(8)} {
		t.Run(name, func(t *testing.T) {
			eachSender(t, func(t *testing.T, kind senderKind) {
				w, s := equalWork(t, 300, plan)
				k := &openSink{t: t, ended: map[int64]bool{}, looked: make(chan struct{})}
				s.handle = k.holdSecond(s)
				k.run = newRun(t, kind, w, k)
				do(t, s, k.run)
				if len(k.records) != 300 || k.seen == 0 {
					t.Errorf("%d records, %d open requests seen, %d of them with a token", len(k.records), k.seen, k.first)
				}
			})
		})
	}
}
