package workload

import (
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestRingNeverOverwritesWhatIsNeeded: at every moment the requests between the oldest that is needed and the newest
// that is built lie apart in the ring.
func TestRingNeverOverwritesWhatIsNeeded(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := &Requests{offsets: []int64{0}}
		for range 200 {
			size := 1 + rng.Int64N(100)
			m.largest = max(m.largest, int(size))
			m.offsets = append(m.offsets, m.Bytes()+size)
		}
		must.Do(t, m.UseRing(int64(leastInRing*m.largest)+rng.Int64N(300)))
		needed := make([]bool, 200)
		for m.built.Load() < 200 {
			from := int(m.built.Load())
			to := m.ring.room(m, func(i int) bool { return needed[i] })
			for i := from; i < to; i++ {
				for j := range i {
					apart := m.place(i)+m.Size(i) <= m.place(j) || m.place(j)+m.Size(j) <= m.place(i)
					if needed[j] && !apart {
						t.Fatalf("seed %d: request %d at %d+%d over %d at %d+%d", seed, i, m.place(i), m.Size(i), j, m.place(j), m.Size(j))
					}
				}
				if m.place(i)+m.Size(i) > m.ring.bytes {
					t.Fatalf("seed %d: request %d ends at %d of %d", seed, i, m.place(i)+m.Size(i), m.ring.bytes)
				}
				needed[i] = true
			}
			m.built.Store(int64(to))
			for i := range to {
				if rng.IntN(3) == 0 || i == m.ring.kept {
					needed[i] = false
				}
			}
		}
		_ = m.Free()
	}
}

func TestRingTooSmall(t *testing.T) {
	m := &Requests{offsets: []int64{0, 100}, largest: 100}
	expect.Error(t, m.UseRing(leastInRing*100-1), "", "a ring for less than some of the largest")
	expect.Equal(t, m.UseRing(leastInRing*100), nil)
	_ = m.Free()
}
