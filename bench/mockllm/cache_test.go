package mockllm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveCache is the oracle: it keeps whole token prefixes, least recently used first, and compares tokens.
type naiveCache struct {
	capacity int // blocks; negative = no limit
	blocks   [][]uint64
	waiting  []naivePrefill
}

type naivePrefill struct {
	end    int64
	tokens []uint64
}

func (n *naiveCache) use(prefix []uint64) bool {
	i := slices.IndexFunc(n.blocks, func(b []uint64) bool { return slices.Equal(b, prefix) })
	if i < 0 {
		return false
	}
	b := n.blocks[i]
	n.blocks = append(slices.Delete(n.blocks, i, i+1), b)
	return true
}

func (n *naiveCache) settle(now int64) {
	slices.SortStableFunc(n.waiting, func(a, b naivePrefill) int { return int(a.end - b.end) })
	for len(n.waiting) > 0 && n.waiting[0].end <= now {
		tokens := n.waiting[0].tokens
		n.waiting = n.waiting[1:]
		for to := BlockTokens; to <= len(tokens); to += BlockTokens {
			if n.capacity == 0 || n.use(tokens[:to]) {
				continue
			}
			if n.capacity > 0 && len(n.blocks) == n.capacity {
				n.blocks = slices.Delete(n.blocks, 0, 1)
			}
			n.blocks = append(n.blocks, slices.Clone(tokens[:to]))
		}
	}
}

func (n *naiveCache) lookup(tokens []uint64, now int64) int {
	n.settle(now)
	cached := 0
	for to := BlockTokens; to <= len(tokens); to += BlockTokens {
		if !n.use(tokens[:to]) {
			break
		}
		if to < len(tokens) {
			cached = to
		}
	}
	return cached
}

func TestCacheAgainstNaive(t *testing.T) {
	for _, capacity := range []int{-1, 0, 1, 7, 50} {
		r := rand.New(rand.NewPCG(uint64(capacity+2), 1))
		tokens := int64(capacity * BlockTokens)
		if capacity < 0 {
			tokens = -1
		}
		cache := newPrefixCache(tokens)
		naive := &naiveCache{capacity: capacity}
		var now, hits, queries int64
		for step := range 3000 {
			now += int64(r.IntN(20))
			prompt := randomPrompt(r)
			p := cache.get()
			h := hashIDs(prompt)
			p.keys = append(p.keys, h.keys...)
			got, want := cache.lookup(p, len(prompt), 0, now), naive.lookup(prompt, now)
			if got != want {
				t.Fatalf("capacity %d, step %d: %d tokens cached, want %d", capacity, step, got, want)
			}
			hits += int64(got)
			queries += int64(len(prompt))
			end := now + int64(step)*7919%101*100 + int64(step)%97 // hardly ever equal ends
			ticket := cache.admit(p, end)
			if r.IntN(8) == 0 {
				cache.drop(p, ticket, now)
				if end > now {
					continue
				}
			}
			naive.waiting = append(naive.waiting, naivePrefill{end, prompt})
			if r.IntN(500) == 0 {
				cache.flush(now)
				naive.settle(now)
				naive.blocks = nil
			}
		}
		st := cache.stats(now)
		naive.settle(now)
		if st.hits != hits || st.queries != queries || st.blocks != len(naive.blocks) {
			t.Errorf("capacity %d: stats %+v, want %d hits, %d queries, %d blocks", capacity, st, hits, queries, len(naive.blocks))
		}
		if capacity != 0 && hits == 0 {
			t.Errorf("capacity %d: the test never hit", capacity)
		}
	}
}

// randomPrompt draws few blocks from a small set, so that prefixes are shared often.
func randomPrompt(r *rand.Rand) []uint64 {
	var tokens []uint64
	for range 1 + r.IntN(5) {
		b := uint64(r.IntN(3))
		for i := range uint64(BlockTokens) {
			tokens = append(tokens, b*100+i)
		}
	}
	return tokens[:len(tokens)-r.IntN(BlockTokens)*r.IntN(2)]
}

func TestCacheSalt(t *testing.T) {
	cache := newPrefixCache(-1)
	prompt := make([]uint64, 40)
	look := func(salt uint64, now int64) int {
		p := cache.get()
		h := hashIDs(prompt)
		p.keys = append(p.keys, h.keys...)
		defer func() { cache.admit(p, now) }()
		return cache.lookup(p, len(prompt), salt, now)
	}
	for i, c := range []struct {
		salt uint64
		want int
	}{{0, 0}, {0, 32}, {77, 0}, {77, 32}, {0, 32}} {
		if got := look(c.salt, int64(i)); got != c.want {
			t.Errorf("lookup %d with salt %d: %d, want %d", i, c.salt, got, c.want)
		}
	}
}

// A prefill that is reused must not be dropped by the ticket of its former life.
func TestCacheStaleTicket(t *testing.T) {
	cache := newPrefixCache(-1)
	first := cache.get()
	stale := cache.admit(first, 10)
	cache.stats(10) // settles and recycles it
	second := cache.get()
	if second != first {
		t.Fatal("the prefill was not reused")
	}
	h := hashIDs(make([]uint64, 32))
	second.keys = append(second.keys, h.keys...)
	cache.admit(second, 20)
	cache.drop(first, stale, 15)
	if st := cache.stats(20); st.blocks != 2 {
		t.Errorf("%d blocks, want 2", st.blocks)
	}
}

func BenchmarkCache(b *testing.B) {
	for name, capacity := range map[string]int64{"unlimited": -1, "lru": 3 << 20} {
		b.Run(name, func(b *testing.B) {
			cache := newPrefixCache(capacity)
			r := rng(1)
			const blocks = 750 // the mean prompt of Mooncake's conversation trace: 12,035 tokens
			now := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				p := cache.get()
				for i := range uint64(blocks) {
					p.keys = append(p.keys, finalize(i))
				}
				for i := blocks / 3; i < blocks; i++ {
					p.keys[i] = r.next()
				}
				now++
				cache.lookup(p, blocks*BlockTokens, 0, now)
				cache.admit(p, now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
		})
	}
}
