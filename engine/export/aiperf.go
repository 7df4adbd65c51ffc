package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// The shape of a line is AIPerf's: docs/tutorials/working-with-profile-exports.md, and MetricRecordInfo in
// src/aiperf/common/models/record_export_models.py.

// aiperfLine is a line of profile_export.jsonl.
type aiperfLine struct {
	Metadata aiperfMetadata         `json:"metadata"`
	Metrics  map[string]aiperfValue `json:"metrics"`
	Error    *aiperfError           `json:"error"` // null of a request that succeeded
}

type aiperfValue struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// aiperfMetadata is who, when and how. The instants are ns since 1970.
type aiperfMetadata struct {
	SessionNum     int64   `json:"session_num"` // sessions, or requests without one, in order of appearance
	XRequestID     string  `json:"x_request_id"`
	CorrelationID  string  `json:"x_correlation_id,omitempty"` // of the session: job and conversation
	ConversationID *string `json:"conversation_id"`
	TurnIndex      int64   `json:"turn_index"` // from 0
	RequestStartNS *int64  `json:"request_start_ns,omitempty"`
	RequestAckNS   *int64  `json:"request_ack_ns"` // the response head; of streams
	RequestEndNS   *int64  `json:"request_end_ns,omitempty"`
	WorkerID       string  `json:"worker_id"`
	ProcessorID    string  `json:"record_processor_id"`
	Phase          string  `json:"benchmark_phase"`
	WasCancelled   bool    `json:"was_cancelled"`
	CancellationNS *int64  `json:"cancellation_time_ns"` // never known
}

// aiperfError is why a request failed. It is comparable, so that equal ones can be counted.
type aiperfError struct {
	Code    int64  `json:"code,omitempty"` // HTTP status; 0 = there is none
	Type    string `json:"type"`
	Message string `json:"message"`
}

// ourName stands where AIPerf's reader demands the name of one of its processes.
const ourName = "fastreplay"

func writeAIPerfRecords(w io.Writer, r *results) error {
	out := bufio.NewWriterSize(w, 1<<20)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	// numbers in order of appearance; a request without a session has one of its own
	sessions := map[[2]int64]int64{} // by job, as it may be replayed again, and conversation
	next := int64(-1)
	var failed error
	err := r.each(func(rec *record.Record) {
		values := map[string]aiperfValue{}
		for m, v := range metricsOf(rec) {
			values[m.tag] = aiperfValue{v, m.unit}
		}
		key := [2]int64{rec.Job, rec.Session}
		number, known := sessions[key]
		if !known || rec.Session == record.None {
			next++
			number = next
			sessions[key] = next
		}
		failed = cmp.Or(failed, lines.Encode(aiperfLine{r.metadata(rec, number), values, errorOf(rec)}))
	})
	return cmp.Or(err, failed, out.Flush())
}

func (r *results) metadata(rec *record.Record, session int64) aiperfMetadata {
	m := aiperfMetadata{
		SessionNum:     session,
		XRequestID:     rec.RequestID,
		TurnIndex:      max(1, rec.Turn) - 1,
		RequestStartNS: r.epochNS(startNS(rec)),
		RequestEndNS:   r.epochNS(max(startNS(rec), rec.WrittenNS, rec.HeadersNS, rec.LastTokenNS, rec.DoneNS)),
		WorkerID:       ourName,
		ProcessorID:    ourName,
		Phase:          "profiling",
		WasCancelled:   rec.Outcome == record.Cancelled,
	}
	if rec.Session != record.None {
		id := cmp.Or(rec.SessionName, strconv.FormatInt(rec.Session, 10))
		m.ConversationID = &id
		if rec.Job != record.None {
			m.CorrelationID = fmt.Sprint(rec.Job, "-", id)
		}
	}
	if rec.FirstTokenNS != record.None {
		m.RequestAckNS = r.epochNS(rec.HeadersNS)
	}
	return m
}

// startNS is when the request was sent, or should have been sent if no connection could be made.
func startNS(r *record.Record) int64 {
	if r.SentNS == record.None {
		return r.PlannedNS
	}
	return r.SentNS
}

func (r *results) epochNS(ns int64) *int64 {
	at, ok := r.wall(ns)
	if !ok {
		return nil
	}
	return new(at.UnixNano())
}

// errorOf is nil of a request that succeeded. The type is our outcome, but for what AIPerf has a name for.
func errorOf(r *record.Record) *aiperfError {
	switch r.Outcome {
	case record.OK:
		return nil
	case record.Cancelled:
		return &aiperfError{499, "RequestCancellationError", r.Error}
	case record.HTTPError:
		return &aiperfError{max(0, r.Status), r.Outcome.String(), r.Error}
	}
	return &aiperfError{0, r.Outcome.String(), r.Error}
}

