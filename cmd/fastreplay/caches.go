package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// sizeCaches settles how large each server's prefix cache is: as the flags say, else as the server told, else blocks of the
// usual size and a capacity that nobody knows.
func (r *replay) sizeCaches(told map[netip.AddrPort]engine.PrefixCache) {
	tokens := int64(0)
	if r.o.cacheTokens != "" {
		tokens, _ = parseTokens(r.o.cacheTokens) // checked with the flags
	}
	caches := map[netip.AddrPort]engine.PrefixCache{}
	for _, t := range r.work.Targets {
		for _, addr := range t.Peers {
			c, ok := told[addr]
			if !ok {
				c.BlockTokens = engine.DefaultBlockTokens
			}
			if r.o.engineBlock > 0 {
				c.BlockTokens = r.o.engineBlock
			}
			if tokens > 0 {
				c.Tokens = tokens
			}
			caches[addr] = c
		}
	}
	r.work.Caches = caches
	if !r.o.dryRun {
		r.say.line("cache: %s", describeCaches(caches, r.cacheOrigin(len(told) > 0)))
	}
}

// cacheOrigin says who told the sizes.
func (r *replay) cacheOrigin(told bool) string {
	switch {
	case r.o.engineBlock > 0 || r.o.cacheTokens != "":
		return "as the flags say"
	case told:
		return "from /metrics"
	}
	return "assumed"
}

// describeCaches says what sizes there are, once each.
func describeCaches(caches map[netip.AddrPort]engine.PrefixCache, origin string) string {
	var kinds []string
	for _, c := range caches {
		size := "of unknown or unlimited capacity (--cache-tokens)"
		if c.Tokens > 0 {
			size = human.Count(c.Tokens) + " tokens at each server"
		}
		kinds = append(kinds, fmt.Sprintf("blocks of %d tokens, %s", c.BlockTokens, size))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "; ") + ", " + origin
}

// parseTokens reads a number of tokens such as 3000000, 300k, 3M or 1.5G.
func parseTokens(text string) (int64, error) {
	number, factor := text, 1.0
	for suffix, f := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			number, factor = rest, f
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v*factor >= 1) || v*factor > 1<<52 {
		return 0, fmt.Errorf("%q is no number of tokens; want one such as 3000000, 300k or 3M", text)
	}
	return int64(v * factor), nil
}
