package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"testing"
)

func chat() Gen {
	return Gen{Format: "bailian", Rows: 2000, Rate: 50, InputTokens: Range{200, 4000}, OutputTokens: Range{10, 100}, Reuse: 1,
		Turns: Range{1, 6}, SystemTokens: 160, Types: []string{"text", "search"}, Burst: 5, BurstEvery: 100, Seed: 7}
}

func generate(t *testing.T, g Gen) *Trace {
	t.Helper()
	tr, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, tr)
	return tr
}

// TestGenerateGolden pins a seed's trace: it must be the same on every machine and with every release.
func TestGenerateGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, generate(t, chat()), "bailian"); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	if got := hex.EncodeToString(sum[:8]); got != "31cac5f47b03b245" {
		t.Errorf("SHA-256 begins with %s", got)
	}
	other := chat()
	other.Seed++
	var c bytes.Buffer
	if err := Write(&c, generate(t, other), "bailian"); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(b.Bytes(), c.Bytes()) {
		t.Error("another seed made the same trace")
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
			tr := generate(t, Gen{Rows: 2000, Rate: 100, InputTokens: Range{100, 9000}, OutputTokens: Range{1, 1}, BlockTokens: blockTokens, Reuse: reuse, Seed: 1})
			if got := reuseOf(tr); math.Abs(got-reuse) > 0.01 {
				t.Errorf("%d tokens a block: a reuse of %.4f, want %.2f", blockTokens, got, reuse)
			}
		}
	}
	low := chat()
	low.Reuse = 0.3
	if got := reuseOf(generate(t, low)); math.Abs(got-0.3) > 0.01 {
		t.Errorf("conversations: a reuse of %.4f, want 0.3", got)
	}
}

func TestGenerateLengths(t *testing.T) {
	tr := generate(t, Gen{Rows: 5000, Rate: 10, InputTokens: Range{100, 300}, OutputTokens: Range{5, 15}, Seed: 2})
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

func TestGenerateArrivals(t *testing.T) {
	tr := generate(t, Gen{Rows: 20_000, Rate: 40, InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}, Seed: 3})
	mean := float64(tr.SpanNS()) / 19_999
	var variance float64
	for i := 1; i < tr.Len(); i++ {
		d := float64(tr.ArrivalNS[i]-tr.ArrivalNS[i-1]) - mean
		variance += d * d / 19_998
	}
	if ratio := math.Sqrt(variance) / mean; math.Abs(mean-25e6) > 0.5e6 || math.Abs(ratio-1) > 0.03 { // exponential gaps: deviation = mean
		t.Errorf("gaps have mean %.0f ns and %.3f of it as deviation, want 25000000 and 1", mean, ratio)
	}
	tr = generate(t, Gen{Rows: 4, Rate: 3, Arrival: "constant", InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}})
	want(t, "constant arrivals", tr.ArrivalNS, []int64{0, 333_333_333, 666_666_667, 1_000_000_000})
	tr = generate(t, Gen{Rows: 7, Rate: 10, Arrival: "constant", Burst: 3, BurstEvery: 3, InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}})
	want(t, "bursts", tr.ArrivalNS, []int64{0, 0, 0, 300_000_000, 300_000_000, 300_000_000, 600_000_000})
}

func TestGenerateRoundTrip(t *testing.T) {
	g := chat()
	for _, format := range Formats() {
		g.Format, g.BlockTokens = format, 0
		if f, err := formatByName(format); err != nil || !f.has(idsField) {
			g.Reuse, g.SystemTokens = 0, 0
		}
		tr := generate(t, g)
		sameTrace(t, roundTrip(t, tr, format), tr)
	}
}

func TestGenerateErrors(t *testing.T) {
	good := Gen{Rows: 1, Rate: 1, InputTokens: Range{1, 1}, OutputTokens: Range{1, 1}}
	generate(t, good)
	for name, change := range map[string]func(*Gen){
		"rows": func(g *Gen) { g.Rows = 0 }, "rate": func(g *Gen) { g.Rate = 0 }, "NaN": func(g *Gen) { g.Rate = math.NaN() },
		"infinite rate": func(g *Gen) { g.Rate = math.Inf(1) }, "too long": func(g *Gen) { g.Rate = 1e-10 },
		"input": func(g *Gen) { g.InputTokens = Range{} }, "output": func(g *Gen) { g.OutputTokens = Range{2, 1} },
		"huge input": func(g *Gen) { g.InputTokens.Max = 1 << 25 }, "reuse": func(g *Gen) { g.Reuse = 1.1 }, "reuse NaN": func(g *Gen) { g.Reuse = math.NaN() },
		"blocks": func(g *Gen) { g.BlockTokens = -1 }, "format": func(g *Gen) { g.Format = "parquet" }, "arrival": func(g *Gen) { g.Arrival = "gamma" },
		"burst": func(g *Gen) { g.Burst = 2 }, "turns": func(g *Gen) { g.Turns = Range{0, 3} }, "turn tokens": func(g *Gen) { g.TurnTokens = Range{5, 4} },
		"system": func(g *Gen) { g.SystemTokens = -1 }, "active": func(g *Gen) { g.Active = -1 }, "types": func(g *Gen) { g.Types = []string{} },
	} {
		g := good
		change(&g)
		if _, err := Generate(g); err == nil {
			t.Errorf("%s: %+v: no error", name, g)
		}
	}
}
