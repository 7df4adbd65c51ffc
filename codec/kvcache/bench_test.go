package kvcache

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

// BenchmarkInfinite shows a cache 20 million block references in chats: each
// prompt goes on from a random earlier one for about half of its length.
func BenchmarkInfinite(b *testing.B) {
	const prompts, references = 100_000, 20_000_000
	chance := rand.New(rand.NewPCG(1, 2))
	trace := make([][]uint64, prompts)
	for i := range trace {
		chain := make([]uint64, references/prompts)
		from := 0
		if i > 0 {
			from = copy(chain[:chance.IntN(len(chain))], trace[chance.IntN(i)])
		}
		for j := from; j < len(chain); j++ {
			chain[j] = uint64(i)<<32 | uint64(j)
		}
		trace[i] = chain
	}
	var before, after runtime.MemStats
	var nodes, held int
	b.ReportAllocs()
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := NewInfinite(512, 16)
		for _, chain := range trace {
			held += c.Expected(chain, 512*len(chain), 0, 512*len(chain))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		nodes = len(c.prefixes.nodes)
	}
	if held == 0 {
		b.Fatal("no hits in a trace full of them")
	}
	b.ReportMetric(references*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrefs/s")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(nodes), "heapB/node")
}
