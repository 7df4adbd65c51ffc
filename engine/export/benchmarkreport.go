package export

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// The keys and units are those of llm-d's Benchmark Report 0.2.1: github.com/llm-d/llm-d-benchmark,
// benchmark-report/llmd_benchmark_report/schema_v0_2.py. Each key may be null there.

// object is one of JSON, as encoding/json has it.
type object = map[string]any

func writeBenchmarkReport(w io.Writer, r *results) error {
	var input, output []float64
	if err := r.each(func(rec *record.Record) {
		if rec.Outcome == record.OK {
			input = append(input, promptTokens(rec))
			output = append(output, outputTokens(rec))
		}
	}); err != nil {
		return err
	}
	s := r.summary
	load := &s.Throughput
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(object{
		"version":  "0.2.1",
		"run":      r.benchmarkRun(),
		"scenario": object{"load": r.benchmarkLoad(input, output)},
		"results": object{"request_performance": object{"aggregate": object{
			"requests": object{
				"total":         s.Requests.Planned,
				"failures":      s.Requests.Failed,
				"incomplete":    s.Requests.Stopped,
				"input_length":  tokenStatistics(input),
				"output_length": tokenStatistics(output),
			},
			"latency": object{
				"time_to_first_token":              r.latencyStatistics("ttft", "ms"),
				"normalized_time_per_output_token": r.latencyStatistics("ntpot", "ms/token"),
				"time_per_output_token":            r.latencyStatistics("tpot", "ms/token"),
				"inter_token_latency":              r.latencyStatistics("itl", "ms/token"),
				"request_latency":                  r.latencyStatistics("e2e", "ms"),
			},
			"throughput": object{
				"request_rate":      object{"units": "queries/s", "mean": load.RequestsPerS},
				"input_token_rate":  object{"units": "tokens/s", "mean": load.InputTokensPerS},
				"output_token_rate": object{"units": "tokens/s", "mean": load.OutputTokensPerS},
				"total_token_rate":  object{"units": "tokens/s", "mean": load.InputTokensPerS + load.OutputTokensPerS},
			},
		}}},
	})
}

// benchmarkRun says when the run was, if that is known.
func (r *results) benchmarkRun() object {
	run := &r.summary.Run
	out := object{
		"uid":         run.Host.Name + "-" + run.StartedAt.UTC().Format(time.RFC3339Nano),
		"description": r.summary.Workload.Trace + "; measurement " + r.verdict(), // there may be no other keys
	}
	if end, ok := r.end(); ok {
		out["time"] = object{
			"start":    run.StartedAt.UTC(),
			"end":      end.UTC(),
			"duration": fmt.Sprintf("PT%fS", run.DurationS),
		}
	}
	return out
}

// benchmarkLoad describes what was sent. Prompts are made up, unless the trace has them word for word.
func (r *results) benchmarkLoad(input, output []float64) object {
	s := r.summary
	standard := object{
		"tool":           ourName,
		"tool_version":   s.Run.Version,
		"parallelism":    max(1, len(s.Shards)),
		"source":         "random",
		"input_seq_len":  object{"distribution": "other", "value": newSample(input).meanOrZero()},
		"output_seq_len": object{"distribution": "other", "value": newSample(output).meanOrZero()},
		"multi_turn":     object{"enabled": s.Turns != nil},
	}
	if s.Workload.Verbatims > 0 {
		standard["source"] = "sampled"
	}
	if a := s.Run.Arrival; a != nil && a.PerS > 0 {
		standard["rate_qps"] = a.PerS
	}
	if s.Run.Concurrency > 0 {
		standard["concurrency"] = s.Run.Concurrency
	}
	return object{
		"metadata":     object{"cfg_id": s.Workload.Fingerprint},
		"standardized": standard,
		"native":       object{"args": s.Run.Options},
	}
}

// latencyStatistics has the percentiles of the summary; nil if the run has none.
func (r *results) latencyStatistics(key, units string) any {
	q, unitNS := r.summary.Latency(metrics.FindLatency(key))
	if q == nil {
		return nil
	}
	out := object{"units": units}
	for name, v := range map[string]float64{
		"p50": q.P50, "p75": q.P75, "p90": q.P90, "p95": q.P95, "p99": q.P99, "p99p9": q.P999,
		"max": q.Max, "mean": q.Mean,
	} {
		out[name] = v * unitNS / 1e6
	}
	if q.P75 < q.P50 { // of a version that did not have it
		delete(out, "p75")
	}
	return out
}

// tokenStatistics describes lengths; nil if none is known.
func tokenStatistics(tokens []float64) any {
	s := newSample(tokens)
	if len(s) == 0 {
		return nil
	}
	out := object{"units": "count", "mean": s.mean(), "stddev": s.deviation(), "min": s[0], "max": s[len(s)-1]}
	for _, q := range []float64{1, 5, 10, 25, 50, 75, 90, 95, 99} {
		out[fmt.Sprintf("p%g", q)] = s.percentile(q)
	}
	return out
}

// meanOrZero is the mean; 0 of an empty sample.
func (s sample) meanOrZero() float64 {
	if len(s) == 0 {
		return 0
	}
	return s.mean()
}
