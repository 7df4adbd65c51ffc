package metrics

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// perChunkTolerance is how far the mean of tokens per chunk may be from 1
// before the notes say so.
const perChunkTolerance = 0.005

// notes says what a reader of the numbers should know, a sentence each.
func notes(s *Summary, all *series, targets []series, urls []string, probed Probed) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for o, f := range all.failures {
		if f.text != "" && !((s.Run.Partial || s.Run.Cut) && stopped(record.Outcome(o))) {
			say("%s, for example row %d: %s", record.Outcome(o), f.row, quote(f.text))
		}
	}
	if cut, unsent := s.Requests.ByOutcome[record.Cancelled.String()], s.Requests.ByOutcome[record.NotSent.String()]-s.Workload.LeftOut; s.Run.Cut && cut+unsent > 0 {
		say("%s cut and %s never sent, for the run's time was over: the verdict does not count them as failed", requests(cut), format.Count(unsent))
	}
	if p := s.Tokens.PerChunk; p != nil && math.Abs(*p-1) > perChunkTolerance {
		say("a chunk carries %.2f tokens on average: ITL is per chunk, TPOT per token", *p)
	}
	if t := all.tokens; t.promptMismatches > 0 {
		say("row %d is the first whose prompt tokens differ: %s sent, %s counted",
			t.mismatchRow, format.Count(t.mismatchWant), format.Count(t.mismatchGot))
	}
	if s.Tokens.FromChunks > 0 {
		say("the server sent no usage in %s: their completion tokens are counted chunks", requests(s.Tokens.FromChunks))
	}
	if s.Tokens.OverLong > 0 {
		say("%s longer than recorded", format.Many(s.Tokens.OverLong, "completion"))
	}
	if s.Tokens.CutShort > 0 && !s.Limits.ForcedOutput {
		say("%s shorter than recorded, for the output length was not forced", format.Many(s.Tokens.CutShort, "completion"))
	}
	if a := s.PrefixCache.AboveIdealRequests; a > 0 {
		say("%s hit %s above the ideal for the plan's order", requests(a), format.Many(all.cache.aboveTokens, "token"))
	}
	if k := s.Client.Stamps; k != nil && k.ClockSteps+k.Dropped > 0 {
		say("the wall clock was set %s during the run (by %s at most): %s around it not used, those instants are the reader's",
			format.Many(k.ClockSteps, "time"), format.Duration(k.StepMS*1e6, 3), format.Many(k.Dropped, "kernel timestamp"))
	}
	if n := s.Tokens.AtOnce; n > 0 {
		say("%s brought several tokens in one chunk and no other: they have no TPOT", format.Many(n, "response"))
	}
	if n := s.Tokens.SeveralChoices; n > 0 {
		say("%s brought several choices: their TPOT is by choice, their tokens and lengths are those of all", format.Many(n, "response"))
	}
	out = append(out, gatewayNotes(s, &all.gateway)...)
	out = append(out, historyNotes(s.History)...)
	out = append(out, machineNotes(s)...)
	out = append(out, unevenNotes(s)...)
	out = append(out, outageNotes(s)...)
	out = append(out, serverNotes(s)...)
	out = append(out, placementNotes(s)...)
	if n := all.cache.finer; n > 0 {
		say("%s hit more than whole blocks of the assumed size: the server reuses smaller pieces; give their size with --engine-block-tokens", requests(n))
	}
	unknown := probed.Unknown
	if probed.Unproven != "" && s.PrefixCache.HitRatio == nil {
		unknown = append(slices.Clip(unknown), Unknown{"whether the cache_salt works", probed.Unproven})
	}
	var silent, partly []string
	var untold int64
	for i := range targets {
		switch c := &targets[i].cache; {
		case c.reports > 0 && c.untold > 0:
			partly, untold = append(partly, urls[i]), untold+c.untold
		case c.reports == 0 && probed.CacheOff != nil && probed.CacheOff(i): // there are no hits to report
		case c.reports == 0 && targets[i].outcomes[record.OK] > 0 && s.Targets[i].CountedHitRatio == nil:
			silent = append(silent, urls[i])
		}
	}
	if len(partly) > 0 {
		say("%s told no usage in %s: what these hit is unknown and left out of the reported ratio", several(partly), requests(untold))
	}
	if len(silent) > 0 {
		unknown = append([]Unknown{{"hits (no cached tokens)", fmt.Sprintf("%s reports no cached tokens, so its hits are unknown: vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report, and some APIs (TGI's, Triton's, embeddings) have no such count", several(silent))}}, unknown...)
	}
	return append(out, Fold(unknown)...)
}

// several names the first of them, and says how many more there are.
func several(urls []string) string {
	if len(urls) == 1 {
		return urls[0]
	}
	return fmt.Sprintf("each of %s, such as %s,", format.Many(int64(len(urls)), "target"), urls[0])
}

// Unknown is what servers do not tell.
type Unknown struct {
	What string // in a few words, with why, and the flag that helps
	Note string // in whole sentences
}

// Fold is a note of what is unknown: in whole sentences of one thing, as a list of several.
func Fold(all []Unknown) []string {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return []string{all[0].Note}
	}
	text := "the server leaves open: "
	for i, u := range all {
		if i > 0 {
			text += ", "
		}
		text += u.What
	}
	return []string{text}
}

// stopped reports whether the end of a run ends requests so.
func stopped(o record.Outcome) bool { return o == record.Cancelled || o == record.NotSent }

// maxQuoted bounds a server's message in a note, in characters.
const maxQuoted = 200

// quote makes a message safe and short enough to print.
func quote(text string) string {
	if r := []rune(text); len(r) > maxQuoted {
		text = string(r[:maxQuoted]) + "…"
	}
	return strconv.QuoteToGraphic(text)
}
