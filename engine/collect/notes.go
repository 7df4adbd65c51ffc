package collect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// perChunkTolerance is how far the mean of tokens per chunk may be from 1
// before a note names it.
const perChunkTolerance = 0.005

// hardlyMadeMS is less time than a model needs for a token: the fastest known made some 3,000 tokens/s a user (2026).
const hardlyMadeMS = 0.1

// notes returns warnings about the results, one sentence each. First comes what bears on all numbers: a machine or a
// server that had too much to do.
func (c *Collector) notes(s *metrics.Summary, all *targetStats, targets []targetStats, probed Probed) metrics.Notes {
	out := slices.Concat(localNotes(s), serverNotes(s))
	add := out.Add
	for i := range s.Trends {
		add(true, "trend", "%s", s.Trends[i].Words())
	}
	cut := s.Requests.ByOutcome[record.Cancelled.String()]
	unsent := s.Requests.ByOutcome[record.NotSent.String()] - s.Workload.LeftOut
	over := "the run's time was over"
	if s.Run.Aborted != "" {
		over = "the run was lost"
	}
	add(s.Run.Cut && cut+unsent > 0,
		"cut_off", "%s cut off and %s not sent, because %s: the verdict does not count them as failed",
		format.Requests(cut), format.Count(unsent), over)
	perChunk := stats.OrZero(s.Tokens.PerChunk)
	t := &all.Tokens
	coarse := ""
	// TPOT divides by all tokens but one, and those of the first chunk took none of its time
	if short := (perChunk - 1) / (float64(t.UsageTokens)/float64(t.FromUsage) - 1); short > metrics.ToleratedShare {
		coarse = fmt.Sprintf(". TPOT is about %s too short, if first chunks have as many", format.Percent(short))
	}
	add(s.Tokens.PerChunk != nil && math.Abs(perChunk-1) > perChunkTolerance,
		"tokens_per_chunk", "a chunk has %.2f tokens on average: ITL is per chunk, TPOT per token%s", perChunk, coarse)
	add(s.Tokens.PerChunk != nil && perChunk < 1-perChunkTolerance,
		"fewer_tokens_than_chunks",
		"the server counts fewer tokens than it sent chunks: if the first chunk of an answer is none of them, TTFT is "+
			"too short")
	add(t.PromptMismatches > 0, "prompt_tokens_differ",
		"row %d is the first whose prompt tokens differ: %s sent, %s counted",
		t.FirstMismatch.row, format.Count(t.FirstMismatch.want),
		format.Count(t.FirstMismatch.got))
	add(s.Tokens.FromChunks > 0, "tokens_from_chunks",
		"the server counted no tokens in %s: their completion tokens are counted chunks",
		format.Requests(s.Tokens.FromChunks))
	add(t.Hidden > 0, "hidden_tokens",
		"the server counted reasoning in %s that it did not send: TTFT and TPOT are of what came",
		format.Requests(t.Hidden))
	add(s.Tokens.OverLong > 0, "over_long", "%s longer than recorded", format.Many(s.Tokens.OverLong, "completion"))
	add(s.Tokens.CutShort > 0 && !s.Limits.ForcedOutput,
		"cut_short",
		"%s of %s shorter than recorded, since the output length was not forced, or the server cut them: "+
			"throughput and E2E are those of less work",
		format.Count(s.Tokens.CutShort), format.Many(s.Requests.OK, "completion"))
	above := s.PrefixCache.AboveIdealRequests
	add(above > 0, "above_ideal", "%s hit %s above the ideal for the plan's order",
		format.Requests(above), format.Many(all.Cache.AboveTokens, "token"))
	if k := s.Client.Stamps; k != nil && k.ClockSteps+k.Dropped > 0 {
		add(true,
			"clock_set",
			"the wall clock was set %s during the run (by %s at most): %s around it were not used, and the "+
				"reader's clock gave those times",
			format.Many(k.ClockSteps, "time"), format.Duration(k.StepMS*1e6, 3),
			format.Many(k.Dropped, "kernel timestamp"))
	}
	whole := ""
	if 2*s.Tokens.AtOnce > s.Requests.OK {
		whole = "; a proxy that buffers streams does that, a server without TCP_NODELAY, or one whose chunks have " +
			"their output under a name that is not known here, and TTFT is then the time of the whole answer"
	}
	add(s.Tokens.AtOnce > 0, "at_once", "%s brought all tokens at one instant, so there is no TPOT or ITL of them%s",
		format.Many(s.Tokens.AtOnce, "response"), whole)
	add(s.Tokens.Whole > 0 && !s.Run.AskedWhole, "came_whole",
		"%s came whole, and not as streams: the server, or a proxy, ignores \"stream\": true, or rows' own bodies ask "+
			"for that. They have no TTFT, TPOT or ITL",
		format.Many(s.Tokens.Whole, "answer"))
	// whole answers have no TPOT, and one NTPOT
	tpot := cmp.Or(s.TPOTMS, s.NTPOTMS)
	if tpot != nil && tpot.P50 < hardlyMadeMS && stats.EnoughSamples(tpot.Count, 0.5) {
		add(true, "hardly_made",
			"half of the answers brought a token every %s or faster, in which models are not known to make one: a "+
				"cache of answers does that, or a proxy that buffers streams, and TTFT and TPOT are then theirs",
			format.Milliseconds(tpot.P50))
	}
	other, named := c.models.others(s.Run.AskedModels)
	add(other > 0, "other_model",
		"%s named a model that no request asked for, such as %q: it is another name, or another model",
		format.Many(other, "answer"), named)
	add(s.Tokens.SeveralChoices > 0,
		"several_choices",
		"%s had several choices: TPOT is per choice, tokens and lengths are those of all choices together",
		format.Many(s.Tokens.SeveralChoices, "response"))
	out = append(out, connectionNotes(s)...)
	var uneven, placement metrics.Notes
	// if the requests are routed here, by --route and the weights, the page has tables of that
	if s.Instances != nil && !c.pairs.OneByOne() {
		uneven = c.parts.instances.unevenNotes(s.Instances.Parts, s.Connections.Dialled)
		placement = placementNotes(s)
	}
	out = append(out, slices.Concat(gatewayNotes(s, &all.Gateway), historyNotes(s.History), answerNotes(s), uneven,
		outageNotes(s), replicaNotes(s), placement)...)
	add(all.Cache.Finer > 0,
		"smaller_blocks",
		"%s hit more than whole blocks of the assumed size: the server reuses smaller pieces; give their size "+
			"with --engine-block-tokens",
		format.Requests(all.Cache.Finer))
	return append(out, c.hitNotes(s, targets, probed)...)
}

