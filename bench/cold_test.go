package bench

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// oneByOne makes a server's hits a matter of order alone: with one request in flight, nothing overtakes.
func oneByOne(t *testing.T, args ...string) []string {
	t.Helper()
	load := generate(t, "--rows", "40", "--turns", "1:5", "--turn-tokens", "200:600", "--system-tokens", "1024", "--reuse", "1",
		"--input-tokens", "1100:4000", "--output-tokens", "2")
	return append([]string{"--trace", load, "--concurrency", "1"}, args...)
}

// cached is what the server reported for each row.
func (r *results) cached() map[int64]int64 {
	list := map[int64]int64{}
	for _, l := range r.lines {
		list[l.Row] = l.Cached
	}
	return list
}

// TestColdStart: a second run right after the first sees exactly what the first saw, and both the ideal.
func TestColdStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		mock, args []string
	}{
		{name: "flush, asked for", says: "flush their prefix caches", args: []string{"--cold", "flush"}},
		{name: "salt", says: "proven to work", mock: []string{"--quirk", "no-flush"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, c.mock...)
			args := oneByOne(t, append(c.args, "--url", m.url)...)
			first, second := run(t, args...), run(t, args...)
			for _, r := range []*results{first, second} {
				r.prove(t)
				r.verdict(t)
				expect.Contains(t, r.stderr, c.says, "the run does not say")
				hits := int64(0)
				for _, l := range r.lines {
					hits += l.Cached
					expect.Equal(t, l.Cached, l.Expected, "row %d: tokens cached", l.Row)
				}
				if hits == 0 {
					t.Error("the trace has no hits to judge by")
				}
			}
			if !maps.Equal(first.cached(), second.cached()) {
				t.Errorf("the second run was served other hits:\n%v\n%v", first.cached(), second.cached())
			}
			if a, b := first.summary.Workload.Fingerprint, second.summary.Workload.Fingerprint; a != b || !strings.HasPrefix(a, "sha256:") {
				t.Errorf("fingerprints %s and %s", a, b)
			}
			log := m.stop(t)
			first.join(t, log)
			second.join(t, log)
		})
	}
}

// TestWarmCacheByCounters: responses report no cached tokens, as vLLM's do unless told to. The servers' counters cover
// the run and agree with the tokens that came, so they are the hits. A warm cache is found, and what is below the ideal
// has its causes.
func TestWarmCacheByCounters(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"alone", "beside one that reports"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quickEnough(t, func() string { return warmCacheByCounters(t, i == 1) })
		})
	}
}

// warmCacheByCounters is a try of TestWarmCacheByCounters. It returns why the servers' counters do not tell.
func warmCacheByCounters(t *testing.T, beside bool) (tooSlow string) {
	t.Helper()
	args, from := oneByOne(t, "--cold", "off", "--url", startMock(t, "--quirk", "no-cached-tokens").url), "server counters"
	if beside {
		args, from = append(args, "--url", startMock(t).url), "responses and server counters"
	}
	cold, warm := run(t, args...), run(t, args...)
	if tooSlow = cmp.Or(cold.slowPages(), warm.slowPages()); tooSlow != "" {
		return tooSlow
	}
	cold.verdict(t)
	p := cold.summary.PrefixCache
	if p.HitRatio == nil || *p.HitRatio != *p.ExpectedHitRatio || p.UnreportedRequests != 0 || p.Shortfall.NotReportedTokens != 0 {
		t.Errorf("the cold run: %+v, %+v", p, p.Shortfall)
	}
	warm.verdict(t, "the cache was warm")
	p, all := warm.summary.PrefixCache, warm.summary.Servers.All
	if p.HitsFrom != from || math.Abs(*p.HitRatio-*all.PrefixHitRatio) > 1e-9 || *p.HitRatio <= *p.ExpectedHitRatio {
		t.Errorf("the warm run: %v from %q; the counters say %v", *p.HitRatio, p.HitsFrom, *all.PrefixHitRatio)
	}
	said := unwrapped(warm.stderr)
	if want := "hits_from " + from; !strings.Contains(said, want) || strings.Contains(said, "needs --enable-prompt-tokens-details") {
		t.Errorf("no %q, or advice that is not needed:\n%s", want, warm.stderr)
	}
	run(t, append(args, "--allow-warm")...).verdict(t)
	return ""
}

// TestShortfallByCounters: what a cache too small has evicted is the same by the counters as by the responses.
func TestShortfallByCounters(t *testing.T) {
	t.Parallel()
	args := oneByOne(t)
	quickEnough(t, func() string {
		var by [2]metrics.Shortfall
		for i, mock := range [][]string{nil, {"--quirk", "no-cached-tokens"}} {
			m := startMock(t, append(mock, "--cache-tokens", "9600")...)
			r := run(t, append(args, "--url", m.url)...)
			if tooSlow := r.slowPages(); tooSlow != "" {
				return tooSlow
			}
			r.verdict(t)
			by[i] = *r.summary.PrefixCache.Shortfall
		}
		if by[0] != by[1] || by[0].EvictedTokens == 0 || by[0].UnexplainedTokens != 0 {
			t.Errorf("by responses %+v, by counters %+v", by[0], by[1])
		}
		return ""
	})
}

// TestSaltOfAServerThatCachesNothing: nobody is told to set a flag that would report no more.
func TestSaltOfAServerThatCachesNothing(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--cache-tokens", "0", "--quirk", "omit-zero-cached")
	r := run(t, oneByOne(t, "--url", m.url, "--cold", "salt")...)
	r.verdict(t)
	if strings.Contains(r.stderr, "--enable-prompt-tokens-details") || !strings.Contains(r.stderr, "the server caches nothing, so nothing of earlier runs can hit") {
		t.Errorf("advice that helps nobody:\n%s", r.stderr)
	}
}

// TestNoteThatTheRunContradicts: the server's probes hit nothing, so it seemed to report nothing; its answers do.
func TestNoteThatTheRunContradicts(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--block-tokens", "2048", "--quirk", "omit-zero-cached") // a probe is shorter
	r := run(t, oneByOne(t, "--url", m.url, "--cold", "salt")...)
	const note = "so whether it honours the salt is unknown"
	if said := unwrapped(r.stderr); r.summary.PrefixCache.ReportedTokens == nil || strings.Count(said, note) != 1 || slices.ContainsFunc(r.summary.Notes, func(s string) bool { return strings.Contains(s, note) }) {
		t.Errorf("said before, and contradicted:\n%s", r.stderr)
	}
}
