package engine

import (
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// TestIdealHitsKeepsOneCacheForEachAddress: places 0 and 1 share 127.0.0.1:1, the third has a cache of its own.
func TestIdealHitsKeepsOneCacheForEachAddress(t *testing.T) {
	w := sampleWork(t, 300)
	one, two := kvcache.NewInfinite(w.Trace.BlockTokens, 16), kvcache.NewInfinite(w.Trace.BlockTokens, 16)
	var want []int64
	for i := range w.Requests() {
		cache := one
		if i%4 == 3 { // every second request of the second target
			cache = two
		}
		tokens := max(1, int(w.Trace.InputTokens[i])-w.Overhead.Tokens())
		want = append(want, int64(cache.Expected(w.Trace.Blocks(i), tokens, 2, tokens+w.Overhead.Tokens())))
	}
	if got := w.IdealHits().Most; !slices.Equal(got, want) {
		t.Errorf("ideal hits %v, want %v", got, want)
	}
}
