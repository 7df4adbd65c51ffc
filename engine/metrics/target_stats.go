package metrics

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// targetStats is what is counted for one target, and, merged, for the whole run.
type targetStats struct {
	latencies latencyStats

	outcomes [record.Outcomes]int64
	kinds    failureKinds // of what is not ok
	sent     int64        // requests with a first byte on the wire
	resent   int64        // requests that were sent again
	maxWait  int64        // ns; the longest wait for a connection
	tokens   tokenCounts
	cache    cacheCounts
	good     goodCounts
	gateway  gatewayCounts
	answers  answerCounts
	reading  lateReads
	leftOut  int64 // requests that the user left out

	recordedCache struct { // of requests whose recorded hits are known
		cacheCounts
		requests, tokens int64 // tokens in the recorded server's cache
	}
}

// tokenCounts is over OK requests. PerChunk is missing.
type tokenCounts struct {
	Tokens
	usageTokens, chunks int64                          // of requests that have both
	first               struct{ row, got, want int64 } // of PromptMismatches
}

// cacheCounts is over OK requests.
type cacheCounts struct {
	prompt          int64 // tokens
	promptWithUsage int64 // … of requests whose answers had usage
	withoutUsage    int64 // requests whose answers had none
	expected        int64 // tokens that an ideal cache holds
	ideals          int64 // requests whose ideal is known
	least, most     int64 // tokens that it holds at least and at most
	bounds          int64 // requests whose ideal has bounds
	reported        int64 // tokens
	reports         int64 // requests that came with a number
	aboveRequests   int64 // requests above the most that their ideal could be
	aboveTokens     int64
	finer           int64 // requests above their ideal, but not above the most: pieces smaller than assumed
}

func newTargetStats(slos []SLO) targetStats { return targetStats{good: goodCounts{slos: slos}, kinds: failureKinds{}} }

func (s *targetStats) add(r *record.Record) {
	s.outcomes[r.Outcome]++
	if r.SentNS != record.None {
		s.sent++
	}
	if r.Resent > 0 {
		s.resent++
	}
	s.maxWait = max(s.maxWait, r.ConnWaitNS)
	s.latencies.add(r)
	if r.Outcome != record.OK {
		if r.LeftOut() {
			s.leftOut++
			return
		}
		s.kinds.add(kindOf(r), 1, r.Error)
		return
	}
	s.tokens.add(r)
	s.cache.add(r)
	if r.RecordedCachedTokens != record.None && r.InputTokens != record.None { // a verbatim prompt may have other tokens here than where it was recorded
		s.recordedCache.add(r)
		s.recordedCache.requests++
		s.recordedCache.tokens += r.RecordedCachedTokens
	}
	s.good.add(r)
	s.gateway.add(r)
	s.answers.add(r)
	s.reading.add(r)
}

func addKnown(d *Distribution, ns int64) {
	if ns != record.None {
		d.Add(ns)
	}
}

func (t *tokenCounts) add(r *record.Record) {
	t.Prompt += known(PromptTokens(r))
	t.Completion += known(r.CompletionTokens)
	if r.AtOnce() {
		t.AtOnce++
	}
	if r.Choices > 1 {
		t.SeveralChoices++
	}
	if r.PromptTokens != record.None && r.BuiltTokens != record.None && r.PromptTokens != r.BuiltTokens {
		if t.PromptMismatches == 0 {
			t.first.row, t.first.got, t.first.want = r.Row, r.PromptTokens, r.BuiltTokens
		}
		t.PromptMismatches++
	}
	switch r.TokensFrom {
	case record.TokensFromChunks:
		t.FromChunks++
	case record.TokensFromUsage:
		t.FromUsage++
		t.addUsage(r)
	}
}

