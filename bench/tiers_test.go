package bench

import (
	"bytes"
	"cmp"
	"path/filepath"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
)

// TestCacheTiers: a server with a small cache and a large second tier. What each answer tells of the tiers is recorded
// as the server's own log has it, and both together hold what an ideal cache would.
func TestCacheTiers(t *testing.T) {
	for _, api := range []string{"chat", "sglang"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--cache-tokens", "6k", "--host-cache-tokens", "3M", "--host-load-per-token", "1us")
			r := run(t, oneByOne(t, "--url", m.url, "--api", api, "--cold", "off")...)
			log := m.stop(t)
			var device, host int64
			for i, rec := range recordsOf(t, r.dir) {
				served := log[rec.RequestID][0]
				hit := rec.CachedHostTokens
				if api == "chat" { // vLLM calls all that its connector brings external
					hit = rec.CachedExternalTokens
				}
				expect.Equal(t, [2]int64{rec.CachedDeviceTokens, hit}, [2]int64{served.Cached - served.Host, served.Host}, "request", i)
				expect.Equal(t, rec.CachedTokens, served.Cached, "request", i)
				expect.Equal(t, rec.CachedTokens, rec.ExpectedCachedTokens, "all that an ideal cache has is in a tier, request", i)
				device += served.Cached - served.Host
				host += served.Host
			}
			if device == 0 || host == 0 {
				t.Fatalf("%d tokens of the first tier, %d of the second: the world is too small", device, host)
			}
			tiers := r.summary.PrefixCache.Tiers
			expect.Equal(t, [2]int64{*tiers.DeviceTokens, *cmp.Or(tiers.HostTokens, tiers.ExternalTokens)}, [2]int64{device, host}, "the summary")
			expect.Equal(t, (tiers.HostTokens == nil) != (tiers.ExternalTokens == nil), true, "one of them is not told")
			requests := int64(0)
			for _, p := range tiers.BySlowest {
				requests += p.Requests
			}
			expect.Equal(t, requests, int64(len(r.lines)), "requests by slowest tier")
			counted := r.summary.Servers.All
			expect.Equal(t, [2]float64{*counted.PrefixHits, *counted.ExternalHits}, [2]float64{float64(device + host), float64(host)}, "counters")
			expect.Equal(t, *counted.PrefixHitRatio, float64(device+host) / *counted.PrefixQueries, "hits of both tiers by counters")
			for _, p := range tiers.BySlowest {
				if p.ExpectedHitRatio == nil || *p.ExpectedHitRatio != *p.ReportedHitRatio {
					t.Errorf("requests by %s: ideal %v, hits %v", p.Name, p.ExpectedHitRatio, p.ReportedHitRatio)
				}
			}
			expect.Contains(t, r.stderr, "by tier", "the screen")
			html := string(readFile(t, filepath.Join(r.dir, "report.html")))
			expect.Contains(t, html, "prefix_cache.tiers.by_slowest", "the page")
		})
	}
}

// TestCacheTiersByCounters: answers tell no hits, and the server's own counters tell those of each tier.
func TestCacheTiersByCounters(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--cache-tokens", "6k", "--host-cache-tokens", "3M", "--quirk", "no-cached-tokens")
	r := run(t, oneByOne(t, "--url", m.url, "--api", "chat", "--cold", "off")...)
	var prompt, cached, host int64
	log := m.stop(t)
	for _, l := range r.lines {
		served := log[l.ID]
		prompt, cached, host = prompt+served[0].Prompt, cached+served[0].Cached, host+served[0].Host
	}
	if cached == host || host == 0 {
		t.Fatalf("%d tokens of the second tier, of %d: the world is too small", host, cached)
	}
	c := r.summary.PrefixCache
	expect.Equal(t, c.HitsFrom, "server counters")
	expect.Equal(t, *c.HitRatio, float64(cached)/float64(prompt), "hits of both tiers")
	expect.Equal(t, c.Tiers == nil, true, "no answer tells tiers")
	expect.Equal(t, *r.summary.Servers.All.ExternalHits, float64(host))
	expect.Contains(t, r.stderr, "by tier", "the screen")
}

// recordsOf are the records of a run.
func recordsOf(t *testing.T, dir string) (all []record.Record) {
	t.Helper()
	for line := range bytes.Lines(readFile(t, filepath.Join(dir, "requests.jsonl"))) {
		var r record.Record
		must.Do(t, record.Parse(line, &r))
		all = append(all, r)
	}
	return all
}
