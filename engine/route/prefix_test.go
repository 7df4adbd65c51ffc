package route

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// chain is a prompt for the naive router: whole blocks of one token each.
type chain []uint64

// chains are random prompts, most of which go on from earlier ones; all begin with the same block.
func chains(chance *rand.Rand, n int) (all []chain) {
	for range n {
		c := chain{1}
		if len(all) > 0 && chance.IntN(3) > 0 {
			from := all[chance.IntN(len(all))]
			c = slices.Clone(from[:1+chance.IntN(len(from))])
		}
		for range 1 + chance.IntN(3) {
			c = append(c, uint64(chance.IntN(5)))
		}
		all = append(all, c)
	}
	return all
}

// naivePrefix is the router as its comment has it: a set of prefixes for each instance, all loads counted anew each
// time. The first requests went where they are said to.
func naivePrefix(all []chain, f Flow, weights []float64, bound float64, went []int32) (chosen []int32, hits int) {
	held := make([]map[string]bool, len(weights))
	for k := range held {
		held[k] = map[string]bool{}
	}
	total := 0.0
	for _, w := range weights {
		total += w
	}
	for i, c := range all {
		inFlight, given, flying := make([]float64, len(weights)), make([]float64, len(weights)), 1.0
		for j, k := range chosen {
			given[k]++
			if f.ReleaseNS != nil && f.ReleaseNS[j]+f.LastNS[j] > f.ReleaseNS[i] || f.ReleaseNS == nil && i-j < f.Concurrency {
				inFlight[k]++
				flying++
			}
		}
		best, longest := -1, 0
		for k, w := range weights {
			if w == 0 || bound > 0 && inFlight[k]+1 > math.Ceil(bound*flying*w/total-1e-9) {
				continue
			}
			n := sharedWith(held[k], c)
			lighter := best >= 0 && (inFlight[k]/w < inFlight[best]/weights[best]-1e-9 ||
				inFlight[k]/w < inFlight[best]/weights[best]+1e-9 && given[k]/w < given[best]/weights[best]-1e-9)
			if best < 0 || n > longest || n == longest && lighter {
				best, longest = k, n
			}
		}
		if i < len(went) {
			best = int(went[i])
			longest = sharedWith(held[best], c)
		}
		chosen = append(chosen, int32(best))
		hits += longest
		for n := range c {
			held[best][key(c[:n+1])] = true
		}
	}
	return chosen, hits
}

// sharedWith is how much of a prompt is held, never all of it.
func sharedWith(held map[string]bool, c chain) (n int) {
	for n < len(c)-1 && held[key(c[:n+1])] {
		n++
	}
	return n
}

func key(c chain) (s string) {
	for _, id := range c {
		s += string(rune('a' + id))
	}
	return s
}

func promptsOf(all []chain) *kvcache.Prompts {
	p := kvcache.NewPrompts(1, 0)
	for _, c := range all {
		p.Add(c, len(c), len(c))
	}
	return p
}

// randomFlow is open, with bursts, or closed.
func randomFlow(chance *rand.Rand, n int) (f Flow) {
	if chance.IntN(3) == 0 {
		return Flow{Concurrency: 1 + chance.IntN(20)}
	}
	at := int64(0)
	for range n {
		at += int64(chance.IntN(3) * chance.IntN(100))
		f.ReleaseNS, f.LastNS = append(f.ReleaseNS, at), append(f.LastNS, 1+int64(chance.IntN(2000)))
	}
	return f
}

// TestPrefixAgreesWithSets: each request goes where the naive router sends it, for many flows, weights and bounds, also
// if some of the first went elsewhere, and if an instance is not there.
func TestPrefixAgreesWithSets(t *testing.T) {
	for seed := range uint64(60) {
		chance := rand.New(rand.NewPCG(seed, 1))
		all := chains(chance, 120)
		f := randomFlow(chance, len(all))
		weights := make([]float64, 1+chance.IntN(6))
		for k := range weights {
			weights[k] = []float64{1, 1, 2, 0.5}[chance.IntN(1+3*int(seed%2))]
		}
		var went []int32
		for range chance.IntN(90) * int(seed%3) / 2 {
			went = append(went, int32(chance.IntN(len(weights))))
		}
		if away := chance.IntN(len(weights)); len(weights) > 1 && seed%5 < 2 {
			weights[away] = 0
		}
		p := promptsOf(all)
		for _, bound := range []float64{0, 1, 1.25, 3} {
			caches := func() *kvcache.Fleet { return kvcache.NewFleet(p, 1, make([]int64, len(weights))) }
			got := ByPrefix(p, caches(), f, weights, bound, went...)
			want, hits := naivePrefix(all, f, weights, bound, went)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, bound %v: sent to\n%v, want\n%v", seed, bound, got, want)
			}
			if !slices.Equal(got, ByPrefix(p, caches(), f, weights, bound, went...)) {
				t.Fatal("the same requests were routed in two ways")
			}
			if valued := (&Question{Prompts: p, BlockTokens: 1, CapacityTokens: make([]int64, len(weights))}).routed("", got, weights, 1); valued.HitTokens != int64(hits) {
				t.Fatalf("seed %d, bound %v: %d hits, want %d", seed, bound, valued.HitTokens, hits)
			}
		}
	}
}

// TestPrefixWithoutPrefixesIsEven: with nothing to share each instance gets what its weight asks for.
func TestPrefixWithoutPrefixesIsEven(t *testing.T) {
	p := kvcache.NewPrompts(1, 32) // a template that all have is no prefix to follow
	var f Flow
	for i := range 700 {
		p.Add([]uint64{uint64(i)}, 1, 33)
		f.ReleaseNS, f.LastNS = append(f.ReleaseNS, int64(i)*1000), append(f.LastNS, 1)
	}
	weights := []float64{1, 2, 4}
	counts := make([]int, 3)
	for _, k := range ByPrefix(p, kvcache.NewFleet(p, 16, make([]int64, 3)), f, weights, 0) {
		counts[k]++
	}
	expect.List(t, counts, []int{100, 200, 400}, "counts")
}
