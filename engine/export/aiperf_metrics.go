package export

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Tags, units and formulas are AIPerf's: github.com/ai-dynamo/aiperf, docs/metrics-reference.md, and the classes of
// src/aiperf/metrics/types with the display units of src/aiperf/common/enums/metric_enums.py.

// The units of AIPerf's metrics.
const (
	unitMS            = "ms"
	unitSeconds       = "sec"
	unitTokens        = "tokens"
	unitRequests      = "requests"
	unitPercent       = "%"
	unitCount         = "count"
	unitRatio         = "ratio"
	unitRequestRate   = "requests/sec"
	unitTokenRate     = "tokens/sec"
	unitTokenRateUser = "tokens/sec/user"
)

// metric is a quantity that a single request has.
type metric struct {
	tag, unit string
	of        func(*record.Record) float64
}

// okMetrics are those of requests that succeeded.
func okMetrics() []metric {
	return []metric{
		{"request_latency", unitMS, func(r *record.Record) float64 { return latencyNS(r) / 1e6 }},
		{"time_to_first_token", unitMS, func(r *record.Record) float64 { return firstTextNS(r) / 1e6 }},
		{"decode_duration", unitMS, func(r *record.Record) float64 { return decodeNS(r) / 1e6 }},
		{"inter_token_latency", unitMS, func(r *record.Record) float64 { return perTokenNS(r) / 1e6 }},
		{"output_token_throughput_per_user", unitTokenRateUser, func(r *record.Record) float64 { return 1e9 / perTokenNS(r) }},
		{"e2e_output_token_throughput", unitTokenRateUser, func(r *record.Record) float64 { return 1e9 * count(r.CompletionTokens) / latencyNS(r) }},
		{"prefill_throughput_per_user", unitTokenRateUser, func(r *record.Record) float64 { return 1e9 * promptTokens(r) / firstTextNS(r) }},
		{"input_sequence_length", unitTokens, promptTokens},
		{"output_sequence_length", unitTokens, func(r *record.Record) float64 { return count(r.CompletionTokens) }},
		{"usage_prompt_tokens", unitTokens, func(r *record.Record) float64 { return count(r.PromptTokens) }},
		{"usage_completion_tokens", unitTokens, usageCompletion},
		{"usage_total_tokens", unitTokens, func(r *record.Record) float64 { return count(r.PromptTokens) + usageCompletion(r) }},
		{"usage_prompt_cache_read_tokens", unitTokens, func(r *record.Record) float64 { return count(r.CachedTokens) }},
	}
}

// failedMetrics are those of requests that failed.
func failedMetrics() []metric { return []metric{{"error_isl", unitTokens, promptTokens}} }

func metricsOf(r *record.Record) []metric {
	if r.Outcome == record.OK {
		return okMetrics()
	}
	return failedMetrics()
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
