package bench

import (
	"math"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
)

// sharing is a trace of conversations that go on while others do: 400 requests in 2 s.
func sharing(t *testing.T) string {
	t.Helper()
	return generate(t, "--format", "bailian", "--rows", "400", "--rate", "200", "--turns", "1:8", "--turn-tokens", "50:300", "--active", "60",
		"--input-tokens", "200:1200", "--output-tokens", "4:12", "--reuse", "0.6", "--seed", "3")
}

// foretold is what inspect says of a trace on four instances.
func foretold(t *testing.T, path string) *route.Oracle {
	t.Helper()
	d := document(t, "--instances", "4", path)
	must.Equal(t, len(d.Traces[0].Routing), 1, "only the oracle of unlimited caches")
	return d.Traces[0].Routing[0]
}

// sharedPrompts are the prompts of a trace, by row, in blocks that are as large as the servers'.
type sharedPrompts map[int64]struct {
	blocks []uint64
	tokens int
}

func readPrompts(t *testing.T, path string) sharedPrompts {
	t.Helper()
	tr, err := trace.Open(path, trace.Options{})
	if err != nil || tr.BlockTokens != 16 {
		t.Fatalf("blocks of %d tokens, %v", tr.BlockTokens, err)
	}
	p := sharedPrompts{}
	for i := range tr.Len() {
		own := p[int64(tr.Row[i])]
		own.blocks, own.tokens = tr.Blocks(i), int(tr.InputTokens[i])
		p[int64(tr.Row[i])] = own
	}
	return p
}

// held is how many tokens of a row a cache can reuse that has some other rows: whole blocks, and one token is always
// computed.
func (p sharedPrompts) held(row int64, has func(other int64) bool) (tokens int64) {
	own, most := p[row], 0
	for other, theirs := range p {
		if other == row || !has(other) {
			continue
		}
		n := 0
		for n < min(len(own.blocks), len(theirs.blocks), (own.tokens-1)/16) && n < theirs.tokens/16 && own.blocks[n] == theirs.blocks[n] {
			n++
		}
		most = max(most, n)
	}
	return int64(16 * most)
}

// proveHits: each request had the hits that the servers' logs explain. What the ideal has beyond them was still in its
// prefill, or at another instance, and the summary has counted both. All of it follows from instants, so it holds
// however busy the machine is.
func (r *results) proveHits(t *testing.T, prompts sharedPrompts, logs map[string]map[string][]served, server func(*line) string) {
	t.Helper()
	lines, entries := map[int64]*line{}, map[int64]served{}
	for i := range r.lines {
		l := &r.lines[i]
		lines[l.Row], entries[l.Row] = l, logs[server(l)][l.ID][0]
	}
	var inPrefill, elsewhere int64
	for row, l := range lines { // a server looks into its cache at some time between a request's arrival and its first token
		own, name := entries[row], server(l)
		together := func(k int64) bool { return server(lines[k]) == name }
		least := prompts.held(row, func(k int64) bool { return together(k) && entries[k].First <= own.Arrived })
		most := prompts.held(row, func(k int64) bool { return together(k) && entries[k].Arrived < own.First })
		if l.Cached < least || l.Cached > most {
			t.Errorf("row %d: %d tokens cached, %s can have had %d to %d", row, l.Cached, name, least, most)
		}
		left := max(l.Sent, l.Written)
		known := func(k int64) bool { return lines[k].Target == l.Target && lines[k].FirstToken <= left }
		anywhere, there := prompts.held(row, known), prompts.held(row, func(k int64) bool { return known(k) && together(k) })
		short := max(0, l.Expected-l.Cached)
		waits := min(short, max(0, l.Expected-anywhere))
		inPrefill += waits
		elsewhere += min(short-waits, max(0, anywhere-there))
	}
	if s := r.summary.PrefixCache.Shortfall; s.InPrefillTokens != inPrefill || s.ElsewhereTokens != elsewhere || s.UnexplainedTokens != 0 {
		t.Errorf("%+v; the logs have %d tokens in prefill, %d elsewhere, and leave none unexplained", s, inPrefill, elsewhere)
	}
}

// TestRoutersHitWhatTheOracleSays: on four servers each router reaches the hits that inspect foretold from the trace
// alone, and the prefix-aware one its bound.
func TestRoutersHitWhatTheOracleSays(t *testing.T) {
	t.Parallel()
	path := sharing(t)
	oracle := foretold(t, path)
	best := oracle.Of(route.PrefixBoundedName).HitRatio
	if rr := oracle.Of("round-robin").HitRatio; rr > best-0.05 || best > oracle.OneCacheRatio {
		t.Errorf("round-robin %v, prefix %v, one cache %v: this trace tells no routers apart", rr, best, oracle.OneCacheRatio)
	}
	for _, name := range []string{"prefix", "least-inflight", "session"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hitsAsForetold(t, path, name, oracle)
		})
	}
}

// hitsAsForetold routes a trace by a router on four servers, and compares.
func hitsAsForetold(t *testing.T, path, name string, oracle *route.Oracle) {
	mocks, urls := startMocks(t, 4, "--ttft", "1ms", "--itl", "1ms")
	r := run(t, with(urls, path, "--route", name)...)
	r.only(t, "ok")
	best := oracle.Of(route.PrefixBoundedName).HitRatio
	o, cache := r.summary.Routing, r.summary.PrefixCache
	want := o.Actual.HitRatio // of least-inflight, which nothing foretells
	if name == "prefix" {
		want = best
	} else if foretold := oracle.Of(name); foretold != nil {
		want = foretold.HitRatio
	}
	if o.Actual.HitRatio != want || o.OneCacheRatio != oracle.OneCacheRatio || o.Of(route.PrefixBoundedName).HitRatio != best {
		t.Errorf("the run's oracle says %+v, inspect said %+v", o, oracle)
	}
	if name != "least-inflight" && math.Abs(*cache.ExpectedHitRatio-want) > 1e-9 {
		t.Errorf("%v of the tokens expected, the oracle says %v", *cache.ExpectedHitRatio, want)
	}
	logs := map[string]map[string][]served{}
	for _, m := range mocks {
		logs[m.url] = m.stop(t)
	}
	r.proveHits(t, readPrompts(t, path), logs, func(l *line) string { return l.Target })
}
