package inspect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// rawRow is a row as the oracle sees it.
type rawRow struct {
	ms, in, out  int
	chat, parent int
	kind         string
	ids          []int
}

const oracleBlock = 16

// randomRows is conversations, bursts, repeated prefixes, rows without ids and rows with too few.
func randomRows(chance *rand.Rand, n int) []rawRow {
	rows := make([]rawRow, n)
	at := 0
	for i := range rows {
		r := &rows[i]
		if chance.IntN(3) > 0 {
			at += 250 * chance.IntN(16) // often just a second
		}
		*r = rawRow{ms: at, in: 1 + chance.IntN(100), out: 1 + chance.IntN(40), chat: i, parent: -1, kind: []string{"", "text", "image"}[chance.IntN(3)]}
		if i > 0 && chance.IntN(2) == 0 {
			r.parent = chance.IntN(i + 2) // some are not there
			if r.parent >= i {
				r.parent = 1_000_000
			}
		}
		ids := (r.in + oracleBlock - 1) / oracleBlock
		if chance.IntN(40) == 0 {
			ids = chance.IntN(ids)
		}
		for range ids {
			r.ids = append(r.ids, chance.IntN(3))
		}
	}
	return rows
}

func file(rows []rawRow) string {
	var b strings.Builder
	for _, r := range rows {
		ids := strings.ReplaceAll(fmt.Sprint(r.ids), " ", ",")
		fmt.Fprintf(&b, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d.%03d,"input_length":%d,"output_length":%d,"type":%q,"turn":1,"hash_ids":%s}`+"\n",
			r.chat, r.parent, r.ms/1000, r.ms%1000, r.in, r.out, r.kind, ids)
	}
	return b.String()
}

func read(t *testing.T, text string, o trace.Options) *trace.Trace {
	t.Helper()
	o.Collect = true
	tr := must.Have(trace.Read(strings.NewReader(text), "t.jsonl", o))(t)
	return tr
}

// naive is a sorted slice.
func naive(values []float64) *stats.Percentiles {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(share float64) float64 {
		for i, v := range values {
			if float64(i+1) >= share*float64(len(values))-1e-9 {
				return v
			}
		}
		panic("no such rank")
	}
	return &stats.Percentiles{P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), Max: at(1), Mean: sum / float64(len(values)), Count: int64(len(values))}
}

// near compares numbers, pointers to them and distributions.
func near(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := flat(got), flat(want); !slices.EqualFunc(g, w, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }) {
		t.Errorf("%s: %v, want %v", what, g, w)
	}
}

func flat(v any) []float64 {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case int64:
		return []float64{float64(v)}
	case int:
		return []float64{float64(v)}
	case *float64:
		if v == nil {
			return nil
		}
		return []float64{*v}
	case *stats.Percentiles:
		if v == nil {
			return nil
		}
		return []float64{v.Mean, v.P50, v.P90, v.P95, v.P99, v.P999, v.Max}
	case []Bin:
		var all []float64
		for _, b := range v {
			all = append(all, b.From, b.To, float64(b.Count))
		}
		return all
	}
	panic(fmt.Sprintf("cannot compare %T", v))
}

func TestAnalyseAgreesWithOracle(t *testing.T) {
	chance := rand.New(rand.NewPCG(9, 10))
	for round := range 300 {
		rows := randomRows(chance, 1+chance.IntN(60))
		o := Options{CacheTokens: []int64{15, 16, 47, 160, 400, 5000}, Tiers: []int64{15, 47, 160, 5000}, MaxModelLen: 90, Assumed: sched.AssumedLatency{TTFT: time.Second, TPOT: 50 * time.Millisecond},
			Read: trace.Options{Format: "bailian", TimeUnit: time.Second}}
		r := Analyse(read(t, file(rows), o.Read), o)
		checkArrivals(t, rows, &r.Arrivals)
		checkLengths(t, rows, r)
		checkSessions(t, rows, r.Sessions)
		checkCaches(t, rows, r)
		if t.Failed() {
			t.Fatalf("round %d:\n%s", round, file(rows))
		}
	}
}

func checkArrivals(t *testing.T, rows []rawRow, a *Arrivals) {
	t.Helper()
	first, last := rows[0].ms, rows[len(rows)-1].ms
	var gaps, in, out []float64
	instants := map[int]int{}
	burst, burstAt, peak, peakAt := 0, 0, 0, 0
	for i, r := range rows {
		if i > 0 {
			gaps = append(gaps, float64(r.ms-rows[i-1].ms)/1000)
		}
		in, out = append(in, float64(r.in)), append(out, float64(r.out))
		if instants[r.ms]++; instants[r.ms] > burst {
			burst, burstAt = instants[r.ms], r.ms
		}
		within := 0
		for _, other := range rows {
			if other.ms >= r.ms && other.ms < r.ms+1000 {
				within++
			}
		}
		if within > peak {
			peak, peakAt = within, r.ms
		}
	}
	near(t, "span", a.SpanS, float64(last-first)/1000)
	near(t, "instants", a.Instants, len(instants))
	near(t, "burst", a.LargestBurst, burst)
	near(t, "burst at", a.LargestBurstAtS, float64(burstAt-first)/1000)
	near(t, "peak", a.PeakRows, peak)
	near(t, "peak at", a.PeakAtS, float64(peakAt-first)/1000)
	near(t, "gaps", a.GapS, naive(slices.Clone(gaps)))
	if last == first {
		if a.RowsPerS != nil || a.GapCV != nil || a.Timeline != nil {
			t.Errorf("a rate without a span: %+v", a)
		}
		return
	}
	span := float64(last-first) / 1000
	near(t, "rows/s", a.RowsPerS, float64(len(rows))/span)
	near(t, "input/s", a.InputTokensPerS, total(in)/span)
	near(t, "output/s", a.OutputTokensPerS, total(out)/span)
	mean, squares := total(gaps)/float64(len(gaps)), 0.0
	for _, g := range gaps {
		squares += (g - mean) * (g - mean)
	}
	near(t, "CV", a.GapCV, math.Sqrt(squares/float64(len(gaps)))/mean)
	timeline := make([]int64, timelineBins)
	for _, r := range rows {
		timeline[min(timelineBins-1, (r.ms-first)*timelineBins/(last-first))]++
	}
	expect.List(t, timeline, a.Timeline, "timeline")
}

func total(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

func checkLengths(t *testing.T, rows []rawRow, r *Report) {
	t.Helper()
	var in, out, both []float64
	bins := map[int]int64{}
	kinds := map[string]*Type{}
	over, first := 0, -1
	for i, row := range rows {
		in, out, both = append(in, float64(row.in)), append(out, float64(row.out)), append(both, float64(row.in+row.out))
		low := 1
		for 2*low <= row.in {
			low *= 2
		}
		bins[low]++
		if kinds[row.kind] == nil {
			kinds[row.kind] = &Type{Name: row.kind}
		}
		k := kinds[row.kind]
		k.Rows++
		k.MeanInput += float64(row.in)
		k.MeanOutput += float64(row.out)
		if row.in+row.out > 90 {
			if over++; first < 0 {
				first = i
			}
		}
	}
	near(t, "input total", r.InputTokens.Total, total(in))
	near(t, "output total", r.OutputTokens.Total, total(out))
	near(t, "input", &r.InputTokens.Percentiles, naive(in))
	near(t, "output", &r.OutputTokens.Percentiles, naive(out))
	near(t, "together", r.TotalTokens, naive(both))
	for _, b := range r.InputTokens.Histogram {
		near(t, "input bin", b.Count, float64(bins[int(b.From)]))
		near(t, "input bin's end", b.To, 2*b.From)
		delete(bins, int(b.From))
	}
	if len(bins) > 0 {
		t.Errorf("bins are missing: %v", bins)
	}
	if len(r.Types) != len(kinds) || !slices.IsSortedFunc(r.Types, func(a, b Type) int { return int(b.Rows - a.Rows) }) {
		t.Errorf("types %+v", r.Types)
	}
	for _, k := range r.Types {
		want := kinds[k.Name]
		near(t, "rows of type", k.Rows, want.Rows)
		near(t, "share of type", k.Share, float64(want.Rows)/float64(len(rows)))
		near(t, "input of type", k.MeanInput, want.MeanInput/float64(want.Rows))
		near(t, "output of type", k.MeanOutput, want.MeanOutput/float64(want.Rows))
	}
	near(t, "over the context", r.Context.RowsOver, over)
	near(t, "share over the context", r.Context.Share, float64(over)/float64(len(rows)))
	if (r.Context.FirstRow == nil) != (first < 0) || first >= 0 && *r.Context.FirstRow != int64(first) {
		t.Errorf("first row over the context: %v, want %d", r.Context.FirstRow, first)
	}
}

func checkSessions(t *testing.T, rows []rawRow, s *Sessions) {
	t.Helper()
	root := func(i int) int {
		for rows[i].parent >= 0 && rows[i].parent < len(rows) {
			i = rows[i].parent
		}
		return i
	}
	turns := map[int]float64{}
	var gaps, thinks []float64
	orphans, atOnce, overlaps := 0, 0, 0
	for i, r := range rows {
		turns[root(i)]++
		if r.parent < 0 {
			continue
		}
		if r.parent >= len(rows) {
			orphans++
			continue
		}
		p := rows[r.parent]
		gap := float64(r.ms-p.ms) / 1000
		gaps = append(gaps, gap)
		if gap <= 0 {
			atOnce++
		}
		if lasts := 1 + 0.05*float64(p.out-1); gap < lasts-1e-9 {
			overlaps++
		} else {
			thinks = append(thinks, gap-lasts)
		}
	}
	var lengths []float64
	many := 0
	for _, n := range turns {
		lengths = append(lengths, n)
		if n > 1 {
			many++
		}
	}
	near(t, "sessions", s.Sessions, len(turns))
	near(t, "of several turns", s.MultiTurn, many)
	near(t, "turns", s.Turns, naive(lengths))
	near(t, "follow-ups", s.Followups, len(gaps))
	near(t, "orphans", s.Orphans, orphans)
	near(t, "at once", s.AtOnce, atOnce)
	near(t, "overlaps", s.Overlaps, overlaps)
	if len(gaps) > 0 {
		near(t, "share of overlaps", s.OverlapShare, float64(overlaps)/float64(len(gaps)))
	} else if s.OverlapShare != nil {
		t.Errorf("a share of no turns: %v", *s.OverlapShare)
	}
	near(t, "gaps", s.GapS, naive(gaps))
	near(t, "thinks", s.ThinkS, naive(thinks))
}

// TestTurnsAsReplayed: a turn follows what a replay has it follow, which is never a row that comes later.
func TestTurnsAsReplayed(t *testing.T) {
	made := &trace.Trace{
		ArrivalNS:    []int64{0, 1e9, 1e9, 2e9, 9e9},
		OutputTokens: []int32{5, 5, 5, 5, 5},
		Chat:         []int64{1, 2, 1, 3, 4},
		Parent:       []int64{3, 1, 1, 1, 7},
		Session:      []int64{1, 1, 1, 1, 4},
	}
	s := sessions(made, Options{Assumed: sched.AssumedLatency{TTFT: time.Second}}, newPictures())
	// Row 0's parent arrives later, row 4's never. Rows 1 and 2 follow row 0, row 3 the later one of its id.
	if s.Orphans != 2 || s.Followups != 3 || s.AtOnce != 0 || s.Overlaps != 0 || s.GapS.Max != 1 || s.ThinkS.Max != 0 {
		t.Errorf("%+v, gaps %+v", s, s.GapS)
	}
	followUps := int64(0)
	for _, before := range made.TurnsBefore(5) {
		if before != trace.NoTurn {
			followUps++
		}
	}
	expect.Equal(t, followUps, s.Followups, "follow-up turns here")
}

// TestConversationTrace checks numbers that were computed from the published file by other means.
func TestConversationTrace(t *testing.T) {
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		t.Skip("FASTREPLAY_TRACES does not name a folder with mooncake-conversation.jsonl.zst")
	}
	tr := must.Have(trace.Open(filepath.Join(dir, "mooncake-conversation.jsonl.zst"), trace.Options{Collect: true}))(t)
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
		expect.Equal(t, c.got, c.want, c.what)
	}
	two := func(what string, got, want float64) {
		t.Helper()
		expect.Near(t, got, want, 0.00501, what)
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
		expect.Contains(t, page, text, "the page lacks")
	}
}

// BenchmarkAnalyse analyses 2 million block references in chats.
func BenchmarkAnalyse(b *testing.B) {
	at := must.Have(sched.Arrivals{Rate: sched.Steady(10), Process: sched.Poisson, Seed: 1}.Instants(20_000))(b)
	tr := must.Have(trace.Generate(trace.Gen{
		Format: "bailian", ArrivalNS: at, Burst: 12, BurstEvery: 75,
		InputTokens: trace.Range{Min: 400, Max: 2600}, OutputTokens: trace.Range{Min: 20, Max: 120}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 6}, TurnTokens: trace.Range{Min: 20, Max: 200}, Active: 60, SystemTokens: 320, Types: []string{"text"}, Seed: 1,
	}))(b)
	b.ReportAllocs()
	for b.Loop() {
		if r := Analyse(tr, Options{}); r.Cache.Infinite.Tokens < 0.1 {
			b.Fatalf("hits of %v", r.Cache.Infinite)
		}
	}
	b.ReportMetric(float64(tr.BlockRefs())*float64(b.N)/b.Elapsed().Seconds(), "references/s")
}
