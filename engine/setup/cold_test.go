package setup

import (
	"testing"

	"github.com/fastreplay/fastreplay/engine/workload"
)

func TestSizeCache(t *testing.T) {
	none, told := workload.PrefixCache{}, workload.PrefixCache{BlockTokens: 32, Tokens: 64_000}
	untold := workload.PrefixCache{BlockTokens: 32}
	for _, c := range []struct {
		o     Options
		told  workload.PrefixCache
		want  workload.PrefixCache
		words string
	}{
		{Options{}, none, workload.PrefixCache{BlockTokens: 16, Assumed: true}, "blocks of 16 tokens (assumed), capacity unknown (give --cache-tokens)"},
		{Options{}, told, told, "blocks of 32 tokens (/metrics), 64,000 tokens per server (/metrics)"},
		{Options{}, untold, untold, "blocks of 32 tokens (/metrics), capacity unknown (give --cache-tokens)"},
		{Options{}, workload.PrefixCache{BlockTokens: 16, Off: true}, workload.PrefixCache{BlockTokens: 16, Off: true}, "the servers say that prefix caching is off"},
		{Options{}, workload.PrefixCache{BlockTokens: 4, Tokens: 900, Assumed: true}, workload.PrefixCache{BlockTokens: 4, Tokens: 900, Assumed: true},
			"blocks of 4 tokens (/metrics, uncertain: its capacity is no number of such blocks), 900 tokens per server (/metrics)"},
		{Options{CacheTokens: 3_000_000}, told, workload.PrefixCache{BlockTokens: 32, Tokens: 3_000_000}, "blocks of 32 tokens (/metrics), 3,000,000 tokens per server (--cache-tokens)"},
		{Options{EngineBlockTokens: 64}, told, workload.PrefixCache{BlockTokens: 64, Tokens: 64_000}, "blocks of 64 tokens (--engine-block-tokens), 64,000 tokens per server (/metrics)"},
		{Options{EngineBlockTokens: 1, CacheTokens: 100}, none, workload.PrefixCache{BlockTokens: 1, Tokens: 100}, "blocks of 1 token (--engine-block-tokens), 100 tokens per server (--cache-tokens)"},
	} {
		if got, words := c.o.sizeCache(c.told); got != c.want || words != c.words {
			t.Errorf("%d, %d, told %+v: %+v, %q; want %+v, %q", c.o.EngineBlockTokens, c.o.CacheTokens, c.told, got, words, c.want, c.words)
		}
	}
}
