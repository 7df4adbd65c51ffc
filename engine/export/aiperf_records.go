package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"math"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
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
	sessions, next := map[int64]int64{}, int64(-1) // numbers in order of appearance; a request without a session has one of its own
	var failed error
	err := r.each(func(rec *record.Record) {
		values := map[string]aiperfValue{}
		for m, v := range metricsOf(rec) {
			values[m.tag] = aiperfValue{v, m.unit}
		}
		number, known := sessions[rec.Session]
		if !known || rec.Session == record.None {
			next++
			number, sessions[rec.Session] = next, next
		}
		failed = cmp.Or(failed, lines.Encode(aiperfLine{r.metadata(rec, number), values, errorOf(rec)}))
	})
	return cmp.Or(err, failed, out.Flush())
}

func (r *results) metadata(rec *record.Record, session int64) aiperfMetadata {
	m := aiperfMetadata{
		SessionNum: session, XRequestID: rec.RequestID, TurnIndex: max(1, rec.Turn) - 1,
		RequestStartNS: r.epochNS(startNS(rec)), RequestEndNS: r.epochNS(max(startNS(rec), rec.WrittenNS, rec.HeadersNS, rec.LastTokenNS, rec.DoneNS)),
		WorkerID: ourName, ProcessorID: ourName, Phase: "profiling", WasCancelled: rec.Outcome == record.Cancelled,
	}
	if rec.Session != record.None {
		id := cmp.Or(rec.SessionName, strconv.FormatInt(rec.Session, 10))
		m.ConversationID = &id
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
		{"request_latency", "ms", func(r *record.Record) float64 { return latencyNS(r) / 1e6 }},
		{"time_to_first_token", "ms", func(r *record.Record) float64 { return firstTextNS(r) / 1e6 }},
		{"decode_duration", "ms", func(r *record.Record) float64 { return decodeNS(r) / 1e6 }},
		{"inter_token_latency", "ms", func(r *record.Record) float64 { return perTokenNS(r) / 1e6 }},
		{"output_token_throughput_per_user", "tokens/sec/user", func(r *record.Record) float64 { return 1e9 / perTokenNS(r) }},
		{"e2e_output_token_throughput", "tokens/sec/user", func(r *record.Record) float64 { return 1e9 * count(r.CompletionTokens) / latencyNS(r) }},
		{"prefill_throughput_per_user", "tokens/sec/user", func(r *record.Record) float64 { return 1e9 * promptTokens(r) / firstTextNS(r) }},
		{"input_sequence_length", "tokens", promptTokens},
		{"output_sequence_length", "tokens", func(r *record.Record) float64 { return count(r.CompletionTokens) }},
		{"usage_prompt_tokens", "tokens", func(r *record.Record) float64 { return count(r.PromptTokens) }},
		{"usage_completion_tokens", "tokens", usageCompletion},
		{"usage_total_tokens", "tokens", func(r *record.Record) float64 { return count(r.PromptTokens) + usageCompletion(r) }},
		{"usage_prompt_cache_read_tokens", "tokens", func(r *record.Record) float64 { return count(r.CachedTokens) }},
	}
}

// failedMetrics are those of requests that failed.
func failedMetrics() []metric { return []metric{{"error_isl", "tokens", promptTokens}} }

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

func latencyNS(r *record.Record) float64 { return spanNS(r.SentNS, r.LastTokenNS) }

// firstTextNS is AIPerf's time to first token, which passes over chunks without text.
func firstTextNS(r *record.Record) float64 { return spanNS(r.SentNS, r.FirstTextNS) }

func decodeNS(r *record.Record) float64 { return latencyNS(r) - firstTextNS(r) }

// perTokenNS is AIPerf's inter token latency; absent below two tokens, and where all came in one chunk.
func perTokenNS(r *record.Record) float64 {
	if r.CompletionTokens < 2 || r.AtOnce() {
		return math.NaN()
	}
	return decodeNS(r) / float64(r.CompletionTokens-1)
}

func usageCompletion(r *record.Record) float64 {
	if r.TokensFrom != record.TokensFromUsage {
		return math.NaN()
	}
	return count(r.CompletionTokens)
}
