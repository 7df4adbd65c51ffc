package setup

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// chooseCold decides how the run starts with a cold cache.
func (p *Prepared) chooseCold(ctx context.Context) error {
	cold := p.o.Cold
	if p.o.Follows() && cold != probe.ColdSalt && cold != probe.ColdOff {
		p.detail("cold: shard 0 has the servers flush their prefix caches")
		return nil
	}
	if cold == probe.ColdFlush || cold == probe.ColdAuto {
		path, err := p.Prober.Flush(ctx)
		if err == nil {
			p.Facts.Flushed = true
			p.detail("cold: the servers flush their prefix caches before the start (%s)", path)
			return nil
		}
		if cold == probe.ColdFlush || ctx.Err() != nil {
			return err
		}
		if p.o.IsShard() {
			return fmt.Errorf(
				"--cold auto: shards can only flush, and the servers cannot (%w); give --cold salt or off to all "+
					"shards",
				err,
			)
		}
	}
	switch {
	case cold == probe.ColdOff:
		p.note("cold_off", "cold: off; blocks of earlier runs with this seed may still be in the servers' caches")
		return nil
	case p.verbatims.onlyPayloads():
		p.note(
			"cold_bodies",
			"cold: the servers cannot flush, and bodies are sent as they are, without a cache_salt; what earlier "+
				"runs have sent may still be cached",
		)
		return nil
	}
	why := "have no cache_salt in --api " + p.o.API
	seen := false
	if p.o.traits.Salt {
		var works bool
		var err error
		works, seen, err = p.Prober.SaltWorks(ctx, p.source)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			why = fmt.Sprintf("take no cache_salt (%v)", err)
		case seen && !works:
			why = "ignore cache_salt: a prompt hits the cache in spite of another salt"
		default:
			why = ""
		}
	}
	switch {
	case why == "":
		p.useSalt(seen)
	case cold == probe.ColdSalt:
		return fmt.Errorf("--cold salt: the servers %s", why)
	default:
		p.leaveOpen(
			"cold start (no flush, no salt; --seed)",
			"cold: the servers cannot flush and %s; blocks of earlier runs with this seed may still be cached "+
				"(another --seed makes other blocks)",
			why,
		)
	}
	return nil
}

// takeSalt chooses a cache_salt of this run, and notes which bodies do not have it.
func (p *Prepared) takeSalt() {
	p.salt = p.o.newSalt()
	if n := p.verbatims.payloads; n > 0 {
		p.note(
			"unsalted_payloads",
			"cold: no cache_salt is in %s, sent as they are; what earlier runs have sent of them may still be cached",
			format.Many(n, "payload"),
		)
	}
}

// useSalt puts a salt of this run into bodies; seen says that a server was seen to honour one.
func (p *Prepared) useSalt(seen bool) {
	p.takeSalt()
	p.Facts.Salted = p.CacheOff(0) || seen && p.verbatims.payloads == 0
	switch {
	case seen:
		p.detail("cold: a cache_salt of this run in every body of ours, proven to work")
	case p.CacheOff(0):
		p.detail(
			"cold: a cache_salt of this run in every body of ours; the server caches nothing, so nothing of earlier " +
				"runs can hit",
		)
	default:
		p.Facts.NoteUnlessReported = "cold: a cache_salt of this run is in every body of ours; the server has " +
			"reported no " +
			"cached tokens, so whether it honours the salt is unknown (vLLM: --enable-prompt-tokens-details)"
		p.line("note: %s", p.Facts.NoteUnlessReported)
	}
}

// sizeCaches sets how large each server's prefix cache is: by the flags, else by what the server reports. Without
// either it takes blocks of the usual size and an unknown capacity.
func (p *Prepared) sizeCaches(told map[netip.AddrPort]workload.PrefixCache) {
	p.Caches = map[netip.AddrPort]workload.PrefixCache{}
	kinds := map[string]bool{}
	contradictions := map[string]bool{}
	for _, t := range p.Targets {
		for _, addr := range t.Endpoints {
			c, words := p.o.sizeCache(told[addr])
			p.Caches[addr] = c
			kinds[words] = true
			contradictions[p.o.contradictCache(told[addr])] = true
		}
	}
	delete(contradictions, "")
	for _, text := range slices.Sorted(maps.Keys(contradictions)) {
		p.note("cache_size_differs", "%s: what is given is used; leave it out to use what the server says", text)
	}
	if !p.o.DryRun {
		p.detail("cache: %s", strings.Join(slices.Sorted(maps.Keys(kinds)), "; "))
	}
}

// sizeCache is sizeCaches for one server, which reports told; the zero value if it reports nothing. The words name the
// source of each number.
func (o *Options) sizeCache(told workload.PrefixCache) (c workload.PrefixCache, words string) {
	c = told
	block := "/metrics"
	capacity := "/metrics"
	switch {
	case o.EngineBlockTokens > 0:
		c.BlockTokens = o.EngineBlockTokens
		c.Assumed = false
		block = "--engine-block-tokens"
	case c.BlockTokens == 0:
		c.BlockTokens = workload.DefaultBlockTokens
		c.Assumed = true
		block = "assumed"
	case c.Assumed:
		block = "/metrics, uncertain: its capacity is no number of such blocks"
	}
	if o.CacheTokens > 0 {
		c.Tokens = o.CacheTokens
		capacity = "--cache-tokens"
	}
	if c.Off {
		return c, "the servers say that prefix caching is off"
	}
	words = fmt.Sprintf("blocks of %s (%s), ", format.Many(c.BlockTokens, "token"), block)
	if c.Tokens == 0 {
		return c, words + "capacity unknown (give --cache-tokens)"
	}
	return c, words + fmt.Sprintf("%s per server (%s)", format.Many(c.Tokens, "token"), capacity)
}

// contradictCache names the given sizes of a server's cache that differ from what the server reports; "" if none does.
func (o *Options) contradictCache(told workload.PrefixCache) string {
	var wrong []string
	block := told.BlockTokens
	if o.EngineBlockTokens > 0 && block > 0 && !told.Assumed && block != o.EngineBlockTokens {
		wrong = append(wrong, fmt.Sprintf("--engine-block-tokens is %d, /metrics says %d", o.EngineBlockTokens, block))
	}
	if o.CacheTokens > 0 && told.Tokens > 0 && told.Tokens != o.CacheTokens {
		wrong = append(wrong, fmt.Sprintf("--cache-tokens is %d, /metrics says %d", o.CacheTokens, told.Tokens))
	}
	return strings.Join(wrong, "; ")
}
