package prompt

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// benchTokens is the length of the prompt that benchmarks append.
const benchTokens = 8192

// benchSource appends one prompt in blocks of blockTokens, the last of them unique.
func benchSource(b *testing.B, src Source, blockTokens int) {
	s := Spec{BlockTokens: blockTokens, Tokens: benchTokens, Unique: 7}
	for id := range benchTokens/blockTokens - 1 {
		s.Blocks = append(s.Blocks, uint64(id)*2654435761)
	}
	buf := make([]byte, 0, src.Size(s))
	b.SetBytes(int64(cap(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = src.Append(buf[:0], s)
	}
	must.Equal(b, len(buf), src.Size(s), "appended bytes")
	reportTokens(b)
}

func reportTokens(b *testing.B) {
	b.ReportMetric(benchTokens*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

func BenchmarkTokenIDs(b *testing.B) {
	src, err := NewTokenIDs(1, BuiltInIDs())
	must.Do(b, err)
	b.Run("mooncake", func(b *testing.B) { benchSource(b, src, 512) })
	b.Run("bailian", func(b *testing.B) { benchSource(b, src, 16) })
}

func BenchmarkText(b *testing.B) {
	src := newText(b, 1)
	b.Run("mooncake", func(b *testing.B) { benchSource(b, src, 512) })
	b.Run("bailian", func(b *testing.B) { benchSource(b, src, 16) })
}

// BenchmarkTokenIDsStandardLibrary is the same work with strconv and math/rand.
func BenchmarkTokenIDsStandardLibrary(b *testing.B) {
	buf := make([]byte, 0, 6*benchTokens)
	b.SetBytes(6*benchTokens - 1)
	b.ReportAllocs()
	for b.Loop() {
		buf = buf[:0]
		chance := rand.New(rand.NewPCG(1, 2))
		for p := range benchTokens {
			if p > 0 {
				buf = append(buf, ',')
			}
			buf = strconv.AppendInt(buf, 10000+int64(chance.IntN(22000)), 10)
		}
	}
	must.Equal(b, len(buf), 6*benchTokens-1, "appended bytes")
	reportTokens(b)
}
