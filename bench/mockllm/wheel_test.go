package mockllm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWheelAgainstSorting: what comes out of the wheel is due, comes within a tick, and nothing is lost.
func TestWheelAgainstSorting(t *testing.T) {
	const tick = 1 << tickShift
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		var w wheel
		now := int64(1_000_000_000_000)
		w.expire(now, nil)
		waiting := map[*reply]bool{}
		for range 5000 {
			switch r.IntN(4) {
			case 0, 1:
				rep := &reply{due: now - tick + r.Int64N(tick*int64(1+r.IntN(3*wheelSlots)))}
				w.add(rep)
				waiting[rep] = true
			case 2:
				for rep := range waiting {
					w.remove(rep)
					delete(waiting, rep)
					break
				}
			case 3:
				checkNext(t, &w, waiting, now)
				now += r.Int64N(tick * 50)
				if r.IntN(40) == 0 {
					now += tick * wheelSlots * 2
				}
				for _, rep := range w.expire(now, nil) {
					if rep.due > now || !waiting[rep] {
						t.Fatalf("seed %d: handed out %d ns early, or twice", seed, rep.due-now)
					}
					delete(waiting, rep)
				}
				for rep := range waiting {
					if rep.due <= now-2*tick {
						t.Fatalf("seed %d: %d ns late and still there", seed, now-rep.due)
					}
				}
			}
			if w.count != len(waiting) {
				t.Fatalf("seed %d: the wheel counts %d, want %d", seed, w.count, len(waiting))
			}
		}
	}
}

// checkNext: the announced instant is never after the moment at which something must be handed out.
func checkNext(t *testing.T, w *wheel, waiting map[*reply]bool, now int64) {
	t.Helper()
	instant, ok := w.next()
	if ok != (len(waiting) > 0) {
		t.Fatalf("next says %v with %d waiting", ok, len(waiting))
	}
	if !ok {
		return
	}
	first := slices.MinFunc(keysOf(waiting), func(a, b *reply) int { return int(a.tick - b.tick) })
	if instant > first.tick<<tickShift || instant <= now-1<<tickShift {
		t.Fatalf("next at %d, but a reply is due in tick %d = %d (now %d)", instant, first.tick, first.tick<<tickShift, now)
	}
}

func keysOf(m map[*reply]bool) (keys []*reply) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}
