package inspect

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// TestConversationTrace checks numbers that were computed from the published file by other means.
func TestConversationTrace(t *testing.T) {
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		t.Skip("FASTREPLAY_TRACES does not name a folder with mooncake-conversation.jsonl.zst")
	}
	tr, err := trace.Open(filepath.Join(dir, "mooncake-conversation.jsonl.zst"), trace.Options{Collect: true})
	if err != nil {
		t.Fatal(err)
	}
	r := Analyse(tr, Options{CacheTokens: []int64{3e6, 10e6, 30e6, 50e6}})
	for _, c := range []struct {
		what string
		got  int64
		want int64
	}{
		{"rows", r.Rows, 12_031},
		{"input tokens", r.InputTokens.Total, 144_793_823},
		{"longest input", int64(r.InputTokens.Max), 126_195},
		{"block references", r.Blocks.References, 288_500},
		{"distinct ids", r.Blocks.Distinct, 182_790},
		{"distinct prefixes", r.Blocks.DistinctAll, 182_790},
		{"ids of two lengths", r.Blocks.TwoLengths, 0},
		{"ids after different ids", r.Blocks.ManyBefore, 0},
		{"instants", r.Arrivals.Instants, 1_180},
		{"largest burst", r.Arrivals.LargestBurst, 28},
		{"span in ms", int64(math.Round(r.Arrivals.SpanS * 1e3)), 3_536_999},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	two := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.00501 {
			t.Errorf("%s: %.4f, want %.2f", what, got, want)
		}
	}
	two("mean input", r.InputTokens.Mean, 12_035.06)
	two("mean output", r.OutputTokens.Mean, 342.62)
	i := r.Cache.Infinite
	two("infinite, % of blocks", 100*i.Blocks, 36.64)
	two("infinite, % of tokens", 100*i.Tokens, 37.36)
	two("infinite, % of full blocks", 100*i.FullBlocks, 38.19)
	two("infinite, % mean per request", 100*i.MeanRequest, 40.94)
	for k, want := range [][2]float64{{13.55, 13.82}, {28.52, 29.08}, {35.88, 36.58}, {36.35, 37.07}} {
		at := r.Cache.LRU[k]
		two("LRU, % of blocks", 100*at.BlockRatio, want[0])
		two("LRU, % of tokens", 100*at.TokenRatio, want[1])
	}
	two("LRU of 3M, tail first, % of blocks", 100*r.Cache.LRU[0].TailFirstBlocks, 13.61)

	page := printed(t, 100, r)
	for _, text := range []string{"12,031", "12,035.06", "342.62", "126,195", "144,793,823", "288,500", "182,790", "1,180", "28", "3,536,999 ms", "36.64 %", "37.36 %", "38.19 %", "40.94 %",
		"13.55 %", "28.52 %", "35.88 %", "36.35 %", "13.82 %", "29.08 %", "36.58 %", "37.07 %", "13.61 %"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %s:\n%s", text, page)
		}
	}
}

// BenchmarkAnalyse analyses 2 million block references in chats.
func BenchmarkAnalyse(b *testing.B) {
	at, err := sched.Arrivals{Rate: sched.Steady(10), Process: sched.Poisson, Seed: 1}.Instants(20_000)
	if err != nil {
		b.Fatal(err)
	}
	tr, err := trace.Generate(trace.Gen{
		Format: "bailian", ArrivalNS: at, Burst: 12, BurstEvery: 75,
		InputTokens: trace.Range{Min: 400, Max: 2600}, OutputTokens: trace.Range{Min: 20, Max: 120}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 6}, TurnTokens: trace.Range{Min: 20, Max: 200}, Active: 60, SystemTokens: 320, Types: []string{"text"}, Seed: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := Analyse(tr, Options{}); r.Cache.Infinite.Tokens < 0.1 {
			b.Fatalf("hits of %v", r.Cache.Infinite)
		}
	}
	b.ReportMetric(float64(tr.BlockRefs())*float64(b.N)/b.Elapsed().Seconds(), "references/s")
}
