package metrics

import (
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// A latency is declared in this file alone. It has a place in the order, a row of the table, and a field in each struct
// of results with it. All else ranges over the table: results, screens, pages, live metrics, --goodput, --require,
// comparisons, capacity.

// The latencies, in the order of result files.
const (
	Drift = iota
	TTFT
	TTFTPlanned
	TTFO
	TTFOPlanned
	TPOT
	NTPOT
	ITL
	E2E
	E2EPlanned
	WireDrift
	Upload

	NumLatencies // how many there are
)

// Latency is a time that requests take, and how results and people call it.
type Latency struct {
	Key     string   // in flags and, with its unit, in result files
	Label   string   // for people
	Long    string   // for people, where there is room; "" = Label
	Title   string   // of its graph; "" = Label
	Aliases []string // what other tools call the same: from the same instant on, in the same unit

	// Of is the latency of a request in ns, or record.None. It is nil of ITL, of which a request has many.
	Of       func(*record.Record) int64
	OfSent   bool // failed requests that were sent have it, too
	OfStream bool // only answers that come in parts have it
	Bounded  bool // --goodput, comparisons and capacity take it: it is one number of a request that ended ok

	Shown Shown // where people see it
	// Twin is the key of the latency that it equals as a rule. People see it only if it does not.
	Twin     string
	Compared []string // the numbers of it that a comparison shows on one screen
	LiveName string   // of its histogram on the page for Prometheus; "" = it is not shown live
	LiveHelp string   // what the page says of it

	// Planned is the key of the same latency from the planned instant on; "" = none is known, and late sending is not
	// judged.
	Planned     string
	ToleratedNS int64 // how much the client may change it before that counts; 0 = late reading is not judged
	PerToken    bool  // a delay of the whole answer changes it by the share of a token
	// LateRead is by how many ns a late read may have changed it; nil = records do not show that.
	LateRead func(*record.Record) (less, more int64)
}

// Shown is where people see a latency.
type Shown int

// The places where people see latencies. The page has all of the screen, too.
const (
	InFiles Shown = iota // in result files alone, and where all of summary.json is printed
	OnPage
	OnScreen
)

// latencies is the table, which nobody changes.
var latencies = [NumLatencies]Latency{
	Drift: {
		Key:      "drift",
		Label:    "drift",
		Of:       (*record.Record).DriftNS,
		OfSent:   true,
		Shown:    OnPage,
		LiveName: "request_lateness_seconds",
		LiveHelp: "How long after its planned time each request was sent.",
	},
	TTFT: {
		Key:         "ttft",
		Label:       "TTFT",
		Aliases:     []string{"time_to_first_token"},
		Of:          (*record.Record).TTFTNS,
		OfStream:    true,
		Bounded:     true,
		Shown:       OnScreen,
		Compared:    []string{"p50", "p95", "p99", "paired"},
		LiveName:    "time_to_first_token_seconds",
		LiveHelp:    "From sending to the first token, of requests that ended ok.",
		Planned:     "ttft_planned",
		ToleratedNS: ToleratedNS,
		LateRead:    firstToken,
	},
	TTFTPlanned: {
		Key:      "ttft_planned",
		Label:    "TTFT planned",
		Long:     "TTFT from the planned time",
		Of:       (*record.Record).TTFTPlannedNS,
		OfStream: true,
		Bounded:  true,
		Shown:    OnPage,
		Twin:     "ttft",
	},
	TTFO: {
		Key:         "ttfo",
		Label:       "TTFO",
		Title:       "TTFO: the first token after the reasoning",
		Aliases:     []string{"time_to_first_output_token"},
		Of:          (*record.Record).TTFONS,
		OfStream:    true,
		Bounded:     true,
		Shown:       OnScreen,
		Twin:        "ttft",
		Compared:    []string{"p50", "p95", "p99", "paired"},
		Planned:     "ttfo_planned",
		ToleratedNS: ToleratedNS,
		LateRead:    firstOutput,
	},
	TTFOPlanned: {
		Key:      "ttfo_planned",
		Label:    "TTFO planned",
		Long:     "TTFO from the planned time",
		Of:       (*record.Record).TTFOPlannedNS,
		OfStream: true,
		Bounded:  true,
		Shown:    OnPage,
		Twin:     "ttfo",
	},
	TPOT: {
		Key:         "tpot",
		Label:       "TPOT",
		Aliases:     []string{"inter_token_latency"}, // AIPerf's is (request_latency - ttft) / (tokens - 1)
		Of:          (*record.Record).TPOTNS,
		OfStream:    true,
		Bounded:     true,
		Shown:       OnScreen,
		Compared:    []string{"p50", "p95", "p99", "paired"},
		LiveName:    "time_per_output_token_seconds",
		LiveHelp:    "Time for each token after the first, of requests that ended ok.",
		ToleratedNS: toleratedTokNS,
		LateRead:    eachToken,
		PerToken:    true,
	},
	NTPOT: {
		Key:     "ntpot",
		Label:   "NTPOT",
		Long:    "NTPOT: E2E by output tokens",
		Aliases: []string{"normalized_time_per_output_token"}, // inference-perf's
		Of: func(r *record.Record) int64 {
			return PerOutputToken(r.E2ENS(), r.CompletionTokens)
		},
		Bounded:     true,
		Shown:       OnPage,
		ToleratedNS: toleratedTokNS,
		LateRead: func(r *record.Record) (less, more int64) {
			return max(0, r.LastSlackNS) / max(1, r.CompletionTokens), 0
		},
	},
	ITL: {
		Key:         "itl",
		Label:       "ITL",
		Title:       "ITL: gaps between token chunks",
		OfStream:    true,
		Shown:       OnScreen,
		ToleratedNS: toleratedTokNS,
	},
	E2E: {
		Key:         "e2e",
		Label:       "E2E",
		Aliases:     []string{"e2el", "request_latency"},
		Of:          (*record.Record).E2ENS,
		Bounded:     true,
		Shown:       OnScreen,
		Compared:    []string{"p95", "paired"},
		LiveName:    "e2e_request_latency_seconds",
		LiveHelp:    "From sending to the last token, of requests that ended ok.",
		Planned:     "e2e_planned",
		ToleratedNS: ToleratedNS,
		LateRead:    lastToken,
	},
	E2EPlanned: {
		Key:     "e2e_planned",
		Label:   "E2E planned",
		Long:    "E2E from the planned time",
		Of:      (*record.Record).E2EPlannedNS,
		Bounded: true,
		Shown:   OnPage,
		Twin:    "e2e",
	},
	WireDrift: {
		Key:    "wire_drift",
		Label:  "wire drift",
		Of:     (*record.Record).WireDriftNS,
		OfSent: true,
	},
	Upload: {Key: "upload", Label: "upload", Of: (*record.Record).UploadNS},
}

// RunLatencies are the distributions of a run.
type RunLatencies struct {
	// sent - planned of every request that was sent: how late the client was; never clamped
	DriftUS *stats.Percentiles `json:"drift_us"`
	// time to first token: first token chunk - sent; like all latencies below of ok requests alone
	TTFTMS *stats.Percentiles `json:"ttft_ms"`
	// first token chunk - planned, so that no lateness of the client is left out
	TTFTPlannedMS *stats.Percentiles `json:"ttft_planned_ms"`
	// time to first output token: first token chunk of the answer itself, after the reasoning, - sent; without
	// reasoning as ttft_ms
	TTFOMS        *stats.Percentiles `json:"ttfo_ms"`
	TTFOPlannedMS *stats.Percentiles `json:"ttfo_planned_ms"` // the same - planned
	// time per output token after the first: (last token - first token) / (completion tokens - 1)
	TPOTMS *stats.Percentiles `json:"tpot_ms"`
	// normalised time per output token: e2e_ms / completion tokens of requests that have any
	NTPOTMS      *stats.Percentiles `json:"ntpot_ms"`
	ITLMS        *stats.Percentiles `json:"itl_ms"`         // gaps between token chunks; counted in a histogram
	E2EMS        *stats.Percentiles `json:"e2e_ms"`         // last token - sent
	E2EPlannedMS *stats.Percentiles `json:"e2e_planned_ms"` // last token - planned
	// departed - planned, by the kernel's stamps; only with --kernel-timestamps sent
	WireDriftUS *stats.Percentiles `json:"wire_drift_us"`
	// acked - sent, by the kernel's stamps; only with --kernel-timestamps sent
	UploadMS *stats.Percentiles `json:"upload_ms"`
}

// TargetLatencies are those of a target.
type TargetLatencies struct {
	DriftUS *stats.Percentiles `json:"drift_us"` // as that of the run
	TTFTMS  *stats.Percentiles `json:"ttft_ms"`  // as that of the run
	TTFOMS  *stats.Percentiles `json:"ttfo_ms"`  // as that of the run
	TPOTMS  *stats.Percentiles `json:"tpot_ms"`  // as that of the run
	ITLMS   *stats.Percentiles `json:"itl_ms"`   // as that of the run
	E2EMS   *stats.Percentiles `json:"e2e_ms"`   // as that of the run
}

// PartLatencies are those of an instance, an address, or requests of one depth or conversation.
type PartLatencies struct {
	TTFTMS *stats.Percentiles `json:"ttft_ms"` // as that of the run
	TPOTMS *stats.Percentiles `json:"tpot_ms"` // as that of the run
	E2EMS  *stats.Percentiles `json:"e2e_ms"`  // as that of the run
}

// StepLatencies are those of the requests that were sent within a step of time.
type StepLatencies struct {
	DriftP99 *float64 `json:"drift_p99_us"` // of the step's requests that were sent, by nearest rank; null without any
	TTFTP50  *float64 `json:"ttft_p50_ms"`  // of the step's ok requests: median, by nearest rank; null without any
	TTFTP99  *float64 `json:"ttft_p99_ms"`  // of the step's ok requests: 99th percentile; null without any
	TTFOP50  *float64 `json:"ttfo_p50_ms"`  // of the step's ok requests: median; null without any
	TTFOP99  *float64 `json:"ttfo_p99_ms"`  // of the step's ok requests: 99th percentile; null without any
	TPOTP50  *float64 `json:"tpot_p50_ms"`  // of the step's ok requests: median; null without any
	TPOTP99  *float64 `json:"tpot_p99_ms"`  // of the step's ok requests: 99th percentile; null without any
	E2EP50   *float64 `json:"e2e_p50_ms"`   // of the step's ok requests: median; null without any
	E2EP99   *float64 `json:"e2e_p99_ms"`   // of the step's ok requests: 99th percentile; null without any
}

func firstToken(r *record.Record) (less, more int64) { return max(0, r.FirstSlackNS), 0 }

func firstOutput(r *record.Record) (less, more int64) { return max(0, r.OutputSlackNS), 0 }

func lastToken(r *record.Record) (less, more int64) { return max(0, r.LastSlackNS), 0 }

func eachToken(r *record.Record) (less, more int64) {
	tokens := max(1, r.CompletionTokens-1)
	return max(0, r.LastSlackNS) / tokens, max(0, r.FirstSlackNS) / tokens
}

// PerOutputToken is the share of so many ns that each output token has, rounded to the nearest. It is record.None
// without any.
func PerOutputToken(ns, tokens int64) int64 {
	if ns == record.None || tokens < 1 {
		return record.None
	}
	return (ns + tokens/2) / tokens
}

// Latencies returns the table, in the order of result files. It is not to be changed.
func Latencies() []Latency { return latencies[:] }

// BoundedLatencies are those of the table that are one number of a request, with their places.
func BoundedLatencies() iter.Seq2[int, *Latency] {
	return func(yield func(int, *Latency) bool) {
		for i := range latencies {
			if latencies[i].Bounded && !yield(i, &latencies[i]) {
				return
			}
		}
	}
}

// FindLatency returns the place of a latency in the table by its key, or by an alias of other tools. It is below 0 if
// there is none.
func FindLatency(name string) int {
	return slices.IndexFunc(latencies[:], func(l Latency) bool {
		return l.Key == name || slices.Contains(l.Aliases, name)
	})
}

// PercentileOf are the parts of a name such as ttft.p95, which is 950; 0 if it is no percentile.
func PercentileOf(name string) (latency string, perMille int64) {
	latency, percentile, _ := strings.Cut(name, ".")
	return latency, stats.PerMille(percentile)
}

// resultField is a field of results that has a number of a latency, or all of its percentiles.
type resultField struct {
	index    int // in the struct
	latency  int
	permille int64   // which number; 0 = all
	unitNS   float64 // of the number
}

// resultFields are the fields of T whose keys, such as ttft_ms and ttft_p99_ms, name a latency of the table.
func resultFields[T any]() (fields []resultField) {
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		key := of.Field(i).Tag.Get("json")
		name := key[:len(key)-3]
		unit := key[len(key)-3:]
		f := resultField{index: i, unitNS: map[string]float64{"_us": 1e3, "_ms": 1e6}[unit]}
		if at := strings.LastIndex(name, "_p"); of.Field(i).Type == reflect.TypeFor[*float64]() {
			percent, err := strconv.ParseInt(name[at+2:], 10, 64)
			if err != nil {
				panic("BUG: metrics: no percentile in the key " + key)
			}
			name = name[:at]
			f.permille = 10 * percent
		}
		if f.latency = FindLatency(name); f.latency < 0 || f.unitNS == 0 {
			panic("BUG: metrics: no latency has the key " + key)
		}
		fields = append(fields, f)
	}
	return fields
}

