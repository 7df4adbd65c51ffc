package metrics

import (
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

func TestSummaryAgainstOracle(t *testing.T) {
	const targets = 3
	all := workload(77, 4000, targets)
	c := collect(all, urls(targets))
	limits := DefaultLimits()
	limits.MaxDriftMS = 0.001
	s := c.Summary(Summary{Requests: Requests{Planned: 4000}, Run: Run{DurationS: 8}, Limits: limits}, Probed{})

	var sent, ok, resent, early, late, prompt, completion, fromUsage, fromChunks, mismatch, short, long, atOnce int64
	var usageTokens, chunks, expected, reported, reportingPrompt, above, aboveRequests, unreported int64
	byOutcome := map[string]int64{}
	for _, m := range all {
		r := m.r
		byOutcome[r.Outcome.String()]++
		if r.SentNS != record.None {
			sent++
			if r.SentNS < r.PlannedNS {
				early++
			}
			late += btoi(r.SentNS-r.PlannedNS > 1000)
		}
		resent += min(1, r.Resent)
		if r.Outcome != record.OK {
			continue
		}
		ok++
		tokens := r.PromptTokens
		if tokens == record.None {
			tokens = r.InputTokens
		} else if tokens != r.InputTokens {
			mismatch++
		}
		prompt += tokens
		completion += r.CompletionTokens
		atOnce += btoi(r.FirstTokenNS != record.None && r.Chunks == 1 && r.CompletionTokens > 1)
		if r.TokensFrom == record.TokensFromUsage {
			fromUsage++
			short += btoi(r.CompletionTokens < r.OutputTokens)
			long += btoi(r.CompletionTokens > r.OutputTokens)
			if r.Chunks > 0 {
				usageTokens += r.CompletionTokens
				chunks += r.Chunks
			}
		} else {
			fromChunks++
		}
		expected += r.ExpectedCachedTokens
		if m.target == targets-1 || r.TokensFrom == record.TokensFromChunks && r.CachedTokens == record.None {
			unreported++
		} else {
			reportingPrompt += tokens
		}
		if r.CachedTokens != record.None {
			reported += r.CachedTokens
			if d := r.CachedTokens - r.MostCachedTokens; d > 0 {
				above += d
				aboveRequests++
			}
		}
	}
	perChunk := float64(usageTokens) / float64(chunks)
	expectedRatio, reportedRatio := float64(expected)/float64(prompt), float64(reported)/float64(reportingPrompt)
	equal(t, "requests", s.Requests, Requests{Planned: 4000, Sent: sent, OK: ok, Failed: 4000 - ok, Resent: resent, Early: early, Late: late, ByOutcome: byOutcome})
	equal(t, "tokens", s.Tokens, Tokens{Prompt: prompt, Completion: completion, FromUsage: fromUsage, FromChunks: fromChunks,
		PerChunk: &perChunk, PromptMismatches: mismatch, CutShort: short, OverLong: long, AtOnce: atOnce})
	equal(t, "prefix cache", s.PrefixCache, PrefixCache{ExpectedHitRatio: &expectedRatio, ReportedHitRatio: &reportedRatio, HitRatio: &reportedRatio, HitsFrom: "responses",
		ExpectedTokens: &expected, ReportedTokens: &reported, UnreportedRequests: unreported, AboveIdealTokens: above, AboveIdealRequests: aboveRequests})
	equal(t, "throughput", s.Throughput, Throughput{float64(ok) / 8, float64(prompt) / 8, float64(completion) / 8})
	if early == 0 || late == 0 || late == sent || mismatch == 0 || short == 0 || long == 0 || fromChunks == 0 || above == 0 || len(byOutcome) != record.Outcomes {
		t.Fatal("the workload does not cover everything")
	}

	var requests, okSum int64
	for i, target := range s.Targets {
		requests += target.Requests
		okSum += target.OK
		if target.URL != c.urls[i] || target.OK+target.Failed != target.Requests {
			t.Errorf("target %d does not add up: %+v", i, target)
		}
		if (target.ReportedHitRatio == nil) != (i == targets-1) {
			t.Errorf("target %d: reported ratio %v", i, target.ReportedHitRatio)
		}
	}
	if requests != 4000-byOutcome["not_sent"] || okSum != ok {
		t.Errorf("targets have %d requests, %d ok; want %d, %d", requests, okSum, 4000-byOutcome["not_sent"], ok)
	}
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func equal(t *testing.T, name string, got, want any) {
	t.Helper()
	if g, w := dump(got), dump(want); g != w {
		t.Errorf("%s:\ngot  %s\nwant %s", name, g, w)
	}
}

func TestSummaryMayBeTakenAgain(t *testing.T) {
	c := collect(workload(5, 500, 2), urls(2))
	info := Summary{Requests: Requests{Planned: 500}, Run: Run{DurationS: 3}, Limits: DefaultLimits()}
	equal(t, "second summary", c.Summary(info, Probed{}), c.Summary(info, Probed{}))
}

// TestExpectedRange: where the exact ideal is hidden, its bounds are added up, and the ratio's place stays empty.
func TestExpectedRange(t *testing.T) {
	c := NewCollector([]string{"http://a:1"})
	for _, bounds := range [][2]int64{{0, 16}, {400, 416}, {64, 64}} {
		r := answered()
		r.ExpectedCachedTokens, r.LeastCachedTokens, r.MostCachedTokens = record.None, bounds[0], bounds[1]
		c.Add(r, 0)
	}
	got := c.Summary(Summary{}, Probed{}).PrefixCache
	if got.ExpectedHitRatio != nil || got.ExpectedTokens != nil || got.Shortfall != nil {
		t.Errorf("something exact is claimed: %s", dump(got))
	}
	if want := [2]float64{464. / 1500, 496. / 1500}; got.ExpectedRange == nil || *got.ExpectedRange != want {
		t.Errorf("range %v, want %v", got.ExpectedRange, want)
	}
	r := answered()
	c.Add(r, 0)
	if got := c.Summary(Summary{}, Probed{}).PrefixCache; got.ExpectedRange != nil || *got.ExpectedTokens != 400 {
		t.Errorf("with something exact: %s", dump(got))
	}
}
