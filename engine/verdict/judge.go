// Package verdict judges a metrics.Summary: whether the load was right and the measurement sound, and whether the run
// met what the user wanted of it.
//
// It looks at nothing but the summary, so the same summary always gets the same verdict. Functions are pure and may be
// called from anywhere.
//
// The package is not an API: any release may change it.
package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

const (
	// starvedShare of all processors' time used by the client alone means that
	// readers waited for a processor.
	starvedShare = 0.95
	// starvedS is how long a run must take for that. Processor time has that of its start and end, too: 20 ms of one
	// request on 2 cores, of which a run of 3 ms has 6.
	starvedS = 1
	// warmTolerance is the share of prompt tokens that may be hit above the ideal before the cache counts as warm, if
	// no overtaking explains them. If a vocabulary is small, different prompts begin alike now and then.
	warmTolerance = 0.01
	// shortTolerance is the share of input tokens that rows shorter than the
	// template may add.
	shortTolerance = 0.01
	// longTolerance is the share of completion tokens that may be more than were asked for, beside one of each answer.
	// Some servers count its end, too.
	longTolerance = 0.01
)

// Judge returns the verdict on s by s.Limits. further are reasons that others found. It looks at nothing else, so the
// same summary always gets the same verdict.
func Judge(s *metrics.Summary, further ...metrics.Reason) metrics.Verdict {
	v := metrics.Verdict{
		Measurement: metrics.Valid,
		Reasons:     append(faults(s), further...),
		Unsafe:      []metrics.Unsafe{},
	}
	for _, r := range []*metrics.Reason{
		starved(s), mixed(s), emptyFirst(s), uncounted(s), unfilled(s), sending(s), reading(s),
	} {
		if r != nil {
			v.Reasons = append(v.Reasons, *r)
		}
	}
	// by name invalid comes before limited
	slices.SortStableFunc(v.Reasons, func(a, b metrics.Reason) int { return cmp.Compare(a.Grade, b.Grade) })
	if len(v.Reasons) > 0 {
		v.Measurement = v.Reasons[0].Grade
	}
	if s.Limits.MaxDriftNS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Sending...)
	}
	if s.Limits.MaxReceiveLagNS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Reading...)
	}
	v.Unsafe = metrics.OnceEach(v.Unsafe)
	v.Objectives = Objectives(s, v.Unsafe)
	if len(v.Reasons) == 1 && v.Measurement == metrics.Limited && len(v.Unsafe) > 0 {
		v.Reasons[0].What += "; all else is safe"
	}
	v.Valid = v.Measurement != metrics.Invalid
	return v
}