// hitNotes say of which requests it is unknown what they hit, and why.
func (c *Collector) hitNotes(s *metrics.Summary, targets []targetStats, probed Probed) (out metrics.Notes) {
	unknown := probed.Unknown
	if probed.NoteUnlessReported != "" && s.PrefixCache.HitRatio == nil {
		unknown = append(slices.Clip(unknown),
			metrics.Unknown{What: "whether the cache_salt works", Note: probed.NoteUnlessReported})
	}
	var silent, partly []string
	var partlyRequests int64
	for i := range targets {
		switch hits := &targets[i].Cache; {
		case hits.Reports > 0 && hits.WithoutUsage > 0:
			partly = append(partly, c.urls[i])
			partlyRequests += hits.WithoutUsage
		case hits.Reports == 0 && probed.CacheOff != nil && probed.CacheOff(i): // there are no hits to report
		case hits.Reports == 0 && targets[i].Outcomes[record.OK] > 0 &&
			s.Targets[i].CountedHitRatio == nil:
			silent = append(silent, c.urls[i])
		}
	}
	if len(partly) > 0 {
		out.Add(true, "hits_partly_reported",
			"%s sent no usage in %s: their hits are unknown and left out of the reported ratio",
			several(partly), format.Requests(partlyRequests))
	}
	if len(silent) > 0 {
		unknown = append([]metrics.Unknown{{What: "hits (no cached tokens)", Note: fmt.Sprintf(
			"%s reports no cached tokens, so its hits are unknown: vLLM needs --enable-prompt-tokens-details, "+
				"SGLang --enable-cache-report, and some APIs (TGI's, Triton's, embeddings) have no such count",
			several(silent),
		)}}, unknown...)
	}
	return append(out, metrics.Fold(unknown)...)
}

