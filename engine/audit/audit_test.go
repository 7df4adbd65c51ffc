package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

func TestExplain(t *testing.T) {
	const untold = record.None + 1 // the answer came without usage
	for name, c := range map[string]struct {
		evidence
		expected, cached int64
		want             metrics.Shortfall
	}{
		"as expected":             {evidence{reports: true, unlimited: 512, there: 512, limited: 512}, 512, 512, metrics.Shortfall{}},
		"above":                   {evidence{reports: true, unlimited: 512, there: 512, limited: 512}, 512, 528, metrics.Shortfall{}},
		"in prefill":              {evidence{reports: true, unlimited: 16, there: 16, limited: 16}, 512, 16, metrics.Shortfall{Tokens: 496, InPrefillTokens: 496}},
		"elsewhere":               {evidence{reports: true, unlimited: 512, there: 256, limited: 128}, 512, 128, metrics.Shortfall{Tokens: 384, ElsewhereTokens: 256, EvictedTokens: 128}},
		"evicted":                 {evidence{reports: true, unlimited: 512, there: 512, limited: 128}, 512, 128, metrics.Shortfall{Tokens: 384, EvictedTokens: 384}},
		"both, and more":          {evidence{reports: true, unlimited: 256, there: 256, limited: 64}, 512, 32, metrics.Shortfall{Tokens: 480, InPrefillTokens: 256, EvictedTokens: 192, UnexplainedTokens: 32}},
		"less than was explained": {evidence{reports: true, unlimited: 256, there: 256, limited: 64}, 512, 400, metrics.Shortfall{Tokens: 112, InPrefillTokens: 112}},
		"absent, and 0 therefore": {evidence{reports: true, unlimited: 512, there: 512, limited: 512}, 512, record.None, metrics.Shortfall{Tokens: 512, UnexplainedTokens: 512}},
		"never reported":          {evidence{reports: false, unlimited: 0, there: 0, limited: 0}, 512, record.None, metrics.Shortfall{Tokens: 512, NotReportedTokens: 512}},
		"caching is off":          {evidence{off: true, unlimited: 512, there: 512, limited: 512}, 512, record.None, metrics.Shortfall{Tokens: 512, CacheOffTokens: 512}},
		"nothing was expected":    {evidence{reports: true, unlimited: 0, there: 0, limited: 0}, record.None, 16, metrics.Shortfall{}},
		"an answer without usage": {evidence{reports: true, unlimited: 512, there: 512, limited: 512}, 512, untold, metrics.Shortfall{Tokens: 512, NotReportedTokens: 512}},
	} {
		var a audit
		var r record.Record
		r.Clear()
		if r.TokensFrom = record.TokensFromUsage; c.cached == untold {
			r.TokensFrom, c.cached = record.TokensFromChunks, record.None
		}
		r.Outcome, r.ExpectedCachedTokens, r.CachedTokens = record.OK, c.expected, c.cached
		fate := names.FateOf(&r)
		a.explain(&fate, c.evidence)
		expect.Equal(t, a.found, c.want, name)
		a.found, fate.Outcome = metrics.Shortfall{}, record.Timeout
		if a.explain(&fate, c.evidence); a.found != (metrics.Shortfall{}) {
			t.Errorf("%s, failed: %+v, want nothing", name, a.found)
		}
	}
}

// TestHeld compares an unlimited cache, at the times of a run, with a look at every pair of prompts. A prompt hits what
// it shares with those whose first token had arrived.
func TestHeld(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := workloadtest.Work(t, 60)
		list := make([]int32, w.Requests())
		records := make([]record.Record, w.Requests())
		for i := range records {
			list[i] = int32(i)
			records[i] = randomFate(rng)
		}
		a := audit{work: w, fates: fatesOf(records)}
		held := a.held(list, workload.PrefixCache{BlockTokens: 16})
		for i := range records {
			if records[i].SentNS == record.None || records[i].Status != 200 {
				continue
			}
			longest := 0
			for j := range records {
				if j != i && usable(&records[j], max(records[i].SentNS, records[i].WrittenNS)) {
					longest = max(longest, sharedTokens(w, i, j))
				}
			}
			want := int64(max(0, min(longest, w.BuiltTokens(i)-1)) / 16 * 16)
			must.Equal(t, held[i], want, "seed %d, request %d: tokens held", seed, i)
		}
	}
}

// names are those of all fates here.
var names Names