// faults are the reasons that make a measurement invalid, but for lateness.
func faults(s *metrics.Summary) []metrics.Reason {
	const reportBug = "please report this as a bug"
	r := &s.Requests
	t := &s.Tokens
	w := &s.Workload
	c := &s.PrefixCache
	count := format.Count[int64]
	died := s.Run.SenderDied
	tooLong := float64(t.OverLongTokens-t.OverLong) > longTolerance*float64(t.Completion)
	surplus := float64(w.ShortSurplus) / max(1, float64(w.InputTokens))
	failed := ""
	hitBy := format.Requests(c.AboveIdealRequests)
	if len(r.Failures) > 0 {
		failed = count(r.Failures[0].Count) + " of them: " + r.Failures[0].Words()
	}
	if c.CountedTokens != nil {
		hitBy = "by the " + c.HitsFrom + " requests"
	}
	wrong := cmp.Or(s.Answers, &metrics.Answers{})
	aboveIdeal := c.AboveIdealTokens - c.OvertakenTokens
	warm := "the cache was warm, " + hitBy + " hit " + format.Many(aboveIdeal, "token") +
		" more than an ideal cold cache could"
	if c.HitRatio != nil && *c.HitRatio > 1 {
		warm = "the servers count more cached tokens than their prompts have, so whether the cache was cold is unknown"
	}
	out := []metrics.Reason{}
	for _, f := range []struct {
		holds         bool
		code          metrics.Code
		what, why, do string
	}{
		{died != "", metrics.SenderDied, count(r.Sent) + " of " + format.Requests(r.Planned) + " were sent", died,
			"run again, or send from threads of this process with --sender thread"},
		{s.Run.PrimerFailed != "", metrics.PrimerFailed,
			"nothing was measured, since the servers' caches could not be filled", s.Run.PrimerFailed,
			"see \"error\" in requests.jsonl"},
		{s.Run.Partial && died == "" && s.Run.PrimerFailed == "" && (s.Window == nil || r.Stopped > 0),
			metrics.Interrupted,
			"interrupted when " + count(r.Sent) + " of " + format.Requests(r.Planned) + " had been sent",
			"", "run again, or judge the part before with fastreplay report --to TIME"},
		{r.OK+r.Failed+r.Stopped != r.Planned, metrics.Unaccounted,
			format.Requests(r.Planned) + " planned but " + count(r.OK+r.Failed+r.Stopped) + " recorded",
			"", reportBug},
		{r.Unwritten > 0, metrics.Unwritten, format.Many(r.Unwritten, "record") +
			" could not be written to disk, though this summary counts them", "",
			"make room and run again"},
		{r.OK == 0 && r.Failed > 0, metrics.NothingOK,
			"none of " + format.Requests(r.Failed) + " succeeded, so nothing was measured", failed,
			"see \"error\" in requests.jsonl"},
		{s.Connections.NoResources > 0, metrics.ClientFailures,
			format.Requests(s.Connections.NoResources) +
				" failed because this machine had no descriptor, port or memory for a connection", "",
			"raise the limit (ulimit -n, net.ipv4.ip_local_port_range), or have fewer requests in flight"},
		{r.Early > 0, metrics.SentEarly, format.Requests(r.Early) + " sent before the planned time", "", reportBug},
		{t.PromptMismatches > 0, metrics.Prompts,
			"the server counted other prompt tokens than were sent in " + count(t.PromptMismatches) +
				" of " + format.Requests(r.OK),
			"its chat template is not constant, or its tokenizer splits our words", "see the notes and --tokenizer"},
		{float64(w.ShortSurplus) > shortTolerance*float64(w.InputTokens), metrics.ShortRows,
			format.Many(w.ShortRows, "row") + " got " + format.Many(w.ShortSurplus, "prompt token") +
				" more than recorded, " + format.Percent(surplus) + " of all",
			"they are no longer than what the server adds to a prompt", "take them out of the trace"},
		{wrong.WrongRequests > 0, metrics.WrongAnswers,
			"the servers made other tokens than they were told in " + count(wrong.WrongRequests) +
				" of " + format.Requests(r.OK) + ", " + format.Many(wrong.WrongTokens, "token") +
				" in all",
			wrong.First, "serve without speculative decoding, or leave out --force-answers"},
		{t.CutShort > 0 && s.Limits.ForcedOutput, metrics.CutShort,
			count(t.CutShort) + " of " + format.Many(r.OK, "completion") + " ended short of the recorded length",
			"the server ignores min_tokens and ignore_eos, its context is too small, or its usage counts fewer " +
				"tokens than it sent",
			"serve with a larger context, or accept it with --no-force-output"},
		{tooLong && s.Limits.ForcedOutput, metrics.OverLong,
			count(t.OverLong) + " of " + format.Many(r.OK, "completion") +
				" have more tokens than max_tokens allows, " + format.Many(t.OverLongTokens, "token") + " in all",
			"the server ignores max_tokens, or its usage counts tokens that it did not send",
			"compare its usage with the text of an answer; throughput, TPOT and NTPOT rest on it. Or accept it with " +
				"--no-force-output"},
		{float64(aboveIdeal) > warmTolerance*float64(t.Prompt) &&
			!s.Limits.AllowWarm, metrics.Warm, warm, "",
			"use --cold flush or salt, another --seed, restart the server, or accept it with --allow-warm"},
		{w.RefusedRows > 0, metrics.Refused,
			format.Many(w.RefusedRows, "row") + " of the selection could not be replayed", "",
			"see the notes on the trace"},
	} {
		if f.holds {
			out = append(out, metrics.Reason{Code: f.code, Grade: metrics.Invalid, What: f.what, Why: f.why, Do: f.do})
		}
	}
	return out
}