// connectionNotes say what servers that close their connections cost.
func connectionNotes(s *metrics.Summary) (out metrics.Notes) {
	c := &s.Connections
	out.Add(c.ClosedEarly > 0,
		"closed_early",
		"the server closed %s within a second of an answer and had not announced it: from then on each request "+
			"there had a connection of its own",
		format.Many(c.ClosedEarly, "connection"))
	out.Add(s.Requests.Resent > 0,
		"resent",
		"%s sent again, since the server closed the connection without an answer: it may have done the work "+
			"twice, and the times are those of the second attempt (--resend)",
		format.Requests(s.Requests.Resent))
	return out
}

// localNotes name the servers that share the client's machine, and how long they waited for its cores. Those of a
// demo are ours.
func localNotes(s *metrics.Summary) (out metrics.Notes) {
	l := s.Client.LocalServers
	if l == nil || s.Run.Demo {
		return nil
	}
	waited := "how long it waited for a core is unknown"
	busy := ""
	if l.WaitedS != nil {
		waited = "it waited at least " + format.Seconds(*l.WaitedS) + " for a core"
		if *l.WaitedS > verdict.CauseShare*s.Run.DurationS {
			busy = ", so its latencies are those of a busy machine"
		}
	}
	out.Add(l.Processes != "", "local_server",
		"the server shares this machine with the client (%s): %s%s", l.Processes, waited, busy)
	out.Add(l.Unknown != "",
		"local_server_unread",
		"a server's address is the client's own machine's, and how long it waited for a core is unknown, since "+
			"its process could not be read to the end (%s)",
		l.Unknown)
	return out
}

// several names the first of them, and how many there are.
func several(urls []string) string {
	if len(urls) == 1 {
		return urls[0]
	}
	return fmt.Sprintf("each of %s, such as %s,", format.Many(len(urls), "target"), urls[0])
}

// stopped reports whether the end of a run ends requests so.
func stopped(o record.Outcome) bool { return o == record.Cancelled || o == record.NotSent }

// gatewayCounts is over ok requests.
type gatewayCounts struct {
	Requests int64              `merge:"sum"`
	Own      stats.Distribution `merge:"union"`
	Upstream stats.Distribution `merge:"union"`

	// In ns, summed over requests that have all three.
	TTFT    int64 `merge:"sum"`
	Head    int64 `merge:"sum"`
	Waiting int64 `merge:"sum"` // until the head of the server's response
}

func (g *gatewayCounts) add(r *record.Record) {
	if r.GatewayNS == record.None && r.UpstreamNS == record.None {
		return
	}
	g.Requests++
	addKnown(&g.Own, r.GatewayNS)
	addKnown(&g.Upstream, r.UpstreamNS)
	// Headers have whole milliseconds. If the time is longer than TTFT, it is not the time until the head of the
	// server's response.
	if ttft := r.TTFTNS(); ttft != record.None && r.HeadersNS != record.None &&
		r.UpstreamNS != record.None && r.UpstreamNS <= ttft+1e6 {
		g.TTFT += ttft
		g.Head += r.HeadersNS - r.SentNS
		g.Waiting += min(r.UpstreamNS, ttft)
	}
}

// summary is nil if no gateway reported anything.
func (g *gatewayCounts) summary() *metrics.Gateway {
	if g.Requests == 0 {
		return nil
	}
	return &metrics.Gateway{
		Requests:    g.Requests,
		OwnMS:       g.Own.Percentiles(1e6),
		UpstreamMS:  g.Upstream.Percentiles(1e6),
		Share:       stats.Ratio(max(0, g.Head-g.Waiting), g.TTFT),
		ServerShare: stats.Ratio(g.Waiting, g.TTFT),
	}
}

// gatewayNotes has a note if a gateway took most of TTFT. LiteLLM holds its response head back until the first chunk.
// So if its own time does not explain that, the server may have worked on after its own head.
func gatewayNotes(s *metrics.Summary, all *gatewayCounts) metrics.Notes {
	if g := s.Gateway; g == nil || g.Share == nil || *g.Share <= 0.5 {
		return nil
	}
	own := ""
	if reported := s.Gateway.OwnMS; reported != nil {
		own = fmt.Sprintf("; the gateway reports %s a request as its own time", format.Duration(reported.Mean*1e6, 3))
		if float64(all.Own.SumNS()) <= 0.5*float64(all.TTFT) {
			own += ", and the rest is its queue, unless the server sends its head long before the first token"
		}
	}
	return metrics.NotesOf("gateway_share",
		"the gateway took %s of TTFT, the server %s until the head of its response%s",
		format.Percent(*s.Gateway.Share), format.Percent(*s.Gateway.ServerShare), own)
}

