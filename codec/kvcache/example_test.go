package kvcache_test

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// Two prompts share a block of 512 tokens; the server caches blocks of 16.
func ExampleInfinite() {
	cache := kvcache.NewInfinite(512, 16)
	fmt.Println(cache.Expected([]uint64{1, 2}, 1000, 0, 1000))
	fmt.Println(cache.Expected([]uint64{1, 3}, 1000, 0, 1000))
	fmt.Println(cache.Expected([]uint64{1, 3}, 1000, 0, 1000)) // the last token is always computed
	// Output:
	// 0
	// 512
	// 992
}

// A server with room for 64 tokens forgets the prompt that was used longest ago.
func ExampleLRU() {
	cache := kvcache.NewLRU(16, 16, 64)
	for _, block := range []uint64{1, 2, 1, 3, 2} {
		running, cached := cache.Start([]uint64{block}, 17, 0, 17, 1)
		cache.Prefilled(running)
		cache.Finish(running)
		fmt.Println(block, cached)
	}
	// Output:
	// 1 0
	// 2 0
	// 1 16
	// 3 0
	// 2 16
}

// How much a cache of any size would have held: prompts 1 and 2 take turns, so one block is not enough.
func ExampleStackDistances() {
	distances := kvcache.NewStackDistances(16)
	for _, block := range []uint64{1, 2, 1, 2} {
		distances.Add([]uint64{block}, 16)
	}
	curve := distances.Curve(kvcache.Order(0))
	fmt.Println(curve.TokenRatio(16), curve.TokenRatio(32), curve.SaturationTokens())
	// Output:
	// 0 0.5 32
}
