package kvcache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

const tierBlockTokens = 4

// randomPrompts are short prompts that share prefixes: ids of a small alphabet, with a last partial block now and then
// and at times blocks without an id.
func randomPrompts(chance *rand.Rand, n int) (ids [][]uint64, tokens []int) {
	for range n {
		var prompt []uint64
		for range chance.IntN(5) {
			prompt = append(prompt, uint64(chance.IntN(3)))
		}
		length := len(prompt) * tierBlockTokens
		if chance.IntN(3) == 0 {
			length = max(1, length-1)
		}
		if chance.IntN(4) == 0 {
			length += 1 + chance.IntN(2*tierBlockTokens)
		}
		ids = append(ids, prompt)
		tokens = append(tokens, max(1, length))
	}
	return ids, tokens
}

// promptsOf adds prompts to a StackDistances, and its blocks to References.
func promptsOf(ids [][]uint64, tokens []int) (*StackDistances, *References, [][]Use) {
	d := NewStackDistances(tierBlockTokens)
	r := &References{}
	var uses [][]Use
	for i := range ids {
		u := d.Add(ids[i], tokens[i])
		r.Add(u)
		uses = append(uses, slices.Clone(u))
	}
	return d, r, uses
}

// hitsOf are the tokens that each tier had, summed over all prompts.
func hitsOf(r *References, p Policy, slots ...int64) []int64 {
	sum := make([]int64, len(slots))
	r.Follow(p, slots, func(_ int, hit []int64) {
		for k, tokens := range hit {
			sum[k] += tokens
		}
	})
	return sum
}

// naiveTier is a cache whose blocks lie in plain lists. Names are those of blocks, as strings.
type naiveTier interface {
	holds(name string) bool
	touch(name string)
}

// naiveFIFO lets go of what came first.
type naiveFIFO struct {
	slots int
	list  []string
}

func (c *naiveFIFO) holds(name string) bool { return slices.Contains(c.list, name) }

func (c *naiveFIFO) touch(name string) {
	if c.holds(name) {
		return
	}
	c.list = append(c.list, name)
	if len(c.list) > c.slots {
		c.list = c.list[1:]
	}
}

// naiveS3 follows the paper's algorithm 1 line by line; the front of each list is its tail.
type naiveS3 struct {
	slots, smallSlots int
	small, main       []string
	ghosts            []string
	freq              map[string]int
}

func (c *naiveS3) holds(name string) bool {
	return slices.Contains(c.small, name) || slices.Contains(c.main, name)
}

func (c *naiveS3) touch(name string) {
	if c.holds(name) {
		c.freq[name] = min(c.freq[name]+1, 3)
		return
	}
	for len(c.small)+len(c.main) == c.slots {
		if len(c.small) >= max(1, c.smallSlots) {
			c.evictS()
		} else {
			c.evictM()
		}
	}
	if i := slices.Index(c.ghosts, name); i >= 0 {
		c.ghosts = slices.Delete(c.ghosts, i, i+1)
		c.main = append(c.main, name)
	} else {
		c.small = append(c.small, name)
	}
	c.freq[name] = 0
}

func (c *naiveS3) evictS() {
	for evicted := false; !evicted && len(c.small) > 0; {
		t := c.small[0]
		c.small = c.small[1:]
		if c.freq[t] > 1 {
			if len(c.main) >= c.slots-c.smallSlots {
				c.evictM()
			}
			c.main = append(c.main, t)
			c.freq[t] = 0
			continue
		}
		c.ghosts = append(c.ghosts, t)
		if len(c.ghosts) > c.slots-c.smallSlots {
			c.ghosts = c.ghosts[1:]
		}
		evicted = true
	}
}

func (c *naiveS3) evictM() {
	for evicted := false; !evicted && len(c.main) > 0; {
		t := c.main[0]
		c.main = c.main[1:]
		if c.freq[t] > 0 {
			c.freq[t]--
			c.main = append(c.main, t)
		} else {
			evicted = true
		}
	}
}