// historyNotes explains why turns were not sent with the answers of the run.
func historyNotes(h *metrics.History) metrics.Notes {
	if h == nil || h.Why == (metrics.HistoryGaps{}) {
		return nil
	}
	why := format.Present(
		format.Some(h.Why.Late, "left before an earlier turn had ended (--sessions gated or think wait for it)"),
		format.Some(h.Why.Failed, "follow a turn that failed"), format.Some(h.Why.NoText,
			"follow an answer without text"),
		format.Some(h.Why.Tools, "follow a tool call"), format.Some(h.Why.Apart,
			"do not begin with the messages of an earlier turn"))
	return metrics.NotesOf("history_not_live",
		"live history: %s of %s were sent with the file's text in place of an answer: %s",
		format.Count(h.Partly+h.Recorded), format.Many(h.Turns, "follow-up turn"), strings.Join(why, ", "))
}

// costlyPlacement is how much of the prompt tokens a gateway's placement must cost before a note names it.
const costlyPlacement = 0.01

// placementNotes has a note on the prefix hits that a gateway's choice of instances cost.
func placementNotes(s *metrics.Summary) metrics.Notes {
	o := s.Routing
	if o == nil || o.Actual == nil || len(s.Instances.Parts) != o.Instances {
		return nil
	}
	best := o.Of(route.PrefixName)
	bounded := o.Of(route.PrefixBoundedName)
	if max(best.HitRatio, bounded.HitRatio)-o.Actual.HitRatio < costlyPlacement {
		return nil
	}
	return metrics.NotesOf(
		"placement_cost",
		"the gateway's placement on %s can reach %s prefix hits at best, a greedy prefix-aware router %s (%s "+
			"within %g times the mean load), one cache for all %s",
		format.Many(o.Instances, "instance"), format.Percent(o.Actual.HitRatio),
		format.Percent(best.HitRatio), format.Percent(bounded.HitRatio), o.LoadBound,
		format.Percent(o.OneCacheRatio),
	)
}

// answerCounts is over ok requests.
type answerCounts struct {
	Requests int64  `merge:"sum"`
	Tokens   int64  `merge:"sum"`
	First    string `merge:"first"`
}

func (c *answerCounts) add(r *record.Record) {
	if r.WrongTokens == record.None {
		return
	}
	if c.Requests == 0 {
		word := func(id int64) string {
			if id == record.None {
				return "no more"
			}
			return fmt.Sprint(id)
		}
		c.First = fmt.Sprintf("row %d, token %d of the answer, from 0: %s came, %s was told",
			r.Row, r.WrongAt, word(r.WrongGot), word(r.WrongWant))
	}
	c.Requests++
	c.Tokens += r.WrongTokens
}

// summary adds what was counted to what is known of the run. Without that, as of results on disk, answers were
// forced if some are wrong.
func (c *answerCounts) summary(known *metrics.Answers) *metrics.Answers {
	if known == nil && c.Requests == 0 {
		return nil
	}
	a := metrics.Answers{Mode: metrics.AnswersForced}
	if known != nil {
		a = *known
	}
	a.WrongRequests = c.Requests
	a.WrongTokens = c.Tokens
	a.First = c.First
	return &a
}

// answerNotes says what the answers do to hits.
func answerNotes(s *metrics.Summary) metrics.Notes {
	a := s.Answers
	if a == nil || a.Carried == 0 {
		return nil
	}
	share := "?"
	if part := stats.Ratio(a.Carried, a.Prompt); part != nil {
		share = format.Percent(*part)
	}
	carried := fmt.Sprintf("%s of earlier answers, %s of the input, are in the prompts of %s as recorded",
		format.Many(a.Carried, "token"), share, format.Many(a.Turns, "follow-up turn"))
	if a.Mode == metrics.AnswersForced {
		return metrics.NotesOf("answers_forced",
			"%s: the servers were told to answer them, so caches can hit them, and expected hits count them", carried)
	}
	return metrics.NotesOf("answers_free",
		"%s: the servers answered in their own words, so no cache can hit them, and expected hits leave them out "+
			"(--api vllm-generate --force-answers tells a server its answers; "+
			"--history live, for a trace with messages, carries what it answered)", carried)
}
