package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// block is one block of a row, named so that equal names are the same block.
type block struct {
	name   string
	tokens int
	id     int // -1 = none
	before string
}

// blocksOf writes a row's blocks out.
func blocksOf(r rawRow, row int) []block {
	var all []block
	for i := 0; i*oracleBlock < r.in; i++ {
		b := block{fmt.Sprintf("row %d block %d", row, i), min(oracleBlock, r.in-i*oracleBlock), -1, "nothing"}
		if i < len(r.ids) {
			b.name, b.id = fmt.Sprint(r.ids[:i+1]), r.ids[i]
		}
		if i > 0 && i < len(r.ids) {
			b.before = fmt.Sprint(r.ids[i-1])
		}
		all = append(all, b)
	}
	return all
}

func checkCaches(t *testing.T, rows []rawRow, r *Report) {
	t.Helper()
	references := 0
	for _, row := range rows {
		references += len(row.ids)
	}
	if references == 0 {
		if r.Blocks != nil || r.Cache != nil || r.Reuse != nil {
			t.Errorf("blocks of nothing: %+v", r.Blocks)
		}
		return
	}
	near(t, "references", r.Blocks.References, references)
	checkIDs(t, rows, r.Blocks)
	checkInfinite(t, rows, &r.Cache.Infinite)
	checkDistances(t, rows, r.Reuse)
	for i, capacity := range []int64{15, 16, 47, 160, 400, 5000} {
		got := r.Cache.LRU[i]
		want := Capacity{Tokens: capacity}
		want.BlockRatio, want.TokenRatio = naiveLRU(rows, int(capacity)/oracleBlock, false)
		want.TailFirstBlocks, want.TailFirstTokens = naiveLRU(rows, int(capacity)/oracleBlock, true)
		for k, pair := range [][2]float64{{got.BlockRatio, want.BlockRatio}, {got.TokenRatio, want.TokenRatio}, {got.TailFirstBlocks, want.TailFirstBlocks}, {got.TailFirstTokens, want.TailFirstTokens}} {
			near(t, fmt.Sprintf("LRU of %d tokens, column %d", capacity, k), pair[0], pair[1])
		}
	}
	served := 0.0 // by a tier and those before it: what an LRU cache of the last one's size would have held
	for k, tier := range r.Tiers.Policies[0].Tiers {
		served += tier.TokenRatio
		_, want := naiveLRU(rows, int(*tier.CapacityTokens)/oracleBlock, true)
		near(t, fmt.Sprintf("LRU tiers up to %d", k), served, want)
	}
	curve := r.Cache.Curve
	if len(curve) != curvePoints || curve[0].Tokens > curve[len(curve)-1].Tokens || curve[len(curve)-1].TokenRatio != r.Cache.Infinite.Tokens {
		t.Errorf("a curve of %d points that ends at %+v", len(curve), curve[len(curve)-1])
	}
}

func checkIDs(t *testing.T, rows []rawRow, b *Blocks) {
	t.Helper()
	lengths, before, prefixes := map[int][]int{}, map[int][]string{}, map[string]bool{}
	without, bare := 0, 0
	for i, row := range rows {
		if len(row.ids) == 0 {
			bare++
		}
		for _, k := range blocksOf(row, i) {
			if k.id < 0 {
				without++
				continue
			}
			prefixes[k.name] = true
			lengths[k.id] = append(lengths[k.id], k.tokens)
			before[k.id] = append(before[k.id], k.before)
		}
	}
	two, many := 0, 0
	for id := range lengths {
		if slices.Max(lengths[id]) != slices.Min(lengths[id]) {
			two++
		}
		if slices.Max(before[id]) != slices.Min(before[id]) {
			many++
		}
	}
	near(t, "distinct ids", b.Distinct, len(lengths))
	near(t, "distinct prefixes", b.DistinctAll, len(prefixes))
	near(t, "blocks without id", b.WithoutID, without)
	near(t, "rows without ids", b.BareRows, bare)
	near(t, "ids of two lengths", b.TwoLengths, two)
	near(t, "ids after different ids", b.ManyBefore, many)
	expect.Equal(t, b.Names == "contents", many > 0, "ids name %s", b.Names)
}

func checkInfinite(t *testing.T, rows []rawRow, got *Infinite) {
	t.Helper()
	held, ids := map[string]int{}, map[int]bool{}
	var blocks, hitBlocks, tokens, hitTokens, full, hitFull, repeats, shares float64
	for i, row := range rows {
		hit := 0
		for _, b := range blocksOf(row, i) {
			blocks++
			if held[b.name] > 0 {
				hitBlocks++
			}
			hit += min(held[b.name], b.tokens)
			if b.tokens == oracleBlock {
				full++
				if held[b.name] == oracleBlock {
					hitFull++
				}
			}
			if b.id >= 0 && ids[b.id] {
				repeats++
			}
			held[b.name] = max(held[b.name], b.tokens)
			if b.id >= 0 {
				ids[b.id] = true
			}
		}
		tokens += float64(row.in)
		hitTokens += float64(hit)
		shares += float64(hit) / float64(row.in)
	}
	near(t, "infinite, blocks", got.Blocks, hitBlocks/blocks)
	near(t, "infinite, tokens", got.Tokens, hitTokens/tokens)
	near(t, "infinite, full blocks", got.FullBlocks, hitFull/max(1, full))
	near(t, "infinite, mean", got.MeanRequest, shares/float64(len(rows)))
	near(t, "infinite, ids", got.IDs, repeats/blocks)
}

