package metrics

import (
	"cmp"
	"fmt"
	"slices"

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

// Limits is what the user accepts and demands of a run. DefaultLimits gives the usual.
type Limits struct {
	MaxDriftMS      float64  `json:"max_drift_ms,omitempty"`       // most that drift p99 may be (--max-drift); absent: lateness is judged by what it changes
	MaxReceiveLagMS float64  `json:"max_receive_lag_ms,omitempty"` // most that the receive lag may be at p99 (--max-receive-lag); absent: late reads are judged by what they change
	MaxErrorRate    *float64 `json:"max_error_rate,omitempty"`     // most that the share of failed requests may be, 0 to 1 (--max-error-rate); absent: any
	Require         []string `json:"require,omitempty"`            // what else the user wants (--require)
	AllowWarm       bool     `json:"allow_warm"`                   // hits above the ideal are accepted (--allow-warm)
	ForcedOutput    bool     `json:"forced_output"`                // the output length was forced, so it must be exact (not with --no-force-output)
}

// DefaultLimits returns the limits of the command line's defaults.
func DefaultLimits() Limits { return Limits{ForcedOutput: true} }

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
	v := Verdict{Measurement: Valid, Reasons: []Reason{}, Unsafe: []Unsafe{}, Objectives: Objectives(s)}
	for _, rule := range []func(*Summary) *Reason{
		interrupted, unaccounted, unwritten, nothing, ourFailures, early, starved, prompts, shortRows, cutShort, warm, refused, sending, reading,
	} {
		if r := rule(s); r != nil {
			v.Reasons = append(v.Reasons, *r)
		}
	}
	v.Reasons = append(v.Reasons, further...)
	for _, r := range v.Reasons {
		if r.Grade != Limited {
			v.Measurement = Invalid
		} else if v.Measurement == Valid {
			v.Measurement = Limited
		}
	}
	slices.SortStableFunc(v.Reasons, func(a, b Reason) int { return cmp.Compare(gravity(b), gravity(a)) })
	if s.Limits.MaxDriftMS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Sending...)
	}
	if s.Limits.MaxReceiveLagMS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Reading...)
	}
	v.Unsafe = onceEach(v.Unsafe)
	v.Valid = v.Measurement != Invalid
	return v
}

func gravity(r Reason) int {
	if r.Grade == Limited {
		return 0
	}
	return 1
}

// onceEach keeps of each percentile the largest effect.
func onceEach(all []Unsafe) []Unsafe {
	out := []Unsafe{}
	for _, u := range all {
		i := slices.IndexFunc(out, func(o Unsafe) bool { return o.Metric == u.Metric && o.Percentile == u.Percentile })
		if i < 0 {
			out = append(out, u)
		} else if u.EffectMS > out[i].EffectMS {
			out[i] = u
		}
	}
	return out
}

// invalid is a reason that makes a measurement invalid.
func invalid(code, do, what string, args ...any) *Reason {
	return &Reason{Code: code, Grade: Invalid, What: fmt.Sprintf(what, args...), Do: do}
}

// because sets the cause.
func (r *Reason) because(format string, args ...any) *Reason {
	r.Why = fmt.Sprintf(format, args...)
	return r
}

const reportBug = "please report this as a bug"

func interrupted(s *Summary) *Reason {
	if !s.Run.Partial {
		return nil
	}
	sent, planned := s.Requests.Sent, requests(s.Requests.Planned)
	if why := s.Run.SenderDied; why != "" {
		return invalid("sender_died", "run again, or send from threads of this process with --sender thread", "%s of %s were sent", format.Count(sent), planned).
			because("%s", why)
	}
	return invalid("interrupted", "", "interrupted when %s of %s had been sent", format.Count(sent), planned)
}

func unaccounted(s *Summary) *Reason {
	recorded := s.Requests.OK + s.Requests.Failed + s.Requests.Stopped
	if recorded == s.Requests.Planned {
		return nil
	}
	return invalid("unaccounted", reportBug, "%s planned but %s recorded", requests(s.Requests.Planned), format.Count(recorded))
}

