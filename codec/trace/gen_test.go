package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
)

func chat() Gen {
	return Gen{Format: "bailian", ArrivalNS: spaced(2000, 20e6), InputTokens: Range{200, 4000}, OutputTokens: Range{10, 100}, Reuse: 1,
		Turns: Range{1, 6}, SystemTokens: 160, Types: []string{"text", "search"}, Burst: 5, BurstEvery: 100, Seed: 7}
}

// spaced are n instants with equal gaps.
func spaced(n int, gapNS int64) []int64 {
	at := make([]int64, n)
	for i := range at {
		at[i] = int64(i) * gapNS
	}
	return at
}

func generate(t *testing.T, g Gen) *Trace {
	t.Helper()
	tr := must.Have(Generate(g))(t)
	checkInvariants(t, tr)
	return tr
}

// TestGenerateGolden pins a seed's trace: it must be the same on every machine and with every release.
func TestGenerateGolden(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, Write(&b, generate(t, chat()), "bailian"))
	sum := sha256.Sum256(b.Bytes())
	expect.Equal(t, hex.EncodeToString(sum[:8]), "df90b6cf27ad0984", "SHA-256 begins with")
	other := chat()
	other.Seed++
	var c bytes.Buffer
	must.Do(t, Write(&c, generate(t, other), "bailian"))
	if bytes.Equal(b.Bytes(), c.Bytes()) {
		t.Error("another seed made the same trace")
	}
}

// TestReuseTakesNoTurns: prompts of one block are hits in no order, or one of two servers by turns would get all hits.
func TestReuseTakesNoTurns(t *testing.T) {
	for _, reuse := range []float64{0.25, 0.5} {
		tr := generate(t, Gen{ArrivalNS: spaced(2000, 10e6), InputTokens: Range{100, 500}, OutputTokens: Range{1, 1}, BlockTokens: 512, Reuse: reuse, Seed: 1})
		seen := map[uint64]bool{}
		var hits [4]float64
		for i := range tr.Len() {
			id := tr.Blocks(i)[0]
			if seen[id] {
				hits[i%4]++
			}
			seen[id] = true
		}
		for _, of := range hits {
			expect.Near(t, of/500, reuse, 0.08, "reuse %v: %v by turns of four", reuse, hits)
		}
	}
}

// reuseOf is the share of block references that an earlier row, or the same row before, had.
func reuseOf(tr *Trace) float64 {
	seen := map[uint64]bool{}
	refs, old := 0, 0
	for i := range tr.Len() {
		for _, id := range tr.Blocks(i) {
			refs++
			if seen[id] {
				old++
			}
			seen[id] = true
		}
	}
	return float64(old) / float64(refs)
}

func TestGenerateReuse(t *testing.T) {
	for _, reuse := range []float64{0, 0.1, 0.4, 0.75, 0.95} {
		for _, blockTokens := range []int{64, 512} {
			tr := generate(t, Gen{ArrivalNS: spaced(2000, 10e6), InputTokens: Range{100, 9000}, OutputTokens: Range{1, 1}, BlockTokens: blockTokens, Reuse: reuse, Seed: 1})
			expect.Near(t, reuseOf(tr), reuse, 0.01, "%d tokens a block: a reuse", blockTokens)
		}
	}
	low := chat()
	low.Reuse = 0.3
	expect.Near(t, reuseOf(generate(t, low)), 0.3, 0.01, "conversations: a reuse")
}

func TestGenerateLengths(t *testing.T) {
	tr := generate(t, Gen{ArrivalNS: spaced(5000, 1e8), InputTokens: Range{100, 300}, OutputTokens: Range{5, 15}, Seed: 2})
	var in, out float64
	for i := range tr.Len() {
		if n := tr.InputTokens[i]; n < 100 || n > 300 {
			t.Fatalf("row %d: %d input tokens", i, n)
		}
		if n := tr.OutputTokens[i]; n < 5 || n > 15 {
			t.Fatalf("row %d: %d output tokens", i, n)
		}
		in += float64(tr.InputTokens[i]) / 5000
		out += float64(tr.OutputTokens[i]) / 5000
	}
	if math.Abs(in-200) > 3 || math.Abs(out-10) > 0.2 {
		t.Errorf("means %.1f and %.2f, want 200 and 10", in, out)
	}
}

// TestGenerateConversations checks that turns grow, share all whole blocks of the turn before, and lie apart.
func TestGenerateConversations(t *testing.T) {
	tr := generate(t, chat())
	turns := map[int64]int{} // chat id → request
	later := 0
	for i := range tr.Len() {
		turns[tr.Chat[i]] = i
		if tr.Turn[i] == 1 {
			if tr.Parent[i] != -1 || tr.Session[i] != tr.Chat[i] {
				t.Fatalf("request %d: parent %d, session %d, chat %d", i, tr.Parent[i], tr.Session[i], tr.Chat[i])
			}
			continue
		}
		later++
		p, ok := turns[tr.Parent[i]]
		if !ok || tr.Turn[i] != tr.Turn[p]+1 || tr.Session[i] != tr.Session[p] || tr.Type[i] != tr.Type[p] || i-p < 100 {
			t.Fatalf("request %d: turn %d of session %d after request %d, turn %d of %d", i, tr.Turn[i], tr.Session[i], p, tr.Turn[p], tr.Session[p])
		}
		if added := tr.InputTokens[i] - tr.InputTokens[p] - tr.OutputTokens[p]; added < 16 || added > 256 {
			t.Fatalf("request %d adds %d tokens", i, added)
		}
		shared := int(tr.InputTokens[p]) / 16
		want(t, "shared blocks", tr.Blocks(i)[:shared], tr.Blocks(p)[:shared])
	}
	if later < tr.Len()/2 {
		t.Errorf("%d of %d requests are later turns, want most", later, tr.Len())
	}
	for i := range tr.Len() {
		want(t, "system prompt", tr.Blocks(i)[:10], tr.Blocks(0)[:10])
	}
}