// set sets a field of *to, which is of the type that the field is of.
func (f *resultField) set(to any, d *stats.Distribution) {
	var number any = d.Percentiles(f.unitNS)
	if f.permille > 0 {
		number = d.At(f.permille, f.unitNS)
	}
	reflect.ValueOf(to).Elem().Field(f.index).Set(reflect.ValueOf(number))
}

// The fields of results, which nobody changes.
var (
	runFields    = resultFields[RunLatencies]()
	targetFields = resultFields[TargetLatencies]()
	partFields   = resultFields[PartLatencies]()
	stepFields   = resultFields[StepLatencies]()
)

// LatenciesIn are the places in the table of those that T has, which is one of the structs of results.
func LatenciesIn[T any]() (places []int) {
	for _, f := range resultFields[T]() {
		places = append(places, f.latency)
	}
	return slices.Compact(places)
}

// LatencyStats are the distributions of all latencies.
type LatencyStats [NumLatencies]stats.Distribution

// Add counts a request.
func (s *LatencyStats) Add(r *record.Record) {
	for i := range latencies {
		l := &latencies[i]
		if l.Of == nil || !l.OfSent && r.Outcome != record.OK {
			continue
		}
		if ns := l.Of(r); ns != record.None {
			s[i].Add(ns)
		}
	}
}

