package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// sizeCaches settles how large each server's prefix cache is: as the flags say, else as the server told, else blocks of the
// usual size and a capacity that nobody knows.
func (r *replay) sizeCaches(told map[netip.AddrPort]workload.PrefixCache) {
	r.work.Caches = map[netip.AddrPort]workload.PrefixCache{}
	var kinds, against []string
	for _, t := range r.work.Targets {
		for _, addr := range t.Endpoints {
			c, words := r.o.sizeCache(told[addr])
			r.work.Caches[addr] = c
			kinds = append(kinds, words)
			if text := r.o.contradictCache(told[addr]); text != "" {
				against = append(against, text)
			}
		}
	}
	slices.Sort(against)
	for _, text := range slices.Compact(against) {
		r.note("%s: what is given is used; leave it out to use what the server says", text)
	}
	if !r.o.dryRun {
		slices.Sort(kinds)
		r.say.line("cache: %s", strings.Join(slices.Compact(kinds), "; "))
	}
}

// sizeCache is sizeCaches for one server, of which the zero value was told if nothing was. The words say where each number
// comes from.
func (o *options) sizeCache(told workload.PrefixCache) (c workload.PrefixCache, words string) {
	c, block, capacity := told, "/metrics", "/metrics"
	switch {
	case o.engineBlock > 0:
		c.BlockTokens, c.Assumed, block = o.engineBlock, false, "--engine-block-tokens"
	case c.BlockTokens == 0:
		c.BlockTokens, c.Assumed, block = workload.DefaultBlockTokens, true, "assumed"
	case c.Assumed:
		block = "/metrics, uncertain: its capacity is no number of such blocks"
	}
	if o.cacheCapacity > 0 {
		c.Tokens, capacity = o.cacheCapacity, "--cache-tokens"
	}
	if c.Off {
		return c, "the servers say that prefix caching is off"
	}
	words = fmt.Sprintf("blocks of %s (%s), ", format.Many(int64(c.BlockTokens), "token"), block)
	if c.Tokens == 0 {
		return c, words + "capacity unknown (give --cache-tokens)"
	}
	return c, words + fmt.Sprintf("%s per server (%s)", format.Many(c.Tokens, "token"), capacity)
}

// contradictCache names the given sizes of a server's cache that are not what the server tells; "" if all are.
func (o *options) contradictCache(told workload.PrefixCache) string {
	var wrong []string
	if block := told.BlockTokens; o.engineBlock > 0 && block > 0 && !told.Assumed && block != o.engineBlock {
		wrong = append(wrong, fmt.Sprintf("--engine-block-tokens is %d, /metrics says %d", o.engineBlock, block))
	}
	if o.cacheCapacity > 0 && told.Tokens > 0 && told.Tokens != o.cacheCapacity {
		wrong = append(wrong, fmt.Sprintf("--cache-tokens is %d, /metrics says %d", o.cacheCapacity, told.Tokens))
	}
	return strings.Join(wrong, "; ")
}

// parseTokens reads a number of tokens such as 3000000, 300k, 3M or 1.5G.
func parseTokens(text string) (int64, error) {
	if n, ok := parseAmount(text, map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}); ok && n <= 1<<52 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no number of tokens; want one such as 3000000, 300k or 3M", text)
}

// parseBytes reads a size such as 500MB, 8GiB or 1048576.
func parseBytes(text string) (int64, error) {
	units := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20,
		"GiB": 1 << 30, "TiB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	if n, ok := parseAmount(text, units); ok {
		return n, nil
	}
	return 0, fmt.Errorf("size %q; want bytes, or a number with kB, MB, GB, KiB, MiB or GiB", text)
}

// parseAmount reads a number from 1 to 2^62 with the name of a unit behind it.
func parseAmount(text string, units map[string]float64) (n int64, ok bool) {
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v *= units[text[len(number):]]
	return int64(v), err == nil && v >= 1 && v <= 1<<62
}
