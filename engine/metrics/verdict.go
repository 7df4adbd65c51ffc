package metrics

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Verdict answers two questions about a run, which it never mixes. Was the load right and the measurement sound? Did the
// run meet what the user wanted of the server? Failures of the server are a result, and in Requests.Failures.
type Verdict struct {
	Measurement Grade       `json:"measurement"` // valid, limited (some percentiles are not safe) or invalid
	Valid       bool        `json:"valid"`       // valid or limited: the numbers can be used, but for those of unsafe
	Reasons     []Reason    `json:"reasons"`     // why it is not valid, the gravest first; empty if it is
	Unsafe      []Unsafe    `json:"unsafe"`      // percentiles that lateness of the client may have moved
	Objectives  []Objective `json:"objectives"`  // what the user wanted
}

// Grade is how far a measurement can be used.
type Grade string

// The grades, from the best to the worst.
const (
	Valid   Grade = "valid"   // all numbers can be used
	Limited Grade = "limited" // all but some percentiles, which Unsafe has
	Invalid Grade = "invalid" // none
)

// Reason is why a measurement is not valid.
type Reason struct {
	Code  string `json:"code"`  // names the rule: drift, prompts, warm, …
	Grade Grade  `json:"grade"` // limited or invalid: what it makes of the measurement
	What  string `json:"what"`  // what happened, with its effect in the reader's unit
	Why   string `json:"why"`   // the cause, as far as it is known
	Do    string `json:"do"`    // the remedy that fits the flags of the run
}

// String is the reason in one sentence.
func (r Reason) String() string {
	text := r.What
	if r.Why != "" {
		text += ": " + r.Why
	}
	if r.Do != "" {
		text += ": " + r.Do
	}
	return text
}

// Unsafe is a percentile that lateness of the client may have moved.
type Unsafe struct {
	Metric     string  `json:"metric"`     // ttft, tpot, itl or e2e
	Percentile string  `json:"percentile"` // p50, p90, p95, p99, p999, max or mean
	ValueMS    float64 `json:"value_ms"`   // as measured
	EffectMS   float64 `json:"effect_ms"`  // how far the client may have moved it
}

// Objective is what the user wanted of a number.
type Objective struct {
	Text   string   `json:"text"`   // as given, such as ttft.p99<500ms
	Metric string   `json:"metric"` // the number that is compared, such as ttft.p99
	Value  *float64 `json:"value"`  // it, in the unit of limit; null if the run has no such number
	Limit  float64  `json:"limit"`  // what it is compared with: ms, a share or a number per second
	Met    bool     `json:"met"`    // the number is there and within the limit
}

// Missed is how many objectives were not met.
func (v *Verdict) Missed() (n int) {
	for i := range v.Objectives {
		if !v.Objectives[i].Met {
			n++
		}
	}
	return n
}

// Limits is what the verdict measures a run by. DefaultLimits gives the usual.
type Limits struct {
	MaxDriftMS      float64 `json:"max_drift_ms"`       // most that drift p99 may be (--max-drift)
	MaxReceiveLagMS float64 `json:"max_receive_lag_ms"` // most that the receive lag may be at p99 (--max-receive-lag)
	MaxErrorRate    float64 `json:"max_error_rate"`     // most that the share of failed requests may be, 0 to 1 (--max-error-rate)
	AllowWarm       bool    `json:"allow_warm"`         // hits above the ideal are accepted (--allow-warm)
	ForcedOutput    bool    `json:"forced_output"`      // the output length was forced, so it must be exact (not with --no-force-output)
}

// DefaultLimits returns the limits of the command line's defaults.
func DefaultLimits() Limits {
	return Limits{MaxDriftMS: 5, MaxReceiveLagMS: 5, MaxErrorRate: 0.01, ForcedOutput: true}
}

