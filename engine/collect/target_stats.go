package collect

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// targetStats is what is counted for one target, and, merged, for the whole run.
type targetStats struct {
	Latencies metrics.LatencyStats   `merge:"union"`
	Outcomes  [record.Outcomes]int64 `merge:"sum"`
	Kinds     metrics.FailureKinds   `merge:"union"` // of what is not ok
	Sent      int64                  `merge:"sum"`   // requests with a first byte on the wire
	Resent    int64                  `merge:"sum"`   // requests that were sent again
	MaxWaitNS int64                  `merge:"max"`   // the longest wait for a connection
	LeftOut   int64                  `merge:"sum"`   // requests that the user left out

	// Over OK requests.
	Tokens        tokenCounts    `merge:"each"`
	Cache         cacheCounts    `merge:"each"`
	RecordedCache recordedCounts `merge:"each"`
	Goodput       goodputCounts  `merge:"each"`
	Gateway       gatewayCounts  `merge:"each"`
	Answers       answerCounts   `merge:"each"`
	LateReads     latencyBounds  `merge:"each"`
}

// tokenCounts has no PerChunk.
type tokenCounts struct {
	metrics.Tokens `merge:"each"`
	UsageTokens    int64         `merge:"sum"`
	Chunks         int64         `merge:"sum"`   // of requests that have both
	FirstMismatch  tokenMismatch `merge:"first"` // of PromptMismatches
	Hidden         int64         `merge:"sum"`   // requests with tokens that were counted and not sent
}

// tokenMismatch is a row whose prompt had other tokens than were sent.
type tokenMismatch struct{ row, got, want int64 }

type cacheCounts struct {
	Prompt          int64 `merge:"sum"` // tokens
	PromptWithUsage int64 `merge:"sum"` // … of requests whose answers had usage
	WithoutUsage    int64 `merge:"sum"` // requests whose answers had none
	Expected        int64 `merge:"sum"` // tokens that an ideal cache holds
	Ideals          int64 `merge:"sum"` // requests whose ideal is known
	Least           int64 `merge:"sum"` // tokens that it holds at least
	Most            int64 `merge:"sum"` // tokens that it holds at most
	Bounds          int64 `merge:"sum"` // requests whose ideal has bounds
	Reported        int64 `merge:"sum"` // tokens
	Reports         int64 `merge:"sum"` // requests that came with a number
	AboveRequests   int64 `merge:"sum"` // requests above the most that their ideal could be
	AboveTokens     int64 `merge:"sum"`
	// requests above their ideal, but not above the most: pieces smaller than assumed
	Finer int64 `merge:"sum"`
}

// recordedCounts is of requests whose recorded hits are known.
type recordedCounts struct {
	Requests int64       `merge:"sum"`
	Tokens   int64       `merge:"sum"` // in the recorded server's cache
	Cache    cacheCounts `merge:"each"`
}

func newTargetStats(slos []metrics.SLO) targetStats {
	return targetStats{Goodput: goodputCounts{slos: slos}, Kinds: metrics.FailureKinds{}}
}

func (s *targetStats) add(r *record.Record) {
	s.Outcomes[r.Outcome]++
	if r.SentNS != record.None {
		s.Sent++
	}
	if r.Resent > 0 {
		s.Resent++
	}
	s.MaxWaitNS = max(s.MaxWaitNS, r.ConnWaitNS)
	s.Latencies.Add(r)
	if r.Outcome != record.OK {
		if r.LeftOut() {
			s.LeftOut++
			return
		}
		s.Kinds.Add(r)
		return
	}
	s.Tokens.add(r)
	s.Cache.add(r)
	s.RecordedCache.add(r)
	s.Goodput.add(r)
	s.Gateway.add(r)
	s.Answers.add(r)
	s.LateReads.add(r)
}

func addKnown(d *stats.Distribution, ns int64) {
	if ns != record.None {
		d.Add(ns)
	}
}

