package metrics

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Verdict answers two questions about a run, which it never mixes. Was the load right and the measurement sound? Did
// the run meet what the user wanted of the server? Failures of the server are a result, and in Requests.Failures.
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
	Code  Code   `json:"code"`  // names the rule: drift, prompts, warm, …
	Grade Grade  `json:"grade"` // limited or invalid: what it makes of the measurement
	What  string `json:"what"`  // what happened, with its effect in the reader's unit
	Why   string `json:"why"`   // the cause, as far as it is known
	Do    string `json:"do"`    // the remedy that fits the flags of the run
}

// String is the reason in one sentence.
func (r Reason) String() string {
	return strings.Join(format.Present(r.What, r.Why, r.Do), ": ")
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

	TooFew bool `json:"too_few_values,omitempty"` // it is a percentile of too few values to be known
	// as many values would tell whether it is met, which these do not; absent if they do
	Needed int64 `json:"needed_values,omitempty"`
	// how far the client may have moved value, in ms; absent if it is safe
	EffectMS float64 `json:"effect_ms,omitempty"`
	Unsure   bool    `json:"unsure,omitempty"` // that can change met
	// why it is missed whatever value is, since --abort-if ended the run; absent otherwise
	Aborted string `json:"aborted,omitempty"`
}

// Missed is how many objectives were not met.
func (v *Verdict) Missed() (n int) {
	for i := range v.Objectives {
		if o := &v.Objectives[i]; !o.Met && o.Needed == 0 {
			n++
		}
	}
	return n
}

// Undecided is how many objectives have too few values to be met or missed.
func (v *Verdict) Undecided() (n int) {
	for i := range v.Objectives {
		if v.Objectives[i].Needed > 0 {
			n++
		}
	}
	return n
}

// Limits is what the user accepts and demands of a run. DefaultLimits gives the usual.
type Limits struct {
	// most that drift p99 may be (--max-drift); absent: lateness is judged by what it changes
	MaxDriftNS AsMS `json:"max_drift_ms,omitempty"`
	// most that the receive lag may be at p99 (--max-receive-lag); absent: late reads are judged by what they change
	MaxReceiveLagNS AsMS `json:"max_receive_lag_ms,omitempty"`
	// most that the share of failed requests may be, 0 to 1 (--max-error-rate); absent: any
	MaxErrorRate *float64 `json:"max_error_rate,omitempty"`
	Require      []string `json:"require,omitempty"`  // what else the user wants (--require)
	Until        string   `json:"until,omitempty"`    // when the run knows enough to end (--until)
	AbortIf      string   `json:"abort_if,omitempty"` // when it is lost (--abort-if)
	AllowWarm    bool     `json:"allow_warm"`         // hits above the ideal are accepted (--allow-warm)
	// the output length was forced, so it must be exact (not with --no-force-output)
	ForcedOutput bool `json:"forced_output"`
}

// AsMS is a time in ns that is a number of ms in JSON.
type AsMS int64

// MS is the time in ms.
func (ns AsMS) MS() float64 { return float64(ns) / 1e6 }

// MarshalJSON writes ms.
func (ns AsMS) MarshalJSON() ([]byte, error) { return json.Marshal(ns.MS()) }

// UnmarshalJSON reads ms.
func (ns *AsMS) UnmarshalJSON(text []byte) error {
	var ms float64
	err := json.Unmarshal(text, &ms)
	*ns = AsMS(math.Round(ms * 1e6))
	return err
}

// DefaultLimits returns the limits of the command line's defaults.
func DefaultLimits() Limits { return Limits{ForcedOutput: true} }

const (
	// starvedShare of all processors' time used by the client alone means that
	// readers waited for a processor.
	starvedShare = 0.95
	// warmTolerance is the share of prompt tokens that may be hit above the ideal before the cache counts as warm, if
	// no overtaking explains them. If a vocabulary is small, different prompts begin alike now and then.
	warmTolerance = 0.01
	// shortTolerance is the share of input tokens that rows shorter than the
	// template may add.
	shortTolerance = 0.01
)

// Judge returns the verdict on s by s.Limits. further are reasons that others found. It looks at nothing else, so the
// same summary always gets the same verdict.
func Judge(s *Summary, further ...Reason) Verdict {
	v := Verdict{
		Measurement: Valid,
		Reasons:     append(faults(s), further...),
		Unsafe:      []Unsafe{},
	}
	for _, r := range []*Reason{sending(s), reading(s)} {
		if r != nil {
			v.Reasons = append(v.Reasons, *r)
		}
	}
	// by name invalid comes before limited
	slices.SortStableFunc(v.Reasons, func(a, b Reason) int { return cmp.Compare(a.Grade, b.Grade) })
	if len(v.Reasons) > 0 {
		v.Measurement = v.Reasons[0].Grade
	}
	if s.Limits.MaxDriftNS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Sending...)
	}
	if s.Limits.MaxReceiveLagNS == 0 {
		v.Unsafe = append(v.Unsafe, s.Lateness.Reading...)
	}
	v.Unsafe = OnceEach(v.Unsafe)
	v.Objectives = Objectives(s, v.Unsafe)
	if len(v.Reasons) == 1 && v.Measurement == Limited && len(v.Unsafe) > 0 {
		v.Reasons[0].What += "; all else is safe"
	}
	v.Valid = v.Measurement != Invalid
	return v
}

// Drop takes out the reasons of a code, where another reason says the same.
func (v *Verdict) Drop(code Code) {
	v.Reasons = slices.DeleteFunc(v.Reasons, func(r Reason) bool { return r.Code == code })
}

