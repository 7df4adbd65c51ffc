package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
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
	Percentile string  `json:"percentile"` // p50, p75, p90, p95, p99, p999, max or mean
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

	TooFew bool `json:"too_few_values,omitempty"` // it is a percentile, or a share, of too few values to be known
	// as many values would tell whether it is met, which these do not; absent if they do
	Needed int64 `json:"needed_values,omitempty"`
	// why value does not tell whether it is met, though it has enough values; absent if it does
	Doubt string `json:"doubt,omitempty"`
	// how far the client may have moved value, in ms; absent if it is safe
	EffectMS float64 `json:"effect_ms,omitempty"`
	Unsure   bool    `json:"unsure,omitempty"` // that can change met
	// why it is missed whatever value is, since --abort-if ended the run; absent otherwise
	Aborted string `json:"aborted,omitempty"`
}

// Missed is how many objectives were not met.
func (v *Verdict) Missed() (n int) {
	for i := range v.Objectives {
		if o := &v.Objectives[i]; !o.Met && !o.Undecided() {
			n++
		}
	}
	return n
}

// Undecided reports whether it is neither met nor missed.
func (o *Objective) Undecided() bool { return o.Needed > 0 || o.Doubt != "" }

// Undecided is how many objectives are neither met nor missed.
func (v *Verdict) Undecided() (n int) {
	for i := range v.Objectives {
		if v.Objectives[i].Undecided() {
			n++
		}
	}
	return n
}

// Limits is what the user accepts and demands of a run. DefaultLimits gives the usual.
type Limits struct {
	// most that drift p99 may be (--max-drift); absent: lateness is judged by what it changes
	MaxDriftNS MSInJSON `json:"max_drift_ms,omitempty"`
	// most that the receive lag may be at p99 (--max-receive-lag); absent: late reads are judged by what they change
	MaxReceiveLagNS MSInJSON `json:"max_receive_lag_ms,omitempty"`
	// most that the share of failed requests may be, 0 to 1 (--max-error-rate); absent: any
	MaxErrorRate *float64 `json:"max_error_rate,omitempty"`
	Require      []string `json:"require,omitempty"`  // what else the user wants (--require)
	Until        string   `json:"until,omitempty"`    // when the run knows enough to end (--until)
	AbortIf      string   `json:"abort_if,omitempty"` // when it is lost (--abort-if)
	AllowWarm    bool     `json:"allow_warm"`         // hits above the ideal are accepted (--allow-warm)
	// the output length was forced, so it must be exact (not with --no-force-output)
	ForcedOutput bool `json:"forced_output"`
}

// MSInJSON is a time in ns that is a number of ms in JSON.
type MSInJSON int64

// MS is the time in ms.
func (ns MSInJSON) MS() float64 { return float64(ns) / 1e6 }

// MarshalJSON writes ms.
func (ns MSInJSON) MarshalJSON() ([]byte, error) { return json.Marshal(ns.MS()) }

// UnmarshalJSON reads ms.
func (ns *MSInJSON) UnmarshalJSON(text []byte) error {
	var ms float64
	err := json.Unmarshal(text, &ms)
	*ns = MSInJSON(math.Round(ms * 1e6))
	return err
}

// DefaultLimits returns the limits of the command line's defaults.
func DefaultLimits() Limits { return Limits{ForcedOutput: true} }

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

// LateReadGap is a gap between token chunks that a late read may have changed, in ns. It is as measured, and as if what
// was found together had come evenly.
type LateReadGap struct{ NS, LikelyNS int64 }

// What lateness of the client may change before a percentile counts as unsafe, and a load as another one. Two runs of
// the same load on the same server differ by some 5 % in their percentiles, so less than that cannot be seen. Below 1
// ms a request, and 0.1 ms a token, differ by the event loops and networks between two programs.
const (
	ToleratedShare = 0.05      // of a percentile's value, of the median E2E, and of the time of a closed loop's slots
	ToleratedNS    = 1_000_000 // of TTFT and E2E
	toleratedTokNS = 100_000   // of TPOT and ITL
)

// Lateness is how late the client was, and what that may have changed.
type Lateness struct {
	// from one planned instant to the next; null in a closed loop, and below two requests
	MeanGapMS *float64 `json:"mean_gap_ms" merge:"records"`
	// requests that left later than this count as displaced: the mean gap, 5 % of the median E2E or 1 ms, whichever is
	// most
	DisplacedMS float64 `json:"displaced_after_ms" merge:"records"`
	// requests; above a tenth of those sent the load was another one
	Displaced int64 `json:"displaced" merge:"records"`
	// requests that may have taken over 1 ms longer, since others left late and the servers took longer with more in
	// flight
	Behind int64 `json:"behind" merge:"records"`
	// of a closed loop: the share of its slots' time from the end of a request until the next one left; null otherwise
	SlotsLostShare *float64 `json:"slots_lost_share" merge:"records"`
	// percentiles that differ by more than 5 % (and 1 ms; of TPOT 0.1 ms). They do if counted from the planned
	// instants, or if nobody had waited behind late requests
	Sending []Unsafe `json:"sending" merge:"records"`
	// percentiles that late reads may have moved by more than 5 % (and 1 ms; of TPOT and ITL 0.1 ms)
	Reading []Unsafe `json:"reading" merge:"union"`
}

// Clients is how many clients the facts of s.Client are of: shards whose runs came to their end, or one.
func (s *Summary) Clients() (n int64) {
	for i := range s.Shards {
		if s.Shards[i].State == ShardWhole {
			n++
		}
	}
	return max(1, n)
}

// ThrottledShare is the share of the run's time for which a CPU limit stopped the client, of several the mean; 0 if
// that is unknown.
func (s *Summary) ThrottledShare() float64 {
	whole := s.Run.DurationS * float64(s.Clients())
	if whole <= 0 {
		return 0
	}
	return stats.OrZero(s.Client.ThrottledS) / whole
}