// starved says that the client took all processor time there was, or that a short run cannot tell.
func starved(s *metrics.Summary) *metrics.Reason {
	tookS := s.Run.DurationS
	cores := s.Run.Host.CPUs
	used := s.Client.CPUS / (tookS * float64(cores))
	if tookS <= 0 || cores <= 0 || s.Requests.Sent == 0 || used <= starvedShare {
		return nil
	}
	of := format.Many(cores, "core")
	r := &metrics.Reason{
		Code:  metrics.Starved,
		Grade: metrics.Invalid,
		What:  "the client lacked CPU time, so its times are not the server's",
		Why:   "it used " + format.Percent(used) + " of " + of,
		Do:    "give it more cores, or replay from several machines",
	}
	if tookS < starvedS {
		r.Grade = metrics.Limited
		r.What = "too short to tell whether the client lacked CPU time"
		r.Why = fmt.Sprintf("with its start and end it used %s of %s in a run of %s",
			format.Seconds(s.Client.CPUS), of, format.Seconds(tookS))
		r.Do = "send more requests, or the same over a second or more"
	}
	return r
}

// unfilled says that there were fewer requests than a closed loop has slots, or fewer jobs than lanes, so that it never
// had its load. It is unknown of lanes that were to begin amid jobs, if the run ended before some went on.
func unfilled(s *metrics.Summary) *metrics.Reason {
	has := s.Requests.Planned
	wants := s.Run.Concurrency
	words := format.Requests(has) + " are too few for " + format.Many(wants, "slot")
	remedy := "lower --concurrency"
	if s.Run.Lanes > 0 && s.Jobs != nil && (s.Preparation == nil || s.Jobs.CutOff == 0) {
		has = s.Jobs.Jobs
		wants = s.Run.Lanes
		words = format.Many(has, "job") + " are too few for " + format.Many(wants, "lane")
		remedy = "take fewer lanes"
	}
	if has >= wants || s.Window != nil || s.Run.Partial {
		return nil
	}
	grade := metrics.Limited
	if float64(has) < (1-wrongSlots)*float64(wants) {
		grade = metrics.Invalid
	}
	return &metrics.Reason{
		Code:  metrics.Unfilled,
		Grade: grade,
		What:  "the load was another one: " + words,
		Do:    "give a longer trace (--repeat, --amplify), or " + remedy,
	}
}

// emptyShare of the requests must begin with an empty chunk, before TTFT as a whole is another time. A token may be
// half a character, and begins an answer now and then.
const emptyShare = 0.1

// emptyFirst says that TTFT may be the time of an empty chunk.
func emptyFirst(s *metrics.Summary) *metrics.Reason {
	n := s.Tokens.EmptyFirst
	if float64(n) <= emptyShare*float64(s.Requests.OK) {
		return nil
	}
	return &metrics.Reason{
		Code:  metrics.EmptyFirst,
		Grade: metrics.Limited,
		What:  "TTFT and TTFO may be too short, and TPOT too long",
		Why: fmt.Sprintf("in %s of %s the first chunk had no text or came sooner than a token takes, and the "+
			"server's count of tokens does not show that a token was in it", format.Count(n),
			format.Requests(s.Requests.OK)),
		Do: "see first_token_ns and first_text_ns in requests.jsonl; E2E is safe",
	}
}

// uncountedShare is of how many answers nobody may know the length. As many do not move a p99.
const uncountedShare = 0.01

// uncounted says that chunks were counted for tokens, although they have several, or answers are short.
func uncounted(s *metrics.Summary) *metrics.Reason {
	n := s.Tokens.FewerChunks
	if !s.Limits.ForcedOutput || float64(n) <= uncountedShare*float64(s.Requests.OK) {
		return nil
	}
	return &metrics.Reason{
		Code:  metrics.Uncounted,
		Grade: metrics.Limited,
		What:  "TPOT and NTPOT may be too long, and output tokens too few",
		Why: fmt.Sprintf("in %s of %s the server counted no tokens, and fewer chunks came than tokens were asked for",
			format.Count(n), format.Requests(s.Requests.OK)),
		Do: "find out why answers lack their usage; TTFT is safe",
	}
}
