package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// cacheFamily is vLLM's metric whose labels have the cache's size.
const cacheFamily = "vllm:cache_config_info"

// nullBlocks is how many blocks vLLM keeps back for positions that need none (vllm/v1/core/block_pool.py).
const nullBlocks = 1

// PrefixCaches asks every address for the size of its prefix cache (vLLM's /metrics). Addresses that do not report one
// are missing in the result. engines is the largest number of caches that one address reported. If it is above 1, the
// cache that serves a request is unknown.
func (b *Prober) PrefixCaches(ctx context.Context) (caches map[netip.AddrPort]workload.PrefixCache, engines int) {
	caches = map[netip.AddrPort]workload.PrefixCache{}
	for _, at := range serversOf(b.Targets) {
		status, page, err := b.ask(ctx, at, fasthttp.MethodGet, at.Base+"/metrics", nil)
		if err != nil || status != 200 {
			continue
		}
		c, n := parsePrefixCache(page)
		engines = max(engines, n)
		if n > 0 {
			caches[at.addr] = c
		}
	}
	return caches, engines
}

// parsePrefixCache reads vLLM's metrics page. It returns the cache of one engine, with the sum of the capacities of all
// engines, and their number. That is 0 if the page has another format.
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
		// With several kinds of layers, blocks have several sizes, and only this number is the capacity. block_size is
		// then the smallest size, and the size of no cached piece. With one kind it includes the null block and is
		// rounded by the longest sequence.
		told, _ := strconv.ParseInt(labels.Get("kv_cache_size_tokens"), 10, 64)
		if told > 0 {
			sequences, _ := strconv.ParseFloat(labels.Get("kv_cache_max_concurrency"), 64)
			if !oneKind(told, blocks, int64(size), sequences) {
				c.Assumed = true
				capacity = told
			}
		}
		c.Tokens += capacity
	})
	if err != nil {
		return workload.PrefixCache{}, 0
	}
	return c, engines
}

// oneKind reports whether a capacity in tokens is that of so many blocks of one size. vLLM computes it in
// get_kv_cache_capacity (vllm/v1/core/kv_cache_utils.py): the longest sequence times the number of such sequences that
// fit. That number is all blocks divided by the blocks of one sequence, of all kinds of layers together. sequences is 0
// if it is not reported.
func oneKind(tokens, blocks, size int64, sequences float64) bool {
	if sequences <= 0 {
		return tokens <= blocks*size && tokens >= (blocks-2*nullBlocks)*size
	}
	ofOne := math.Round(float64(blocks) / sequences)
	most := ofOne * float64(size)
	least := (ofOne - 1) * float64(size)
	return float64(tokens)/sequences <= most && float64(tokens+1)/sequences > least
}

// Cold is how a run avoids hits on blocks that the run before it left in a server's cache.
type Cold string

// The values of --cold.
const (
	ColdAuto  Cold = "auto"  // flush where the server can, else salt
	ColdFlush Cold = "flush" // empty the servers' caches before the start, or fail
	ColdSalt  Cold = "salt"  // a cache_salt of this run in every body
	ColdOff   Cold = "off"   // neither
)

// flushPaths empty a prefix cache: vLLM's (with VLLM_SERVER_DEV_MODE=1) and SGLang's.
var flushPaths = [...]string{"/reset_prefix_cache", "/flush_cache"}

// otherAnswer is that of a server that takes any path: a page, a completion or an error.
var otherAnswer = regexp.MustCompile(`^\s*(<|data:)|"(choices|error)"`)

// Flush empties the prefix cache at every address of every target and returns the path that did it.
func (b *Prober) Flush(ctx context.Context) (path string, err error) {
	for _, at := range serversOf(b.Targets) {
		path, err = b.flushOne(ctx, at)
		if err != nil {
			return "", err
		}
	}
	return path, nil
}

func (b *Prober) flushOne(ctx context.Context, at server) (string, error) {
	var answers []string
	for _, path := range flushPaths {
		status, body, err := b.ask(ctx, at, fasthttp.MethodPost, at.Base+path, nil)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			answers = append(answers, fmt.Sprintf("%s: %v", path, err))
		case status == 200 && !otherAnswer.Match(body):
			return path, nil
		default:
			answers = append(answers, fmt.Sprintf("%s HTTP %d", path, status))
		}
	}
	return "", fmt.Errorf("%w: %s cannot flush its prefix cache (%s); use --cold salt or --cold off", ErrProbe, at.URL,
		strings.Join(answers, ", "))
}

// NewSalt returns a cache salt that no other run has.
func NewSalt() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "fastreplay-" + hex.EncodeToString(b[:])
}

// saltProbeTokens is several cache blocks of any engine.
const saltProbeTokens = 1024

// SaltWorks checks whether each target keeps prompts with different salts apart. The same prompt again must be a hit
// with the same salt, and a miss with another salt. seen is false if a server reports no hits.
func (b *Prober) SaltWorks(ctx context.Context, source prompt.Source) (works, seen bool, err error) {
	seen = true
	for _, at := range b.firsts() {
		text := b.newPrompt(source, saltProbeTokens)
		salt := NewSalt()
		var hits [3]int
		for i, s := range [...]string{salt, salt, NewSalt()} {
			usage, err := b.count(ctx, at, text, s)
			if err != nil {
				return false, false, err
			}
			hits[i] = usage.CachedTokens
		}
		if hits[2] > 0 {
			return false, true, nil
		}
		seen = seen && hits[1] > 0
	}
	return true, seen, nil
}