// Tags, units and formulas are AIPerf's: github.com/ai-dynamo/aiperf, docs/metrics-reference.md, and the classes of
// src/aiperf/metrics/types with the display units of src/aiperf/common/enums/metric_enums.py.

// metric is a quantity that a single request has.
type metric struct {
	tag, unit string
	of        func(*record.Record) float64
}

// okMetrics are those of requests that succeeded.
func okMetrics() []metric {
	return []metric{
		inMS("request_latency", latencyNS),
		inMS("time_to_first_token", firstTextNS),
		inMS("time_to_first_output_token", firstOutputNS),
		inMS("decode_duration", decodeNS),
		inMS("inter_token_latency", func(r *record.Record) float64 { return perTokenNS(r, decodeNS(r)) }),
		inMS("full_decode_duration", fullDecodeNS),
		inMS("full_response_inter_token_latency", func(r *record.Record) float64 {
			return perTokenNS(r, fullDecodeNS(r))
		}),
		{"output_token_throughput_per_user", "tokens/sec/user",
			func(r *record.Record) float64 { return 1e9 / perTokenNS(r, decodeNS(r)) }},
		{"full_response_output_token_throughput_per_user", "tokens/sec/user",
			func(r *record.Record) float64 { return 1e9 / perTokenNS(r, fullDecodeNS(r)) }},
		{"e2e_output_token_throughput", "tokens/sec/user",
			func(r *record.Record) float64 { return 1e9 * outputTokens(r) / latencyNS(r) }},
		{"prefill_throughput_per_user", "tokens/sec/user",
			func(r *record.Record) float64 { return 1e9 * promptTokens(r) / firstTextNS(r) }},
		{"input_sequence_length", "tokens", promptTokens},
		{"output_sequence_length", "tokens", outputTokens},
		{"usage_prompt_tokens", "tokens", func(r *record.Record) float64 { return record.Float(r.PromptTokens) }},
		{"usage_completion_tokens", "tokens", usageCompletion},
		{
			"usage_total_tokens",
			"tokens",
			func(r *record.Record) float64 { return record.Float(r.PromptTokens) + usageCompletion(r) },
		},
		{"usage_prompt_cache_read_tokens", "tokens", func(r *record.Record) float64 { return record.Float(r.CachedTokens) }},
	}
}

// inMS is a time of a request in ms.
func inMS(tag string, ns func(*record.Record) float64) metric {
	return metric{tag, "ms", func(r *record.Record) float64 {
		return ns(r) / 1e6
	}}
}

// failedMetrics are those of requests that failed.
func failedMetrics() []metric {
	return []metric{{"error_isl", "tokens", promptTokens}}
}

// metricsOf yields the metrics that a request has, and their values.
func metricsOf(r *record.Record) iter.Seq2[metric, float64] {
	all := okMetrics()
	if r.Outcome != record.OK {
		all = failedMetrics()
	}
	return func(yield func(metric, float64) bool) {
		for _, m := range all {
			if v := m.of(r); known(v) && !yield(m, v) {
				return
			}
		}
	}
}

func latencyNS(r *record.Record) float64 {
	return spanNS(r.SentNS, r.LastTokenNS)
}

// firstTextNS is AIPerf's time to first token, which passes over chunks without text.
func firstTextNS(r *record.Record) float64 {
	return spanNS(r.SentNS, r.FirstTextNS)
}

// firstOutputNS is AIPerf's time to first output token: of a chunk with text that is no reasoning.
func firstOutputNS(r *record.Record) float64 {
	if r.FirstOutputNS == record.None || r.FirstTextNS == record.None {
		return math.NaN()
	}
	return spanNS(r.SentNS, max(r.FirstTextNS, r.FirstOutputNS)) // without reasoning the first output may have no text
}

func decodeNS(r *record.Record) float64 {
	return latencyNS(r) - firstTextNS(r)
}

// fullDecodeNS ends with the response.
func fullDecodeNS(r *record.Record) float64 {
	return spanNS(r.FirstTextNS, r.DoneNS)
}

// perTokenNS is what each token after the first took of ns, as AIPerf's inter token latency. It is absent below two
// tokens, and if all came in one chunk.
func perTokenNS(r *record.Record, ns float64) float64 {
	if r.SentTokens() < 2 || r.AtOnce() {
		return math.NaN()
	}
	return ns / float64(r.SentTokens()-1)
}