const (
	// starvedShare of all processors' time used by the client alone means that
	// readers waited for a processor.
	starvedShare = 0.95
	// warmTolerance is the share of prompt tokens that may be hit above the ideal before the cache counts as warm, if no
	// overtaking explains them. If a vocabulary is small, different prompts begin alike now and then.
	warmTolerance = 0.01
	// shortTolerance is the share of input tokens that rows shorter than the
	// template may add.
	shortTolerance = 0.01
)

// Judge returns the verdict on s by s.Limits. further are reasons that others found. It looks at nothing else, so the same
// summary always gets the same verdict.
func Judge(s *Summary, further ...Reason) Verdict {
	v := Verdict{Measurement: Valid, Valid: true, Reasons: []Reason{}, Unsafe: []Unsafe{}, Objectives: []Objective{}}
	for _, rule := range []struct {
		code string
		find func(*Summary) string
	}{
		{"interrupted", interrupted}, {"unaccounted", unaccounted}, {"unwritten", unwritten}, {"failed", errorRate}, {"early", early},
		{"drift", drift}, {"connections", connections}, {"receive_lag", receiveLag}, {"starved", starved}, {"prompts", prompts},
		{"short_rows", shortRows}, {"cut_short", cutShort}, {"warm", warm}, {"refused", refused},
	} {
		if text := rule.find(s); text != "" {
			what, do, _ := strings.Cut(text, ": ")
			v.Reasons = append(v.Reasons, Reason{Code: rule.code, Grade: Invalid, What: what, Do: do})
		}
	}
	v.Reasons = append(v.Reasons, further...)
	if len(v.Reasons) > 0 {
		v.Measurement, v.Valid = Invalid, false
	}
	return v
}

func interrupted(s *Summary) string {
	if !s.Run.Partial {
		return ""
	}
	if why := s.Run.SenderDied; why != "" {
		return fmt.Sprintf("%s when %s of %s had been sent; %s were not: run again, or send from threads of this process with --sender thread",
			why, format.Count(s.Requests.Sent), requests(s.Requests.Planned), format.Count(s.Requests.Planned-s.Requests.Sent))
	}
	return fmt.Sprintf("interrupted when %s of %s had been sent", format.Count(s.Requests.Sent), requests(s.Requests.Planned))
}

func unaccounted(s *Summary) string {
	recorded := s.Requests.OK + s.Requests.Failed
	if recorded == s.Requests.Planned {
		return ""
	}
	return fmt.Sprintf("%s planned but %s recorded: please report this as a bug",
		requests(s.Requests.Planned), format.Count(recorded))
}

func unwritten(s *Summary) string {
	if s.Requests.Unwritten == 0 {
		return ""
	}
	return fmt.Sprintf("%s could not be written to disk, though this summary counts them: make room and run again",
		format.Many(s.Requests.Unwritten, "record"))
}

// errorRate leaves out what the user left out, what the user's own interruption ended, or the end that the user gave the run.
func errorRate(s *Summary) string {
	byUser := s.Workload.LeftOut
	if s.Run.Partial || s.Run.Cut {
		byUser = s.Requests.ByOutcome[record.Cancelled.String()] + s.Requests.ByOutcome[record.NotSent.String()]
	}
	planned, failed := s.Requests.Planned-byUser, s.Requests.Failed-byUser
	switch {
	case planned <= 0:
		return ""
	case failed == planned:
		return fmt.Sprintf("none of %s succeeded: see the outcomes, and \"error\" in requests.jsonl", requests(planned))
	case float64(failed) > s.Limits.MaxErrorRate*float64(planned):
		return fmt.Sprintf("%s of %s failed (%s, limit %s): see the outcomes, or allow it with --max-error-rate",
			format.Count(failed), requests(planned), format.Percent(float64(failed)/float64(planned)), format.Percent(s.Limits.MaxErrorRate))
	}
	return ""
}

func early(s *Summary) string {
	if s.Requests.Early == 0 {
		return ""
	}
	return fmt.Sprintf("%s sent before the planned time: please report this as a bug", requests(s.Requests.Early))
}