func TestGenerateBursts(t *testing.T) {
	g := Gen{ArrivalNS: spaced(7, 1e8), Burst: 3, BurstEvery: 3, InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}}
	want(t, "bursts", generate(t, g).ArrivalNS, []int64{0, 0, 0, 300_000_000, 300_000_000, 300_000_000, 600_000_000})
	want(t, "the description's own instants", g.ArrivalNS, spaced(7, 1e8))
}

// TestLognormal compares with the distribution: mean, deviation, and how many lie below some quantiles.
func TestLognormal(t *testing.T) {
	for _, l := range []Lognormal{{2000, 1500, 1 << 20}, {100, 20, 1 << 20}, {500, 1000, 1 << 20}, {40, 0, 40}} {
		tr := generate(t, Gen{ArrivalNS: spaced(40_000, 1), InputTokens: l, OutputTokens: Range{1, 1}, Seed: 5})
		var mean, square, n float64
		for _, x := range tr.InputTokens {
			mean += float64(x) / 40_000
			square += float64(x) * float64(x) / 40_000
		}
		deviation := math.Sqrt(max(0, square-mean*mean))
		if math.Abs(mean-l.Mean) > 5*l.StdDev/200+1e-6 || math.Abs(deviation-l.StdDev) > 0.15*l.StdDev+1e-3 {
			t.Errorf("%+v: mean %.1f, deviation %.1f", l, mean, deviation)
		}
		sigma := math.Sqrt(math.Log(1 + l.StdDev*l.StdDev/l.Mean/l.Mean))
		for _, z := range []float64{-2, -1, 0, 1, 2} {
			bound := math.Exp(math.Log(l.Mean) - sigma*sigma/2 + z*sigma)
			n = 0
			for _, x := range tr.InputTokens {
				if float64(x) < bound {
					n++
				}
			}
			if share := math.Erfc(-z/math.Sqrt2) / 2; l.StdDev > 0 && math.Abs(n/40_000-share) > 0.02 {
				t.Errorf("%+v: %.3f lie below %.1f, want %.3f", l, n/40_000, bound, share)
			}
		}
	}
	for _, x := range generate(t, Gen{ArrivalNS: spaced(4000, 1), InputTokens: Lognormal{90, 300, 100}, OutputTokens: Lognormal{2, 4, 9}, Seed: 1}).InputTokens {
		if x > 100 {
			t.Fatalf("%d tokens, want 100 at most", x)
		}
	}
}

func TestGenerateRoundTrip(t *testing.T) {
	g := chat()
	for _, format := range Written() {
		g.Format, g.BlockTokens = format, 0
		f := must.Have(formats.ByName(format))(t)
		if !f.HasBlocks() {
			g.Reuse, g.SystemTokens = 0, 0
		}
		tr := generate(t, g)
		if f.Words {
			tr = tr.With(numbered)
			sameWords(t, roundTrip(t, tr, format), tr)
			continue
		}
		sameTrace(t, roundTrip(t, tr, format), tr)
	}
}

func TestGenerateErrors(t *testing.T) {
	good := Gen{ArrivalNS: spaced(1, 0), InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}}
	generate(t, good)
	for name, change := range map[string]func(*Gen){
		"rows": func(g *Gen) { g.ArrivalNS = nil }, "descending": func(g *Gen) { g.ArrivalNS = []int64{0, 2, 1} }, "late": func(g *Gen) { g.ArrivalNS = []int64{1} },
		"no lengths": func(g *Gen) { g.InputTokens = nil }, "mean": func(g *Gen) { g.InputTokens = Lognormal{0, 1, 10} }, "deviation": func(g *Gen) { g.OutputTokens = Lognormal{1, -1, 10} },
		"mean above all": func(g *Gen) { g.InputTokens = Lognormal{11, 1, 10} }, "mean NaN": func(g *Gen) { g.InputTokens = Lognormal{math.NaN(), 1, 10} }, "long": func(g *Gen) { g.InputTokens = Lognormal{5, 1, 1 << 25} },
		"input": func(g *Gen) { g.InputTokens = Range{} }, "output": func(g *Gen) { g.OutputTokens = Range{2, 1} },
		"huge input": func(g *Gen) { g.InputTokens = Range{1, 1 << 25} }, "reuse": func(g *Gen) { g.Reuse = 1.1 }, "reuse NaN": func(g *Gen) { g.Reuse = math.NaN() },
		"blocks": func(g *Gen) { g.BlockTokens = -1 }, "format": func(g *Gen) { g.Format = "unheard" },
		"reuse in azure": func(g *Gen) { g.Format, g.Reuse = "azure", 0.5 }, "system prompt in burstgpt": func(g *Gen) { g.Format, g.SystemTokens = "burstgpt", 5 },
		"burst": func(g *Gen) { g.Burst = 2 }, "turns": func(g *Gen) { g.Turns = Range{0, 3} }, "turn tokens": func(g *Gen) { g.TurnTokens = Range{5, 4} },
		"system": func(g *Gen) { g.SystemTokens = -1 }, "active": func(g *Gen) { g.Active = -1 }, "types": func(g *Gen) { g.Types = []string{} },
	} {
		g := good
		change(&g)
		if _, err := Generate(g); err == nil || strings.Contains(name, " in ") && !strings.Contains(err.Error(), g.Format+" has no block ids") {
			t.Errorf("%s: %+v: %v", name, g, err)
		}
	}
}
