package mockllm

import (
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestScheduleAgainstSearching: what comes out of a schedule is due, comes within a tick, and nothing is lost; next is
// the first tick of all.
func TestScheduleAgainstSearching(t *testing.T) {
	const tick = 1 << tickShift
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		var s schedule
		now := int64(1_000_000_000_000)
		waiting := map[*reply]bool{}
		for range 5000 {
			switch r.IntN(4) {
			case 0, 1:
				rep := &reply{due: now - tick + r.Int64N(tick*10_000)}
				s.add(rep)
				waiting[rep] = true
			case 2:
				for rep := range waiting {
					s.remove(rep)
					delete(waiting, rep)
					break
				}
			case 3:
				now += r.Int64N(tick * 50)
				for _, rep := range s.expire(now, nil) {
					if rep.due > now || !waiting[rep] || rep.place != 0 {
						t.Fatalf("seed %d: taken %d ns early, or twice", seed, rep.due-now)
					}
					delete(waiting, rep)
				}
				first := int64(0)
				for rep := range waiting {
					if rep.due <= now-tick {
						t.Fatalf("seed %d: %d ns late and still waiting", seed, now-rep.due)
					}
					if first == 0 || rep.tick < first {
						first = rep.tick
					}
				}
				if instant, ok := s.next(); ok != (len(waiting) > 0) || instant != first<<tickShift {
					t.Fatalf("seed %d: next at %d, %t; want %d of %d replies", seed, instant, ok, first<<tickShift, len(waiting))
				}
			}
			must.Equal(t, len(s.replies), len(waiting), "seed %d: the schedule", seed)
		}
	}
}