func drift(s *Summary) string {
	if s.DriftUS == nil || s.DriftUS.P99 <= s.Limits.MaxDriftMS*1e3 {
		return ""
	}
	return fmt.Sprintf("drift p99 is %s, above --max-drift %g ms (%s of %s left later than that): %s",
		format.Duration(s.DriftUS.P99*1e3, 4), s.Limits.MaxDriftMS, format.Count(s.Requests.Late), requests(s.Requests.Sent), whyDrift(s))
}

func connections(s *Summary) string {
	if s.Connections.NotReady == 0 {
		return ""
	}
	return fmt.Sprintf("%s had no open connection at the planned time (longest wait %s): check whether the server accepts slowly, the client lacks cores, or the descriptor limit is low",
		requests(s.Connections.NotReady), format.Duration(s.Connections.MaxWaitMS*1e6, 3))
}

func receiveLag(s *Summary) string {
	lag := s.Client.ReceiveLagUS
	if lag == nil || lag.P99 <= s.Limits.MaxReceiveLagMS*1e3 {
		return ""
	}
	return fmt.Sprintf("the client read responses late: p99 %s after the kernel received them (limit %g ms), so separate tokens may have the same time: %s",
		format.Duration(lag.P99*1e3, 4), s.Limits.MaxReceiveLagMS, whyReadLate(s))
}

func starved(s *Summary) string {
	capacity := s.Run.DurationS * float64(s.Run.Host.CPUs)
	if capacity <= 0 || s.Client.CPUS <= starvedShare*capacity {
		return ""
	}
	return fmt.Sprintf("the client lacked CPU time: it used %s of %s: give it more cores, or replay from several machines",
		format.Percent(s.Client.CPUS/capacity), format.Many(int64(s.Run.Host.CPUs), "core"))
}

func prompts(s *Summary) string {
	if s.Tokens.PromptMismatches == 0 {
		return ""
	}
	return fmt.Sprintf("the server counted other prompt tokens than were sent in %s of %s: its chat template is not constant, or its tokenizer splits our words; see the notes and --tokenizer",
		format.Count(s.Tokens.PromptMismatches), requests(s.Requests.OK))
}

func shortRows(s *Summary) string {
	surplus, recorded := s.Workload.ShortSurplus, s.Workload.InputTokens
	if float64(surplus) <= shortTolerance*float64(recorded) {
		return ""
	}
	return fmt.Sprintf("%s (no longer than what the server adds to a prompt) got %s more than recorded, %s of all: use --api completions, or leave them out",
		format.Many(s.Workload.ShortRows, "row"), format.Many(surplus, "prompt token"), format.Percent(float64(surplus)/float64(recorded)))
}

func cutShort(s *Summary) string {
	if s.Tokens.CutShort == 0 || !s.Limits.ForcedOutput {
		return ""
	}
	return fmt.Sprintf("%s of %s ended short of the recorded length: the server ignores min_tokens and ignore_eos, or its context is too small",
		format.Count(s.Tokens.CutShort), format.Many(s.Requests.OK, "completion"))
}

func warm(s *Summary) string {
	above := s.PrefixCache.AboveIdealTokens - s.PrefixCache.OvertakenTokens
	if s.Limits.AllowWarm || float64(above) <= warmTolerance*float64(s.Tokens.Prompt) {
		return ""
	}
	who := requests(s.PrefixCache.AboveIdealRequests)
	if s.PrefixCache.CountedTokens != nil {
		who = "by the " + s.PrefixCache.HitsFrom + " requests"
	}
	return fmt.Sprintf("the cache was warm, %s hit %s more than an ideal cold cache could: use --cold flush or salt, restart the server, or --allow-warm",
		who, format.Many(above, "token"))
}

func refused(s *Summary) string {
	if s.Workload.RefusedRows == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the selection could not be replayed: see the notes on the trace", format.Many(s.Workload.RefusedRows, "row"))
}

func requests(n int64) string { return format.Many(n, "request") }