func fatesOf(records []record.Record) []Fate {
	fates := make([]Fate, len(records))
	for i := range records {
		fates[i] = names.FateOf(&records[i])
	}
	return fates
}

// randomFate is what may become of a request, on a scale on which many overlap.
func randomFate(rng *rand.Rand) record.Record {
	var r record.Record
	r.Clear()
	at := func() int64 { return 1 + rng.Int64N(10_000)*10 }
	r.SentNS = at()
	switch rng.IntN(8) {
	case 0:
		r.SentNS = record.None
		return r
	case 1:
		r.Outcome, r.Status, r.HeadersNS = record.HTTPError, 503, r.SentNS+7
		return r
	case 2:
		r.Outcome, r.Status, r.HeadersNS = record.Timeout, 200, r.SentNS+7 // no token came
		return r
	}
	r.WrittenNS = r.SentNS + rng.Int64N(20)
	r.Outcome, r.Status, r.HeadersNS = record.OK, 200, r.WrittenNS+1
	r.FirstTokenNS = r.HeadersNS + rng.Int64N(5000)
	r.LastTokenNS = r.FirstTokenNS + rng.Int64N(5000)
	r.DoneNS = r.LastTokenNS
	return r
}

// usable reports whether a prompt could be found in the cache at an instant; nothing is ever evicted.
func usable(r *record.Record, ns int64) bool {
	return r.SentNS != record.None && r.Status == 200 && r.FirstTokenNS != record.None && r.FirstTokenNS <= ns
}

// TestOvertaken: what a request hit of one that was planned later, but arrived first, is explained by the order. What
// it hit of one that was sent after its own first token is not.
func TestOvertaken(t *testing.T) {
	w := workloadtest.Work(t, 60)
	first, later := -1, -1
	for i := range 60 {
		for j := i + 1; j < 60; j++ {
			if w.Endpoint(i) == w.Endpoint(j) && sharedTokens(w, i, j) >= w.Overhead.Head+512 && w.BuiltTokens(i) > 600 {
				first, later = i, j
			}
		}
	}
	if first < 0 {
		t.Fatal("no two requests share a block")
	}
	cached := int64(min(sharedTokens(w, first, later), w.BuiltTokens(first)-1))
	for _, c := range []struct{ laterSentNS, cached, most, want int64 }{
		{50, cached, 0, cached},
		{50, cached, cached - 16, 16},
		{50, cached, cached, 0},
		{50, cached + 4096, 0, cached},
		{500, cached, 0, 0},
		{record.None, cached, 0, 0},
	} {
		records := make([]record.Record, 60)
		for i := range records {
			records[i].Clear()
		}
		rec := &records[first]
		rec.Outcome, rec.SentNS, rec.FirstTokenNS, rec.CachedTokens, rec.MostCachedTokens = record.OK, 40, 100, c.cached, c.most
		records[later].SentNS = c.laterSentNS
		expect.Equal(t, OvertakenTokens(w, fatesOf(records)), c.want, "%+v: tokens overtaken", c)
	}
}

// TestOvertakenVerbatim: the order explains what texts hit, too: a closed loop sends turns before the answers that they
// follow, and the later turn has all of the earlier one in it.
func TestOvertakenVerbatim(t *testing.T) {
	turn := strings.Repeat("a", 40)
	file := ""
	for _, text := range []string{turn, turn + "bbbbbbbbbbbbbbbbbbbbb", "c" + turn} {
		file += `{"text_input":"` + text + `","output_length":1}` + "\n"
	}
	tr := must.Have(trace.Read(strings.NewReader(file), "t", trace.Options{Format: "mooncake"}))(t)
	plan := sched.AtOnce(tr.Len(), 0)
	at := netip.MustParseAddrPort("127.0.0.1:1")
	for _, c := range []struct {
		cache workload.PrefixCache
		want  int64
	}{{workload.PrefixCache{BlockTokens: 16}, 32}, {workload.PrefixCache{BlockTokens: 16, Assumed: true}, 39}} {
		w := &workload.Work{
			Trace:   tr,
			Plan:    plan,
			Targets: []workload.Target{{URL: "http://one:1", Endpoints: []netip.AddrPort{at}}},
			Places:  route.RoundRobin(plan.Requests, route.Even([]int{1})),
			Caches:  map[netip.AddrPort]workload.PrefixCache{at: c.cache},
		}
		letters := func(_ context.Context, l api.Verbatim) (ids []int64, err error) {
			for _, c := range l.Content {
				ids = append(ids, int64(c))
			}
			return ids, nil
		}
		must.Do(t, w.CountVerbatim(t.Context(), letters, new(atomic.Int64)))
		records := make([]record.Record, 3)
		for i := range records {
			records[i].Clear()
			records[i].Outcome = record.OK
			records[i].SentNS = 100 - int64(i)
			records[i].FirstTokenNS = 200
			records[i].MostCachedTokens = 0
			records[i].CachedTokens = 39
		}
		records[1].CachedTokens = 0
		records[2].CachedTokens = 0
		expect.Equal(t, OvertakenTokens(w, fatesOf(records)), c.want, "%+v: tokens overtaken", c.cache)
		records[1].SentNS = record.None
		expect.Equal(t, OvertakenTokens(w, fatesOf(records)), 0, "%+v: alone tokens overtaken", c.cache)
	}
}