func (t *tokenCounts) add(r *record.Record) {
	t.Prompt += known(metrics.PromptTokens(r))
	t.Completion += known(r.CompletionTokens)
	if r.AtOnce() {
		t.AtOnce++
	}
	if r.Whole() {
		t.Whole++
	}
	if r.Choices > 1 {
		t.SeveralChoices++
	}
	tolerated := max(metrics.ToleratedNS, int64(metrics.ToleratedShare*float64(r.TTFTNS())))
	if r.EmptyFirstNS() > tolerated {
		t.EmptyFirst++
	}
	if r.PromptTokens != record.None && r.BuiltTokens != record.None &&
		r.PromptTokens != r.BuiltTokens {
		if t.PromptMismatches == 0 {
			t.FirstMismatch = tokenMismatch{r.Row, r.PromptTokens, r.BuiltTokens}
		}
		t.PromptMismatches++
	}
	switch r.TokensFrom {
	case record.TokensFromChunks:
		t.FromChunks++
		if r.CompletionTokens < max(1, r.Choices)*r.OutputTokens {
			t.FewerChunks++
		}
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
	t.Hidden += min(1, max(0, r.HiddenTokens))
	if r.Chunks > 0 {
		t.UsageTokens += r.SentTokens()
		t.Chunks += r.Chunks
	}
	choices := max(1, r.Choices) // usage counts the tokens of all, and of best_of perhaps of those that did not come
	switch {
	case r.OutputTokens == record.None:
	case r.CompletionTokens < choices*r.OutputTokens:
		t.CutShort++
	case r.CompletionTokens > max(choices, r.AskedChoices)*r.OutputTokens:
		t.OverLong++
		t.OverLongTokens += r.CompletionTokens - max(choices, r.AskedChoices)*r.OutputTokens
	}
}

func (c *cacheCounts) add(r *record.Record) {
	c.Prompt += known(metrics.PromptTokens(r))
	if r.ToldUsage() {
		c.PromptWithUsage += known(metrics.PromptTokens(r))
	} else {
		c.WithoutUsage++
	}
	if r.ExpectedCachedTokens != record.None {
		c.Ideals++
		c.Expected += r.ExpectedCachedTokens
	}
	if r.MostCachedTokens != record.None {
		c.Bounds++
		c.Least += r.LeastCachedTokens
		c.Most += r.MostCachedTokens
	}
	if r.CachedTokens == record.None {
		return
	}
	c.Reports++
	c.Reported += r.CachedTokens
	if r.MostCachedTokens == record.None {
		return
	}
	if above := r.CachedTokens - r.MostCachedTokens; above > 0 {
		c.AboveRequests++
		c.AboveTokens += above
	} else if r.ExpectedCachedTokens != record.None && r.CachedTokens > r.ExpectedCachedTokens {
		c.Finer++
	}
}

func (c *recordedCounts) add(r *record.Record) {
	// a verbatim prompt may have other tokens here
	if r.RecordedCachedTokens == record.None || r.InputTokens == record.None {
		return
	}
	c.Requests++
	c.Tokens += r.RecordedCachedTokens
	c.Cache.add(r)
}

// recordedHits is nil if no hits were recorded.
func recordedHits(all *targetStats, targets []targetStats) *metrics.RecordedHits {
	c := &all.RecordedCache
	if c.Requests == 0 {
		return nil
	}
	prompt := c.Cache.Prompt
	out := &metrics.RecordedHits{
		Requests:         c.Requests,
		PromptTokens:     prompt,
		RecordedHitRatio: stats.Ratio(c.Tokens, prompt),
	}
	if c.Cache.Ideals == c.Requests {
		out.ExpectedHitRatio = stats.Ratio(c.Cache.Expected, prompt)
	}
	silent := func(t targetStats) bool {
		return t.RecordedCache.Requests > 0 && t.Cache.Reports == 0
	}
	if c.Cache.WithoutUsage == 0 && !slices.ContainsFunc(targets, silent) {
		out.ReportedHitRatio = stats.Ratio(c.Cache.Reported, prompt)
	}
	return out
}

// hitRatio is the share that was reported as cached of the prompt tokens of answers with usage; nil if nothing was
// reported.
func (c *cacheCounts) hitRatio() *float64 {
	if c.Reports == 0 {
		return nil
	}
	return stats.Ratio(c.Reported, c.PromptWithUsage)
}

// known returns a number that is never negative, or 0 when it is absent.
func known(v int64) int64 { return max(0, v) }
