package probe

import (
	"context"
	"math"
	"net/netip"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// cacheFamily is vLLM's metric whose labels tell the cache's size.
const cacheFamily = "vllm:cache_config_info"

// nullBlocks is how many blocks vLLM keeps back for positions that need none (vllm/v1/core/block_pool.py).
const nullBlocks = 1

// PrefixCaches asks every address for the size of its prefix cache (vLLM's /metrics). Addresses that do not tell are
// missing in the answer. engines is the largest number of caches that one address said to stand for: with more than one,
// which of them a request meets is not known here.
func (b *Prober) PrefixCaches(ctx context.Context) (caches map[netip.AddrPort]workload.PrefixCache, engines int) {
	caches = map[netip.AddrPort]workload.PrefixCache{}
	for i := range b.Targets {
		t := &b.Targets[i]
		for _, addr := range t.Peers {
			status, page, err := b.ask(ctx, t, addr, fasthttp.MethodGet, t.Base+"/metrics", nil)
			if err != nil || status != 200 {
				continue
			}
			c, n := parsePrefixCache(page)
			engines = max(engines, n)
			if n > 0 {
				caches[addr] = c
			}
		}
	}
	return caches, engines
}

// parsePrefixCache reads vLLM's metrics page and returns the cache of one engine, with the capacities of all of them added
// up, and how many engines there are: none on a page of another format.
func parsePrefixCache(page []byte) (c workload.PrefixCache, engines int) {
	err := scrape.Lines(page, func(name []byte, labels scrape.Labels, _ float64) {
		if string(name) != cacheFamily {
			return
		}
		size, _ := strconv.Atoi(labels.Get("block_size"))
		if size < 1 {
			return
		}
		engines++
		c.BlockTokens = size
		c.Off = c.Off || labels.Get("enable_prefix_caching") == "False"
		blocks, _ := strconv.ParseInt(labels.Get("num_gpu_blocks"), 10, 64)
		capacity := max(0, blocks-nullBlocks) * int64(size)
		// With several kinds of layers, blocks are of several sizes, and only this is the capacity: block_size is then the
		// smallest, and no piece that is cached. With one kind it includes the null block and is rounded by the longest sequence.
		if told, _ := strconv.ParseInt(labels.Get("kv_cache_size_tokens"), 10, 64); told > 0 {
			sequences, _ := strconv.ParseFloat(labels.Get("kv_cache_max_concurrency"), 64)
			if !oneKind(told, blocks, int64(size), sequences) {
				c.Assumed, capacity = true, told
			}
		}
		c.Tokens += capacity
	})
	if err != nil {
		return workload.PrefixCache{}, 0
	}
	return c, engines
}

// oneKind tells whether a capacity in tokens is that of so many blocks of one size. vLLM computes it (get_kv_cache_capacity in
// vllm/v1/core/kv_cache_utils.py) as the longest sequence times the number of such sequences that fit, and that number as the
// blocks by those of one sequence, of all kinds of layers together. sequences is 0 where it is not told.
func oneKind(tokens, blocks, size int64, sequences float64) bool {
	if sequences <= 0 {
		return tokens <= blocks*size && tokens >= (blocks-2*nullBlocks)*size
	}
	ofOne := math.Round(float64(blocks) / sequences)
	return float64(tokens)/sequences <= ofOne*float64(size) && float64(tokens+1)/sequences > (ofOne-1)*float64(size)
}