// sent has records of requests which were all sent and answered by who has these names.
func sent(w *workload.Work, name func(i int) string) []Fate {
	records := make([]record.Record, w.Requests())
	for i := range records {
		records[i] = record.Record{Outcome: record.OK, Instance: name(i)}
	}
	return fatesOf(records)
}

// TestOracleKnowsWhoRouted: names for addresses of ours change nothing, least of all weights and caches; those behind a
// gateway are compared as they are.
func TestOracleKnowsWhoRouted(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2, 3)
	bare := CompareRouters(w, sent(w, func(int) string { return "" }), &names)
	named := CompareRouters(w, sent(w, func(i int) string { return fmt.Sprint("pod-", w.Places[i].Target) }), &names)
	for _, o := range []*route.Oracle{bare, named} {
		robin := o.Of(route.RoundRobinName)
		if o.Instances != 3 || o.CapacityTokens == nil || *o.CapacityTokens != 96_000 || robin.HitTokens != o.Actual.HitTokens || o.Actual.HitTokens == 0 || robin.RequestsCV > 1e-9 {
			t.Errorf("%+v: round-robin %+v, as they went %+v", o, robin, o.Actual)
		}
	}
	some := sent(w, func(int) string { return "" })
	left := int64(0)
	for i := range some {
		switch i % 3 {
		case 0:
			some[i].Outcome = record.HTTPError
		case 1:
			some[i].Profiled = false
		default:
			left += int64(w.BuiltTokens(i))
		}
	}
	if o := CompareRouters(w, some, &names); o.Requests != 100 || o.PromptTokens != left || bare.Requests != 300 {
		t.Errorf("hits of %d requests, %d tokens; want 100 and %d", o.Requests, o.PromptTokens, left)
	}
	behind := CompareRouters(w, sent(w, func(i int) string { return fmt.Sprint("pod-", i%7) }), &names)
	if behind.Instances != 7 || behind.Actual.LargestShare > 0.2 {
		t.Errorf("%+v: as they went %+v", behind, behind.Actual)
	}
	twice := workloadtest.Routed(t, 1, 2, 1)
	if o := CompareRouters(twice, sent(twice, func(int) string { return "" }), &names); o.Instances != 2 || o.Actual.LargestShare < 0.66 {
		t.Errorf("one server of two names: %+v: as they went %+v", o, o.Actual)
	}
}

// TestNeverHeld: what was in prefill or evicted is told of the requests that lack it, with all of it and nothing else.
func TestNeverHeld(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2)
	fates := sent(w, func(int) string { return "" })
	for i := range fates {
		f := &fates[i]
		f.Status, f.Told = 200, true
		f.SentNS, f.BegunNS, f.FirstTokenNS, f.EndNS = int64(i)*10, int64(i)*10, int64(i)*10+15, int64(i)*10+16
		f.ExpectedCachedTokens, f.CachedTokens = 1000, int64(i%2)*1000
	}
	at := map[int64]int64{}
	found := Shortfall(w, fates, []int64{record.None, record.None}, func(sentNS, tokens int64) { at[sentNS] += tokens })
	sum := int64(0)
	for sentNS, tokens := range at {
		sum += tokens
		if i := sentNS / 10; sentNS%10 != 0 || i%2 == 1 || tokens <= 0 || tokens > 1000 {
			t.Errorf("%d tokens at %d", tokens, sentNS)
		}
	}
	if sum != found.InPrefillTokens+found.EvictedTokens || found.EvictedTokens == 0 || found.InPrefillTokens == 0 {
		t.Errorf("told of %d tokens, found %+v", sum, found)
	}
}