// naiveLRU is a list of slots, the most recent first; it returns the shares of blocks and tokens held.
func naiveLRU(rows []rawRow, slots int, tailFirst bool) (blocks, tokens float64) {
	var list []string
	touch := func(name string) {
		list = slices.DeleteFunc(list, func(n string) bool { return n == name })
		list = slices.Insert(list, 0, name)
		list = list[:min(len(list), slots)]
	}
	longest := map[string]int{}
	var allBlocks, allTokens, hitBlocks, hitTokens float64
	for i, row := range rows {
		whole := true
		all := blocksOf(row, i)
		for _, b := range all {
			allBlocks++
			if whole = whole && slices.Contains(list, b.name); whole {
				hitBlocks++
				hitTokens += float64(min(b.tokens, longest[b.name]))
			}
			if !tailFirst {
				touch(b.name)
			}
		}
		for _, b := range slices.Backward(all) {
			longest[b.name] = max(longest[b.name], b.tokens)
			if tailFirst {
				touch(b.name)
			}
		}
		allTokens += float64(row.in)
	}
	return hitBlocks / allBlocks, hitTokens / allTokens
}

func checkDistances(t *testing.T, rows []rawRow, got *Reuse) {
	t.Helper()
	var list []string
	last := map[string]int{}
	var times, tokens []float64
	for i, row := range rows {
		for _, b := range blocksOf(row, i) {
			if at := slices.Index(list, b.name); at >= 0 {
				times = append(times, float64(row.ms-last[b.name])/1000)
				tokens = append(tokens, float64(at*oracleBlock))
				list = slices.Delete(list, at, at+1)
			}
			list = slices.Insert(list, 0, b.name)
			last[b.name] = row.ms
		}
	}
	near(t, "reused", got.References, len(times))
	near(t, "reuse by time, bins", got.TimeHistogram, naiveBins(timeEdges(), times))
	near(t, "reuse by tokens, bins", got.TokensHistogram, naiveBins(oneThreeTen(1000, 20), tokens))
	near(t, "reuse by time", got.TimeS, naive(times))
	near(t, "reuse by tokens", got.Tokens, naive(tokens))
}

// naiveBins looks every value up in every bin.
func naiveBins(edges []float64, values []float64) []Bin {
	var all []Bin
	for i := range len(edges) - 1 {
		b := Bin{From: edges[i], To: edges[i+1]}
		for _, v := range values {
			if v >= b.From && v < b.To {
				b.Count++
			}
		}
		all = append(all, b)
	}
	for len(all) > 0 && all[0].Count == 0 {
		all = all[1:]
	}
	for len(all) > 0 && all[len(all)-1].Count == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// TestLoad: the load alone is that of the whole analysis, for traces with and without blocks and times.
func TestLoad(t *testing.T) {
	for path, has := range map[string]struct{ times, blocks bool }{
		"bailian.jsonl": {true, true}, "mooncake.jsonl": {true, true}, "azure.csv": {true, false}, "sharegpt.json": {false, false}, "batch.jsonl": {false, false},
	} {
		tr := must.Have(trace.Open(samples+path, trace.Options{}))(t)
		r := Analyse(tr, Options{})
		want := metrics.Load{Requests: int64(tr.Len())}
		if has.times {
			want.SpanS, want.RequestsPerS, want.Peak, want.GapCV = r.Arrivals.SpanS, r.Arrivals.RowsPerS, &r.Arrivals.PeakRows, r.Arrivals.GapCV
		}
		if has.blocks {
			want.ReuseP50, want.ReuseP90, want.HitRatio = &r.Reuse.Tokens.P50, &r.Reuse.Tokens.P90, &r.Cache.Infinite.Tokens
		}
		if got := Load(tr); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(r.Load(), want) {
			t.Errorf("%s: %+v and %+v, want %+v", path, got, r.Load(), want)
		}
	}
}

// TestAmplifiedPage: what was recorded and what it became stand on top of every page, and nowhere for a load as
// recorded.
func TestAmplifiedPage(t *testing.T) {
	r := sample(t, samples+"bailian.jsonl", Options{})
	expect.Lacks(t, printed(t, 80, r), "amplified", "a load as recorded")
	before := r.Load()
	hits, cv := 0.5, 2.5
	before.HitRatio, before.GapCV, before.Requests, before.ReuseP90 = &hits, &cv, 75, nil
	r.Amplify = &metrics.Amplify{Factor: 4, Sessions: 40, Inferred: true, SharedBlocks: 3, Before: before, After: r.Load()}
	page := printed(t, 80, r)
	head, _, _ := strings.Cut(page, "  rows ")
	for _, line := range []string{
		"  amplified       4 times 40 conversations   found by their blocks\n",
		"                  3 leading blocks shared by all clones\n",
		"    requests                                75           300\n",
		"    interarrival CV                       2.50          1.77\n",
		"    reuse distance p90, tokens               –          105k\n",
		"    ideal cache hits, of tokens        50.00 %       58.84 %\n",
	} {
		expect.Contains(t, head, line, "the page does not begin:\n%s", page)
	}
	expect.Contains(t, page, "copies of 75 of 300 in the file", "rows")
	var html bytes.Buffer
	must.Do(t, HTML(&html, []*Report{r}))
	for _, cell := range []string{"before --amplify", "50.00 %", "2.50"} {
		expect.Contains(t, html.String(), cell, "the HTML lacks")
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"amplify":{"factor":4,"seed":0,"sessions":40,"inferred":true,"shared_blocks":3,"before":{"requests":75,`) {
		t.Errorf("%s: %v", text, err)
	}
	one := metrics.Amplify{Factor: 0.5, Sessions: 75, Inferred: true, Before: before, After: before}
	if text := Amplified(&one, 0); !strings.HasPrefix(text, "  amplified       0.5 times 75 requests\n") {
		t.Errorf("%s", text)
	}
}