// Fill sets the fields of *to, which is one of the structs of results.
func (s *LatencyStats) Fill(to any) {
	var fields []resultField
	switch to.(type) {
	case *RunLatencies:
		fields = runFields
	case *TargetLatencies:
		fields = targetFields
	case *PartLatencies:
		fields = partFields
	case *StepLatencies:
		fields = stepFields
	}
	for i := range fields {
		fields[i].set(to, &s[fields[i].latency])
	}
}

// Latency returns the percentiles of a latency, in units of unitNS; nil if s has none.
func (s *Summary) Latency(latency int) (q *stats.Percentiles, unitNS float64) {
	i := slices.IndexFunc(runFields, func(f resultField) bool { return f.latency == latency })
	if i < 0 {
		return nil, 0
	}
	f := &runFields[i]
	return reflect.ValueOf(&s.RunLatencies).Elem().Field(f.index).Interface().(*stats.Percentiles), f.unitNS
}

// likeTwin is how far the p99 of a latency may be from that of its twin before people see it.
const likeTwin = 0.05

// LikeTwin reports whether a latency has a twin and says no more than it, so that people need not see it.
func (s *Summary) LikeTwin(latency int) bool {
	of := FindLatency(latencies[latency].Twin)
	if of < 0 {
		return false
	}
	q, _ := s.Latency(latency)
	twin, _ := s.Latency(of)
	return q == nil || twin != nil && math.Abs(q.P99-twin.P99) <= likeTwin*twin.P99
}

// Percentile returns a percentile of a latency in the unit of its key, which is ms of all but drift; nil if s has none.
func (s *StepLatencies) Percentile(latency int, permille int64) *float64 {
	i := slices.IndexFunc(stepFields, func(f resultField) bool {
		return f.latency == latency && f.permille == permille
	})
	if i < 0 {
		return nil
	}
	return reflect.ValueOf(s).Elem().Field(stepFields[i].index).Interface().(*float64)
}