// TestCachesBehindGateways: an instance has the capacity that its gateway reports.
func TestCachesBehindGateways(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2)
	records := sent(w, func(i int) string { return fmt.Sprint(w.Places[i].Target, "-", i%2) })
	_, instances, capacity := names.byInstance(w, records, names.behindGateways(w, records))
	if !slices.Equal(capacity, []int64{16_000, 16_000, 32_000, 32_000}) || len(instances) != w.Requests() {
		t.Errorf("%v of %d", capacity, len(instances))
	}
}

// TestTurnsLeftOut: a follow-up turn that is not part of the run is not counted.
func TestTurnsLeftOut(t *testing.T) {
	w := &workload.Work{Trace: &trace.Trace{Chat: []int64{0, 1}, Parent: []int64{-1, 0}, ArrivalNS: []int64{0, 1}}, Plan: sched.Plan{Requests: 2}}
	records := make([]record.Record, 2)
	for i := range records {
		records[i].Clear()
	}
	if got := Turns(w, fatesOf(records), nil, nil); got == nil || got.FollowUps != 1 || got.Overtaking != 0 {
		t.Errorf("%+v, want one follow-up turn", got)
	}
	if got := Turns(w, fatesOf(records), []int32{1}, nil); got != nil {
		t.Errorf("%+v, want nil: the only follow-up turn is left out", got)
	}
}

// TestJoinsOvertaken: a request that depends on several is counted once, by the one that ended last.
func TestJoinsOvertaken(t *testing.T) {
	row := func(id int, relation, on string) string {
		return fmt.Sprintf(`{"request_id":"%d","play_id":"p","session_id":"s%d","model":"m","input_length":64,"output_length":9,"hash_ids":[%d],"not_before_ms":0,"timestamp":%d,"dependencies":[%s]}`+"\n",
			id, id, id, 10*id, strings.ReplaceAll(on, "R", relation))
	}
	depends := func(on int, trigger string) string {
		return fmt.Sprintf(`{"request_id":"%d","trigger":"%s","delay_ms":0,"relation":"R"}`, on, trigger)
	}
	agentic := `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"sample","digest":"1"}}` + "\n" +
		row(0, "", "") + row(1, "spawn", depends(0, "completion")) + row(2, "spawn", depends(0, "completion")) +
		row(3, "join", depends(1, "completion")+","+depends(2, "completion")) + row(4, "replay_barrier", depends(3, "dispatch"))
	tr := must.Have(trace.Read(strings.NewReader(agentic), "a.jsonl", trace.Options{}))(t)
	records := make([]record.Record, tr.Len())
	for i := range records {
		records[i].Clear()
		records[i].SentNS, records[i].DoneNS = int64(i)*100, int64(i)*100+250
	}
	got := Turns(&workload.Work{Trace: tr, Plan: sched.Plan{Requests: tr.Len()}}, fatesOf(records), nil, nil)
	// The two sub-agents left 150 and 50 ns early, the join 150 before the end of the later one; the last waited for
	// its sending alone.
	if got == nil || got.FollowUps != 4 || got.Overtaking != 3 || got.OvertakingMS.Max != 150e-6 || got.OvertakingMS.P50 != 150e-6 {
		t.Errorf("%+v, %+v", got, got.OvertakingMS)
	}
}

func TestOvertook(t *testing.T) {
	rec := func(sent, done int64) *Fate {
		var r record.Record
		r.Clear()
		r.SentNS, r.DoneNS = sent, done
		return new(names.FateOf(&r))
	}
	for _, c := range []struct {
		turn, before *Fate
		want         int64
	}{
		{rec(100, 200), rec(0, 150), 50}, {rec(150, 200), rec(0, 150), 0}, {rec(160, 200), rec(0, 150), 0},
		{rec(record.None, record.None), rec(0, 150), 0}, {rec(100, 200), rec(record.None, record.None), 0}, {rec(100, 200), rec(50, record.None), 0},
	} {
		expect.Equal(t, overtook(c.turn, c.before, trace.OnCompletion), c.want, "%d after %d", c.turn.SentNS, c.before.EndNS)
		expect.Equal(t, overtook(c.turn, c.before, trace.OnDispatch), 0, "%d after the sending at %d", c.turn.SentNS, c.before.SentNS)
	}
}
