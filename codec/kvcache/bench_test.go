package kvcache

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

const benchPrompts, benchReferences = 100_000, 20_000_000

// chats makes prompts of 20 million blocks in all. Each continues a random one of the last so many for about half of
// its length.
func chats(last int) [][]uint64 {
	chance := rand.New(rand.NewPCG(1, 2))
	trace := make([][]uint64, benchPrompts)
	for i := range trace {
		chain := make([]uint64, benchReferences/benchPrompts)
		from := 0
		if i > 0 {
			from = copy(chain[:chance.IntN(len(chain))], trace[i-1-chance.IntN(min(i, last))])
		}
		for j := from; j < len(chain); j++ {
			chain[j] = uint64(i)<<32 | uint64(j)
		}
		trace[i] = chain
	}
	return trace
}

// heap returns the bytes that are in use.
func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkInfinite(b *testing.B) {
	trace := chats(benchPrompts)
	var before, after uint64
	var nodes, held int
	b.ReportAllocs()
	for b.Loop() {
		before = heapBytes()
		c := NewInfinite(512, 16)
		for _, chain := range trace {
			held += c.Expected(chain, 512*len(chain), 0, 512*len(chain))
		}
		after = heapBytes()
		nodes = len(c.prefixes.nodes)
	}
	if held == 0 {
		b.Fatal("no hits in a trace full of them")
	}
	b.ReportMetric(benchReferences*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrefs/s")
	b.ReportMetric(float64(after-before)/float64(nodes), "heapB/node")
}

// BenchmarkLRU has 32 requests running, of which 8 are in their prefill. It has room for the blocks of about 1,000
// prompts, so it evicts all the time.
func BenchmarkLRU(b *testing.B) {
	trace := chats(1000)
	for _, of := range []struct {
		name                 string
		blockTokens, outputs int
		capacityTokens       int64
	}{
		{"blocks of 16", 16, 200, 1000 * 200 * 16},
		{"blocks of 512", 512, 200, 1000 * 200 * 512},
		{"blocks of 16, unlimited", 16, 200, 0},
	} {
		b.Run(of.name, func(b *testing.B) {
			var before, after uint64
			var hits int
			var running [32]Running
			b.ReportAllocs()
			for b.Loop() {
				before, hits = heapBytes(), 0
				c := NewLRU(of.blockTokens, 16, of.capacityTokens)
				for i, chain := range trace {
					if i >= len(running) {
						c.Finish(running[i%len(running)])
					}
					tokens := of.blockTokens * len(chain)
					r, cached := c.Start(chain, tokens, 20, tokens+30, of.outputs)
					running[i%len(running)] = r
					hits += cached / of.blockTokens
					if i >= 8 {
						c.Prefilled(running[(i-8)%len(running)])
					}
				}
				after = heapBytes()
				runtime.KeepAlive(c)
			}
			b.ReportMetric(benchReferences*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrefs/s")
			b.ReportMetric(float64(hits)/benchReferences, "hits/ref")
			b.ReportMetric(float64(after-before)/1e6, "heapMB")
		})
	}
}

func BenchmarkStackDistances(b *testing.B) {
	trace := chats(benchPrompts)
	b.ReportAllocs()
	for b.Loop() {
		r := NewStackDistances(512)
		for _, chain := range trace {
			r.Add(chain, 512*len(chain))
		}
		if r.Curve(InOrder).BlockRatio(math.MaxInt64) < 0.3 {
			b.Fatal("no reuse")
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/benchReferences, "ns/reference")
}