// addUsage compares a completion that the server counted with what was asked
// for and with the chunks that brought it.
func (t *tokenCounts) addUsage(r *record.Record) {
	if r.CompletionTokens == record.None {
		return
	}
	if r.Chunks > 0 {
		t.usageTokens += r.CompletionTokens
		t.chunks += r.Chunks
	}
	choices := max(1, r.Choices) // usage counts the tokens of all, and of best_of perhaps of those that did not come
	switch {
	case r.OutputTokens == record.None:
	case r.CompletionTokens < choices*r.OutputTokens:
		t.CutShort++
	case r.CompletionTokens > max(choices, r.AskedChoices)*r.OutputTokens:
		t.OverLong++
	}
}

func (c *cacheCounts) add(r *record.Record) {
	c.prompt += known(PromptTokens(r))
	if r.ToldUsage() {
		c.promptWithUsage += known(PromptTokens(r))
	} else {
		c.withoutUsage++
	}
	if r.ExpectedCachedTokens != record.None {
		c.ideals++
		c.expected += r.ExpectedCachedTokens
	}
	if r.MostCachedTokens != record.None {
		c.bounds++
		c.least += r.LeastCachedTokens
		c.most += r.MostCachedTokens
	}
	if r.CachedTokens == record.None {
		return
	}
	c.reports++
	c.reported += r.CachedTokens
	if r.MostCachedTokens == record.None {
		return
	}
	if above := r.CachedTokens - r.MostCachedTokens; above > 0 {
		c.aboveRequests++
		c.aboveTokens += above
	} else if r.ExpectedCachedTokens != record.None && r.CachedTokens > r.ExpectedCachedTokens {
		c.finer++
	}
}

// recordedHits is nil if no hits were recorded.
func recordedHits(all *targetStats, targets []targetStats) *RecordedHits {
	c := &all.recordedCache
	if c.requests == 0 {
		return nil
	}
	out := &RecordedHits{Requests: c.requests, PromptTokens: c.prompt, RecordedHitRatio: ratio(c.tokens, c.prompt)}
	if c.ideals == c.requests {
		out.ExpectedHitRatio = ratio(c.expected, c.prompt)
	}
	silent := func(t targetStats) bool { return t.recordedCache.requests > 0 && t.cache.reports == 0 }
	if c.withoutUsage == 0 && !slices.ContainsFunc(targets, silent) {
		out.ReportedHitRatio = ratio(c.reported, c.prompt)
	}
	return out
}

// hitRatio is the share that was reported as cached of the prompt tokens of answers with usage; nil if nothing was reported.
func (c *cacheCounts) hitRatio() *float64 {
	if c.reports == 0 {
		return nil
	}
	return ratio(c.reported, c.promptWithUsage)
}

// PromptTokens is the server's count, or the trace's where it gave none; record.None without either.
func PromptTokens(r *record.Record) int64 {
	if r.PromptTokens != record.None {
		return r.PromptTokens
	}
	return r.InputTokens
}

// known returns a number that is never negative, or 0 when it is absent.
func known(v int64) int64 { return max(0, v) }

// merge adds all that is in o.
func (s *targetStats) merge(o *targetStats) {
	maxWait, first := max(s.maxWait, o.maxWait), s.tokens.first
	if s.tokens.PromptMismatches == 0 {
		first = o.tokens.first
	}
	s.answers.first = cmp.Or(s.answers.first, o.answers.first)
	addUp(s, o)
	s.maxWait, s.tokens.first = maxWait, first
	for kind, f := range o.kinds {
		s.kinds.add(kind, f.Count, f.Example)
	}
}

// addUp adds the counts and distributions of from to those of to, fields of fields too. All else of to stays.
func addUp[T any](to, from *T) { addValue(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()) }

func addValue(to, from reflect.Value) {
	field := func(f reflect.Value) reflect.Value { return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem() } // may be set, though not exported
	switch {
	case to.Type() == reflect.TypeFor[Distribution]():
		to.Addr().Interface().(*Distribution).Merge(from.Addr().Interface().(*Distribution))
	case to.Kind() == reflect.Int64:
		to.SetInt(to.Int() + from.Int())
	case to.Kind() == reflect.Array:
		for i := range to.Len() {
			addValue(to.Index(i), from.Index(i))
		}
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			addValue(field(to.Field(i)), field(from.Field(i)))
		}
	}
}