// OnceEach keeps of each percentile the largest effect.
func OnceEach(all []Unsafe) []Unsafe {
	out := []Unsafe{}
	for _, u := range all {
		i := slices.IndexFunc(out, func(o Unsafe) bool {
			return o.Metric == u.Metric && o.Percentile == u.Percentile
		})
		if i < 0 {
			out = append(out, u)
		} else if u.EffectMS > out[i].EffectMS {
			out[i] = u
		}
	}
	return out
}

// faults are the reasons that make a measurement invalid, but for lateness.
func faults(s *Summary) []Reason {
	const reportBug = "please report this as a bug"
	r := &s.Requests
	t := &s.Tokens
	w := &s.Workload
	c := &s.PrefixCache
	count := format.Count[int64]
	died := s.Run.SenderDied
	usedShare := s.Client.CPUS / max(1e-9, s.Run.DurationS*float64(s.Run.Host.CPUs))
	surplus := float64(w.ShortSurplus) / max(1, float64(w.InputTokens))
	failed := ""
	hitBy := format.Requests(c.AboveIdealRequests)
	if len(r.Failures) > 0 {
		failed = count(r.Failures[0].Count) + " of them: " + r.Failures[0].Words()
	}
	if c.CountedTokens != nil {
		hitBy = "by the " + c.HitsFrom + " requests"
	}
	wrong := cmp.Or(s.Answers, &Answers{})
	aboveIdeal := c.AboveIdealTokens - c.OvertakenTokens
	out := []Reason{}
	for _, f := range []struct {
		holds         bool
		code          Code
		what, why, do string
	}{
		{died != "", SenderDied, count(r.Sent) + " of " + format.Requests(r.Planned) + " were sent", died,
			"run again, or send from threads of this process with --sender thread"},
		{s.Run.PrimerFailed != "", PrimerFailed, "nothing was measured, since the servers' caches could not be filled",
			s.Run.PrimerFailed, "see \"error\" in requests.jsonl"},
		{s.Run.Partial && died == "" && s.Run.PrimerFailed == "" && (s.Window == nil || r.Stopped > 0), Interrupted,
			"interrupted when " + count(r.Sent) + " of " + format.Requests(r.Planned) + " had been sent",
			"", ""},
		{r.OK+r.Failed+r.Stopped != r.Planned, Unaccounted,
			format.Requests(r.Planned) + " planned but " + count(r.OK+r.Failed+r.Stopped) + " recorded",
			"", reportBug},
		{r.Unwritten > 0, Unwritten, format.Many(r.Unwritten, "record") +
			" could not be written to disk, though this summary counts them", "",
			"make room and run again"},
		{r.OK == 0 && r.Failed > 0, NothingOK,
			"none of " + format.Requests(r.Failed) + " succeeded, so nothing was measured", failed,
			"see \"error\" in requests.jsonl"},
		{s.Connections.NoResources > 0, ClientFailures,
			format.Requests(s.Connections.NoResources) +
				" failed because this machine had no descriptor, port or memory for a connection", "",
			"raise the limit (ulimit -n, net.ipv4.ip_local_port_range), or have fewer requests in flight"},
		{r.Early > 0, SentEarly, format.Requests(r.Early) + " sent before the planned time", "", reportBug},
		{usedShare > starvedShare && s.Run.DurationS > 0 && r.Sent > 0 &&
			s.Run.Host.CPUs > 0, Starved, "the client lacked CPU time, so its times are not the server's",
			"it used " + format.Percent(usedShare) + " of " + format.Many(s.Run.Host.CPUs, "core"),
			"give it more cores, or replay from several machines"},
		{t.PromptMismatches > 0, Prompts,
			"the server counted other prompt tokens than were sent in " + count(t.PromptMismatches) +
				" of " + format.Requests(r.OK),
			"its chat template is not constant, or its tokenizer splits our words", "see the notes and --tokenizer"},
		{float64(w.ShortSurplus) > shortTolerance*float64(w.InputTokens), ShortRows,
			format.Many(w.ShortRows, "row") + " got " + format.Many(w.ShortSurplus, "prompt token") +
				" more than recorded, " + format.Percent(surplus) + " of all",
			"they are no longer than what the server adds to a prompt", "use --api completions, or leave them out"},
		{wrong.WrongRequests > 0, WrongAnswers,
			"the servers made other tokens than they were told in " + count(wrong.WrongRequests) +
				" of " + format.Requests(r.OK) + ", " + format.Many(wrong.WrongTokens, "token") +
				" in all",
			wrong.First, "serve without speculative decoding, or leave out --force-answers"},
		{t.CutShort > 0 && s.Limits.ForcedOutput, CutShort,
			count(t.CutShort) + " of " + format.Many(r.OK, "completion") + " ended short of the recorded length",
			"the server ignores min_tokens and ignore_eos, or its context is too small",
			"serve with a larger context, or accept it with --no-force-output"},
		{float64(aboveIdeal) > warmTolerance*float64(t.Prompt) &&
			!s.Limits.AllowWarm, Warm,
			"the cache was warm, " + hitBy + " hit " + format.Many(aboveIdeal, "token") +
				" more than an ideal cold cache could", "",
			"use --cold flush or salt, restart the server, or accept it with --allow-warm"},
		{w.RefusedRows > 0, Refused,
			format.Many(w.RefusedRows, "row") + " of the selection could not be replayed", "",
			"see the notes on the trace"},
	} {
		if f.holds {
			out = append(out, Reason{f.code, Invalid, f.what, f.why, f.do})
		}
	}
	return out
}
