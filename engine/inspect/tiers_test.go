package inspect

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestTiers: by hand, of five rows and blocks of 16 tokens. The first tier has room for two blocks.
func TestTiers(t *testing.T) {
	rows := []rawRow{
		{chat: 1, parent: -1, ms: 0, in: 32, out: 1, ids: []int{1, 2}},
		{chat: 2, parent: -1, ms: 1900, in: 48, out: 1, ids: []int{1, 2, 3}}, // 1 and 2 are in the first tier; then 1 and 2, used last
		{chat: 3, parent: -1, ms: 2000, in: 16, out: 1, ids: []int{9}},       // then 9 and 1
		{chat: 4, parent: -1, ms: 2500, in: 48, out: 1, ids: []int{1, 2, 3}}, // 1 is in the first tier, 2 and 3 are in the second
		{chat: 5, parent: -1, ms: 2600, in: 32, out: 1, ids: []int{1, 2}},
	}
	r := Analyse(read(t, file(rows), trace.Options{}), Options{Tiers: []int64{47, Unlimited}, KVBytes: 1e9})
	tiers := r.Tiers.Policies[0].Tiers
	near(t, "served by the first tier", tiers[0].TokenRatio, (32.0+16+32)/176)
	near(t, "by the second", tiers[1].TokenRatio, 32.0/176)
	near(t, "computed", r.Tiers.Policies[0].ComputedRatio, 64.0/176)
	near(t, "mean of the first", tiers[0].MeanTokensPerS, 80/2.6)
	near(t, "busiest second of the first", float64(*tiers[0].BusiestTokensPerS), 48)
	near(t, "busiest second of the second", float64(*tiers[1].BusiestTokensPerS), 32)
	expect.Equal(t, *tiers[0].CapacityTokens, 47)
	expect.Equal(t, tiers[1].CapacityTokens == nil, true)

	page := printed(t, 80, r)
	checkWidth(t, "tiers", page, 80)
	for _, line := range []string{
		"lru 47             45.45 %      30.8        48      30.8        48",
		"lru unlimited      18.18 %      12.3        32      12.3        32",
		"lru computed       36.36 %",
	} {
		expect.Contains(t, page, line, "the page")
	}
	two := printed(t, 80, r, r)
	expect.Contains(t, two, "tiers, tokens in the busiest second", "two reports side by side")
	html, _ := pageOf(t, r)
	expect.Contains(t, html, "GB in the busiest second", "the HTML page")
}

// TestTiersWithoutTimes: a trace at one instant has shares, and no rates.
func TestTiersWithoutTimes(t *testing.T) {
	rows := []rawRow{{chat: 1, parent: -1, in: 16, out: 1, ids: []int{1}}, {chat: 2, parent: -1, in: 16, out: 1, ids: []int{1}}}
	r := Analyse(read(t, file(rows), trace.Options{}), Options{Tiers: []int64{160}, KVBytes: 8})
	tier := r.Tiers.Policies[0].Tiers[0]
	near(t, "share", tier.TokenRatio, 0.5)
	expect.Equal(t, tier.MeanTokensPerS == nil && tier.BusiestTokensPerS == nil, true)
}

func TestTiersRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"lfu":       {Tiers: []int64{1}, Policies: []string{"lru", "lfu"}},
		"--tiers;":  {Policies: []string{"lru"}},
		"-1;":       {Tiers: []int64{1}, KVBytes: -1},
		"8 at most": {Tiers: make([]int64, 9)},
		"leave it":  {CacheTokens: []int64{1, Unlimited}},
	} {
		err := o.Validate()
		expect.Error(t, err, want, o)
	}
	must.Do(t, (&Options{Tiers: []int64{1, Unlimited}, Policies: []string{"s3fifo"}}).Validate())
}