func usageCompletion(r *record.Record) float64 {
	if r.TokensFrom != record.TokensFromUsage {
		return math.NaN()
	}
	return outputTokens(r)
}

// The shape is AIPerf's: docs/reference/json-export-schema.md. Formulas of what is derived stand in
// docs/metrics-reference.md.

// aiperfSchema is the version of the schema in which statistics got count and sum; what later ones added is not ours
// to know.
const aiperfSchema = "1.1"

// aiperfScalar is a metric of the run as a whole.
type aiperfScalar struct {
	Unit string  `json:"unit"`
	Avg  float64 `json:"avg"`
}

// aiperfStats is a metric of single requests, or of chunks.
type aiperfStats struct {
	Unit  string  `json:"unit"`
	Avg   float64 `json:"avg"`
	P1    float64 `json:"p1"`
	P5    float64 `json:"p5"`
	P10   float64 `json:"p10"`
	P25   float64 `json:"p25"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Std   float64 `json:"std"`
	Count int64   `json:"count"`
	Sum   float64 `json:"sum"`
}

type aiperfErrorCount struct {
	Details aiperfError `json:"error_details"`
	Count   int64       `json:"count"`
}

// aiperfRun gathers what profile_export_aiperf.json is made of.
type aiperfRun struct {
	ok, failed int64
	overflows  int64                // of failed, refused since the context is too long
	values     map[string][]float64 // by tag
	firstNS    int64                // the first of the successful requests was sent
	lastNS     int64                // the last of them had its last token
	driftMS    []float64            // of successful requests
	perOutput  []float64            // their latencies in s by output tokens, of those that have both
	errors     []aiperfErrorCount   // in order of appearance
	seen       map[aiperfError]int  // index into errors
}

func writeAIPerfSummary(w io.Writer, r *results) error {
	run := aiperfRun{
		values:  map[string][]float64{},
		firstNS: math.MaxInt64,
		lastNS:  math.MinInt64,
		errors:  []aiperfErrorCount{},
		seen:    map[aiperfError]int{},
	}
	if err := r.each(run.add); err != nil {
		return err
	}
	// Their configuration and version are not there: this was no run of theirs.
	out := map[string]any{
		"schema_version": aiperfSchema,
		"was_cancelled":  r.summary.Run.Partial,
		"error_summary":  run.errors,
		verdictKey:       r.verdict(), // their reader allows other keys: JsonExportData in export_models.py
	}
	if start, ok := r.wall(0); ok {
		out["start_time"] = start
	}
	if end, ok := r.end(); ok {
		out["end_time"] = end
	}
	for _, m := range slices.Concat(okMetrics(), failedMetrics()) {
		if s := newSample(run.values[m.tag]); len(s) > 0 {
			d := newStats(m.unit, len(s), s.percentile)
			d.Avg = s.mean()
			d.Std = s.deviation()
			d.Min = s[0]
			d.Max = s[len(s)-1]
			d.Sum = s.sum()
			out[m.tag] = d
		}
	}
	run.addDerived(out, r.summary)
	if r.gaps != nil {
		out["inter_chunk_latency"] = r.chunkStats()
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func (a *aiperfRun) add(r *record.Record) {
	for m, v := range metricsOf(r) {
		a.values[m.tag] = append(a.values[m.tag], v)
	}
	if why := errorOf(r); why != nil {
		a.failed++
		if r.ContextTooLong() {
			a.overflows++
		}
		i, ok := a.seen[*why]
		if !ok {
			i = len(a.errors)
			a.seen[*why] = i
			a.errors = append(a.errors, aiperfErrorCount{Details: *why})
		}
		a.errors[i].Count++
		return
	}
	a.ok++
	a.firstNS = min(a.firstNS, r.SentNS)
	a.lastNS = max(a.lastNS, r.LastTokenNS)
	if s := latencyNS(r) / 1e9 / outputTokens(r); s > 0 {
		a.perOutput = append(a.perOutput, s) // infinite ones are left out of samples
	}
	if drift := r.DriftNS(); drift != record.None {
		a.driftMS = append(a.driftMS, float64(drift)/1e6)
	}
}

// newStats describes n values, but for mean, deviation, extremes and sum.
func newStats(unit string, n int, percentile func(float64) float64) aiperfStats {
	return aiperfStats{
		Unit:  unit,
		Count: int64(n),
		P1:    percentile(1),
		P5:    percentile(5),
		P10:   percentile(10),
		P25:   percentile(25),
		P50:   percentile(50),
		P75:   percentile(75),
		P90:   percentile(90),
		P95:   percentile(95),
		P99:   percentile(99),
	}
}

// sum is absent where no request has the metric.
func (a *aiperfRun) sum(tag string) float64 {
	if len(a.values[tag]) == 0 {
		return math.NaN()
	}
	return sample(a.values[tag]).sum()
}

// degradedLagMS is REPLAY_SCHED_DEGRADED_THRESHOLD_MS in AIPerf's replay_sched_lag_metrics.py.
const degradedLagMS = 500

// addDerived adds the metrics of the run as a whole.
func (a *aiperfRun) addDerived(out map[string]any, summary *metrics.Summary) {
	good := math.NaN()
	degraded := math.NaN()
	lag := sample{}
	if summary.Goodput != nil {
		good = float64(summary.Goodput.Requests)
	}
	if summary.Run.Pace == metrics.TraceTime && len(a.driftMS) > 0 {
		lag = newSample(a.driftMS)
		degraded = 0
		for i, least := 0, lag[0]; i < len(lag); i++ { // relative to the least late request
			lag[i] -= least
		}
		if lag.percentile(99) > degradedLagMS {
			degraded = 1
		}
	}
	seconds := math.NaN() // AIPerf's benchmark duration, which only successful requests bound
	if a.firstNS < a.lastNS {
		seconds = float64(a.lastNS-a.firstNS) / 1e9
	}
	perOutput := newSample(a.perOutput)
	ideal := math.NaN()
	if hits := summary.PrefixCache.ExpectedHitRatio; hits != nil {
		ideal = 100 * *hits
	}
	input := a.sum("input_sequence_length")
	output := a.sum("output_sequence_length")
	prompt := a.sum("usage_prompt_tokens")
	cached := a.sum("usage_prompt_cache_read_tokens")
	for _, d := range []struct {
		tag, unit string
		value     float64
	}{
		{"request_count", "requests", positive(a.ok)},
		{"error_request_count", "requests", positive(a.failed)},
		{"context_overflow_count", "requests", positive(a.overflows)},
		{"completed_request_count", "requests", positive(a.ok + a.failed)},
		{"request_error_rate", "%", 100 * float64(a.failed) / float64(a.ok+a.failed)},
		{"benchmark_duration", "sec", seconds},
		{"request_throughput", "requests/sec", positive(a.ok) / seconds},
		{"input_token_throughput", "tokens/sec", input / seconds},
		{"output_token_throughput", "tokens/sec", output / seconds},
		{"total_token_throughput", "tokens/sec", (input + output) / seconds},
		{"total_isl", "tokens", input},
		{"total_osl", "tokens", output},
		{"total_error_isl", "tokens", a.sum("error_isl")},
		{"total_usage_prompt_tokens", "tokens", prompt},
		{"total_usage_completion_tokens", "tokens", a.sum("usage_completion_tokens")},
		{"total_usage_total_tokens", "tokens", a.sum("usage_total_tokens")},
		{"total_usage_prompt_cache_read_tokens", "tokens", cached},
		{"overall_usage_prompt_cache_read_pct", "%", 100 * cached / prompt},
		{"good_request_count", "requests", good},
		{"good_request_fraction", "ratio", good / float64(a.ok+a.failed)},
		{"goodput", "requests/sec", good / seconds},
		{"e2e_normalized_interactivity_p75", "tokens/sec/user", 1 / perOutput.percentile(75)},
		{"e2e_normalized_interactivity_p90", "tokens/sec/user", 1 / perOutput.percentile(90)},
		{"theoretical_prefix_cache_hit", "%", ideal},
		{"replay_sched_lag_p50", "ms", lag.percentile(50)},
		{"replay_sched_lag_p90", "ms", lag.percentile(90)},
		{"replay_sched_lag_p99", "ms", lag.percentile(99)},
		{"replay_sched_degraded", "count", degraded},
	} {
		if known(d.value) {
			out[d.tag] = aiperfScalar{d.unit, d.value}
		}
	}
}

// positive is absent where it is 0: AIPerf leaves such counters out.
func positive(n int64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(n)
}

// chunkStats describes all gaps between chunks, from histograms: percentiles within 0.1 % and by nearest rank.
func (r *results) chunkStats() aiperfStats {
	s := newStats("ms", int(r.gaps.TotalCount()), r.gapMS)
	s.Avg = r.gaps.Mean() / 1e6
	s.Std = r.gaps.StdDev() / 1e6
	s.Min = float64(r.gaps.Min()) / 1e6
	s.Max = r.longestGapMS()
	if itl := r.summary.ITLMS; itl != nil {
		s.Avg = itl.Mean // exact
	}
	s.Sum = s.Avg * float64(s.Count)
	return s
}
