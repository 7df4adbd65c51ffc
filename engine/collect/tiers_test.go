package collect

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestTiers: tokens by tier, and latencies by the slowest tier that gave something, of ok requests that were told of.
func TestTiers(t *testing.T) {
	c := NewCollector(urls(1))
	const none = int64(record.None)
	for i, told := range []struct {
		device, host, external, ttftMS int64
		outcome                        record.Outcome
	}{
		{none, none, none, 1, record.OK}, // nothing is told
		{0, none, 0, 90, record.OK},
		{64, none, 0, 10, record.OK},
		{64, none, 32, 40, record.OK}, // vLLM with a connector
		{16, 48, none, 20, record.OK}, // SGLang without storage
		{0, 8, 16, 60, record.OK},
		{512, 512, 512, 1, record.StreamError},
	} {
		r := answered()
		r.Row = int64(i)
		r.Outcome = told.outcome
		r.FirstTokenNS = r.SentNS + told.ttftMS*1_000_000
		r.CachedDeviceTokens, r.CachedHostTokens, r.CachedExternalTokens = told.device, told.host, told.external
		c.Add(r, 0)
	}
	all := c.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: 7},
		Run:      metrics.Run{DurationS: 4},
		Limits:   metrics.DefaultLimits(),
	}, Probed{})
	s := all.PrefixCache.Tiers
	expect.Equal(t, s.HostBytesPerS == nil && s.ExternalBytesPerS == nil, true, "nobody told how large a token is")
	must.Do(t, all.SetKVBytes(1000))
	expect.Equal(t, [2]float64{*s.HostBytesPerS, *s.ExternalBytesPerS}, [2]float64{14_000, 12_000})
	expect.Equal(t, s.Requests, 5)
	expect.Equal(t, [3]int64{*s.DeviceTokens, *s.HostTokens, *s.ExternalTokens}, [3]int64{144, 56, 48})
	expect.Equal(t, [3]float64{*s.DeviceTokensPerS, *s.HostTokensPerS, *s.ExternalTokensPerS}, [3]float64{36, 14, 12})
	ttft := map[string]float64{}
	for _, p := range s.BySlowest {
		ttft[p.Name] = p.TTFTMS.Mean
		expect.Equal(t, p.Requests, map[string]int64{"none": 1, "device": 1, "host": 1, "external": 2}[p.Name], p.Name)
	}
	for name, ms := range map[string]float64{"none": 90, "device": 10, "host": 20, "external": 50} {
		expect.Equal(t, ttft[name], ms, name)
	}
}

// TestTiersUntold: a server that tells no tiers apart has no table of them.
func TestTiersUntold(t *testing.T) {
	c := NewCollector(urls(1))
	c.Add(answered(), 0)
	s := planned(c, 1)
	expect.Equal(t, s.PrefixCache.Tiers == nil, true)
	expect.Equal(t, s.SetKVBytes(1000) == nil, false, "an error: there are no tiers")
}
