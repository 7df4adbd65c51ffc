package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestIDSet compares with a map, of which the smallest key is taken.
func TestIDSet(t *testing.T) {
	const capacity = 200
	s, twin := newIDSet(capacity), map[uint32]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		id := rng.Uint32N(capacity)
		switch rng.IntN(3) {
		case 0:
			s.add(id)
			twin[id] = true
		case 1:
			s.remove(id)
			delete(twin, id)
		default:
			want, some := uint32(capacity), len(twin) > 0
			for id := range twin {
				want = min(want, id)
			}
			first, isFirst := s.first()
			got, ok := s.pop()
			if ok != some || some && got != want {
				t.Fatalf("took %d %v, want %d %v", got, ok, want, some)
			}
			if isFirst != ok || first != got {
				t.Fatalf("the first was %d %v, took %d %v", first, isFirst, got, ok)
			}
			delete(twin, want)
		}
		must.Equal(t, s.len(), int64(len(twin)), "ids of %d", len(twin))
	}
}

// TestIDSetNeverHandsOutAnIDTwice moves ids between many goroutines; each id must have one owner at a time.
func TestIDSetNeverHandsOutAnIDTwice(t *testing.T) {
	const ids, movers, moves = 70, 8, 20_000
	s := newIDSet(ids)
	var owners [ids]atomic.Int32
	for id := range uint32(ids) {
		s.add(id)
	}
	var wg sync.WaitGroup
	for range movers {
		wg.Go(func() {
			for range moves {
				id, ok := s.pop()
				if !ok {
					continue
				}
				expect.Equal(t, owners[id].Add(1), 1, "id %d has two owners", id)
				owners[id].Add(-1)
				s.add(id)
			}
		})
	}
	wg.Wait()
	expect.Equal(t, s.len(), ids, "ids are left")
}

func BenchmarkIDSetTakeFromTheEndOf10000(b *testing.B) {
	s := newIDSet(10_000)
	s.add(9_999)
	b.ReportAllocs()
	for b.Loop() {
		id, _ := s.pop()
		s.add(id)
	}
}