func unwritten(s *Summary) *Reason {
	if s.Requests.Unwritten == 0 {
		return nil
	}
	return invalid("unwritten", "make room and run again", "%s could not be written to disk, though this summary counts them", format.Many(s.Requests.Unwritten, "record"))
}

// nothing holds if no request succeeded, so that nothing was measured.
func nothing(s *Summary) *Reason {
	failed := s.Requests.Failed
	if s.Requests.OK > 0 || failed == 0 {
		return nil
	}
	r := invalid("nothing_ok", "see \"error\" in requests.jsonl", "none of %s succeeded, so nothing was measured", requests(failed))
	if len(s.Requests.Failures) > 0 {
		f := &s.Requests.Failures[0]
		r.because("%s of them: %s", format.Count(f.Count), f.Words())
	}
	return r
}

// ourFailures are failures that the client caused itself.
func ourFailures(s *Summary) *Reason {
	n := s.Connections.NoResources
	if n == 0 {
		return nil
	}
	return invalid("client_failures", "raise the limit (ulimit -n, net.ipv4.ip_local_port_range), or have fewer requests in flight",
		"%s failed because this machine had no descriptor, port or memory for a connection", requests(n))
}

func early(s *Summary) *Reason {
	if s.Requests.Early == 0 {
		return nil
	}
	return invalid("early", reportBug, "%s sent before the planned time", requests(s.Requests.Early))
}

func starved(s *Summary) *Reason {
	capacity := s.Run.DurationS * float64(s.Run.Host.CPUs)
	if capacity <= 0 || s.Client.CPUS <= starvedShare*capacity {
		return nil
	}
	return invalid("starved", "give it more cores, or replay from several machines", "the client lacked CPU time, so its times are not the server's").
		because("it used %s of %s", format.Percent(s.Client.CPUS/capacity), format.Many(int64(s.Run.Host.CPUs), "core"))
}

func prompts(s *Summary) *Reason {
	if s.Tokens.PromptMismatches == 0 {
		return nil
	}
	return invalid("prompts", "see the notes and --tokenizer", "the server counted other prompt tokens than were sent in %s of %s",
		format.Count(s.Tokens.PromptMismatches), requests(s.Requests.OK)).because("its chat template is not constant, or its tokenizer splits our words")
}

func shortRows(s *Summary) *Reason {
	surplus, recorded := s.Workload.ShortSurplus, s.Workload.InputTokens
	if float64(surplus) <= shortTolerance*float64(recorded) {
		return nil
	}
	return invalid("short_rows", "use --api completions, or leave them out", "%s got %s more than recorded, %s of all",
		format.Many(s.Workload.ShortRows, "row"), format.Many(surplus, "prompt token"), format.Percent(float64(surplus)/float64(recorded))).
		because("they are no longer than what the server adds to a prompt")
}

func cutShort(s *Summary) *Reason {
	if s.Tokens.CutShort == 0 || !s.Limits.ForcedOutput {
		return nil
	}
	return invalid("cut_short", "serve with a larger context, or accept it with --no-force-output", "%s of %s ended short of the recorded length",
		format.Count(s.Tokens.CutShort), format.Many(s.Requests.OK, "completion")).because("the server ignores min_tokens and ignore_eos, or its context is too small")
}

func warm(s *Summary) *Reason {
	above := s.PrefixCache.AboveIdealTokens - s.PrefixCache.OvertakenTokens
	if s.Limits.AllowWarm || float64(above) <= warmTolerance*float64(s.Tokens.Prompt) {
		return nil
	}
	who := requests(s.PrefixCache.AboveIdealRequests)
	if s.PrefixCache.CountedTokens != nil {
		who = "by the " + s.PrefixCache.HitsFrom + " requests"
	}
	return invalid("warm", "use --cold flush or salt, restart the server, or accept it with --allow-warm",
		"the cache was warm, %s hit %s more than an ideal cold cache could", who, format.Many(above, "token"))
}

func refused(s *Summary) *Reason {
	if s.Workload.RefusedRows == 0 {
		return nil
	}
	return invalid("refused", "see the notes on the trace", "%s of the selection could not be replayed", format.Many(s.Workload.RefusedRows, "row"))
}

func requests(n int64) string { return format.Many(n, "request") }