// TestTiersAgreeWithLists: each tier's hits are those of caches in plain lists, at every prompt.
func TestTiersAgreeWithLists(t *testing.T) {
	for policy, naive := range map[Policy]func(slots int) naiveTier{
		PolicyLRU:  func(slots int) naiveTier { return &naiveLRU{slots: slots} },
		PolicyFIFO: func(slots int) naiveTier { return &naiveFIFO{slots: slots} },
		PolicyS3FIFO: func(slots int) naiveTier {
			return &naiveS3{slots: slots, smallSlots: slots / 10, freq: map[string]int{}}
		},
	} {
		t.Run(string(policy), func(t *testing.T) {
			for seed := range uint64(300) {
				chance := rand.New(rand.NewPCG(seed, 1))
				ids, tokens := randomPrompts(chance, 60)
				_, r, uses := promptsOf(ids, tokens)
				slots := []int64{1 + chance.Int64N(6), 7 + chance.Int64N(20), 30 + chance.Int64N(30)}
				var lists []naiveTier
				for _, n := range slots {
					lists = append(lists, naive(int(n)))
				}
				r.Follow(policy, slots, func(i int, hit []int64) {
					want := make([]int64, len(slots))
					names := named(ids[i], tokens[i], tierBlockTokens, i).names
					for k, name := range names {
						from := slices.IndexFunc(lists, func(l naiveTier) bool { return l.holds(name) })
						if from < 0 {
							break
						}
						want[from] += int64(min(uses[i][k].Held, uses[i][k].Tokens))
					}
					for _, name := range slices.Backward(names) {
						for _, l := range lists {
							l.touch(name)
						}
					}
					if !slices.Equal(hit, want) {
						t.Fatalf("seed %d, prompt %d of slots %v: %v, the lists have %v", seed, i, slots, hit, want)
					}
				})
			}
		})
	}
}

// bestHits is the most tokens that any cache of so many slots can hit from a use on: it tries every choice of what to
// let go, the new block too.
func bestHits(prompts [][]reference, slots int, held []uint32, memo map[string]int64) int64 {
	if len(prompts) == 0 {
		return 0
	}
	key := fmt.Sprint(len(prompts), held)
	if best, known := memo[key]; known {
		return best
	}
	var hit int64
	for _, u := range prompts[0] {
		if !slices.Contains(held, u.block) {
			break
		}
		hit += int64(u.held)
	}
	all := slices.Clone(held)
	for _, u := range prompts[0] {
		if !slices.Contains(all, u.block) {
			all = append(all, u.block)
		}
	}
	slices.Sort(all)
	best := int64(0)
	for choice := range 1 << len(all) {
		var kept []uint32
		for i, block := range all {
			if choice>>i&1 == 1 {
				kept = append(kept, block)
			}
		}
		if len(kept) == min(slots, len(all)) {
			best = max(best, bestHits(prompts[1:], slots, kept, memo))
		}
	}
	memo[key] = hit + best
	return hit + best
}

// TestBeladyIsTheBest: no way to let blocks go hits more, in whole blocks.
func TestBeladyIsTheBest(t *testing.T) {
	for seed := range uint64(60) {
		chance := rand.New(rand.NewPCG(seed, 3))
		ids, _ := randomPrompts(chance, 12)
		tokens := make([]int, len(ids))
		for i := range ids {
			ids[i] = ids[i][:min(3, len(ids[i]))]
			tokens[i] = max(1, len(ids[i])*tierBlockTokens)
		}
		_, r, _ := promptsOf(ids, tokens)
		var prompts [][]reference
		start := 0
		for _, end := range r.ends {
			prompts = append(prompts, r.uses[start:end])
			start = end
		}
		slots := 1 + chance.IntN(4)
		best := bestHits(prompts, slots, nil, map[string]int64{})
		expect.Equal(t, hitsOf(r, PolicyBelady, int64(slots))[0], best, "seed %d, %d slots: tokens hit", seed, slots)
		for _, p := range Policies {
			if got := hitsOf(r, p, int64(slots))[0]; got > best {
				t.Errorf("seed %d, %d slots: %s hits %d tokens, more than the best choice, %d", seed, slots, p, got, best)
			}
		}
	}
}

// TestUnlimitedTier: the last tier has what an unlimited cache has, whatever the policy.
func TestUnlimitedTier(t *testing.T) {
	ids, tokens := randomPrompts(rand.New(rand.NewPCG(4, 4)), 3000)
	d, r, _ := promptsOf(ids, tokens)
	want := d.Curve(TailFirst).at(1 << 40).tokens
	for _, p := range Policies {
		sum := int64(0)
		for _, tokens := range hitsOf(r, p, 5, 50, math.MaxInt64) {
			sum += tokens
		}
		expect.Equal(t, sum, want, "tokens that hit an unlimited cache: %s", p)
	}
}

// TestTierWithoutRoom: a tier that is smaller than a block serves nothing, and takes nothing from the next.
func TestTierWithoutRoom(t *testing.T) {
	ids, tokens := randomPrompts(rand.New(rand.NewPCG(6, 6)), 300)
	_, r, _ := promptsOf(ids, tokens)
	for _, p := range Policies {
		expect.Equal(t, [2]int64(hitsOf(r, p, 0, 20)), [2]int64{0, hitsOf(r, p, 20)[0]}, p)
	}
}

func BenchmarkTiers(b *testing.B) {
	ids, tokens := randomPrompts(rand.New(rand.NewPCG(5, 5)), 100_000)
	_, r, _ := promptsOf(ids, tokens)
	for _, p := range Policies {
		b.Run(string(p), func(b *testing.B) {
			for b.Loop() {
				hitsOf(r, p, 50, 500, math.MaxInt64)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(r.uses)), "ns/block")
		})
	}
}
