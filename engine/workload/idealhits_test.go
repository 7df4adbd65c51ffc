package workload_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// TestIdealHitsKeepsOneCacheForEachAddress: places 0 and 1 share 127.0.0.1:1, the third has a cache of its own.
func TestIdealHitsKeepsOneCacheForEachAddress(t *testing.T) {
	w := workloadtest.Work(t, 300)
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
	expect.List(t, w.IdealHits().Expected, want, "ideal hits")
}

// TestIdealBounds: an assumed block size bounds the hits by those of single tokens, an unknown head by both ends.
func TestIdealBounds(t *testing.T) {
	w := workloadtest.Work(t, 300)
	sum := func(hits []int64) (n int64) {
		for _, h := range hits {
			n += h
		}
		return n
	}
	guess := w.IdealHits()
	if sum(guess.Expected) != sum(guess.Least) || sum(guess.Most) <= sum(guess.Least) {
		t.Errorf("assumed blocks: %d expected in %d to %d", sum(guess.Expected), sum(guess.Least), sum(guess.Most))
	}
	w.Caches = map[netip.AddrPort]workload.PrefixCache{}
	for _, target := range w.Targets {
		for _, addr := range target.Endpoints {
			w.Caches[addr] = workload.PrefixCache{BlockTokens: 16}
		}
	}
	exact := w.IdealHits()
	if !slices.Equal(exact.Expected, guess.Expected) || !slices.Equal(exact.Most, exact.Least) {
		t.Errorf("blocks that were told: %d expected in %d to %d", sum(exact.Expected), sum(exact.Least), sum(exact.Most))
	}
	w.Overhead.HeadUnknown = true
	if hidden := w.IdealHits(); hidden.Expected != nil || sum(hidden.Least) >= sum(hidden.Most) {
		t.Errorf("unknown head: %v expected in %d to %d", hidden.Expected, sum(hidden.Least), sum(hidden.Most))
	}
}

// TestOneServerOfTwoNames has one cache, and the weights of both.
func TestOneServerOfTwoNames(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2, 1)
	s := w.Servers()
	if !slices.Equal(s.Weights, []float64{4, 2}) || !slices.Equal(s.Capacity, []int64{16_000, 32_000}) || len(s.Targets) != 2 || s.Of[route.Place{Target: 2}] != 0 {
		t.Errorf("%+v", s)
	}
	w.Routing.Bound = route.DefaultBound
	w.Routing.Router = route.PrefixName
	w.Places = w.Placed(w.Routing.Targets, nil)
	for i, p := range w.Places {
		if p.Target == 2 {
			t.Fatalf("request %d goes to the second name", i)
		}
	}
}
