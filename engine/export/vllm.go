package export

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// The keys and formulas are those of `vllm bench serve --save-result --save-detailed`: github.com/vllm-project/vllm,
// vllm/benchmarks/serve.py (calculate_metrics, benchmark, main_async) and lib/endpoint_request_func.py. Times of single
// requests are seconds, statistics ms.

func writeVLLM(w io.Writer, r *results) error {
	requests, err := r.vllmRequests()
	if err != nil {
		return err
	}
	out := r.vllmSetup()
	r.vllmTraffic(out)
	r.vllmTotals(out, requests)
	r.vllmLatencies(out, requests)
	requests.detail(out)
	return json.NewEncoder(w).Encode(out)
}

// vllmSetup says what was measured.
func (r *results) vllmSetup() map[string]any {
	run := &r.summary.Run
	backend := vllmBackend(run.API)
	out := map[string]any{
		"date": nil, "endpoint_type": backend, "backend": backend, "label": nil, "model_id": orNull(run.Model), "tokenizer_id": orNull(r.option("tokenizer")),
		"num_prompts": r.summary.Requests.Planned, ourName + "_version": orNull(run.Version), // as --metadata adds keys
	}
	if end, ok := r.end(); ok {
		out["date"] = end.UTC().Format("20060102-150405")
	}
	if run.Partial {
		out["partial"] = true
	}
	return out
}

// vllmBackend is vLLM's name of one of our APIs.
func vllmBackend(api string) any {
	switch api {
	case "completions":
		return "openai"
	case "chat":
		return "openai-chat"
	}
	return orNull(api)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// vllmTraffic says when requests left. "inf" is vLLM's for no rate of its own: trace times, a closed loop, all at once.
func (r *results) vllmTraffic(out map[string]any) {
	out["request_rate"], out["burstiness"], out["max_concurrency"] = "inf", nil, nil
	if limit, err := strconv.Atoi(r.option("concurrency")); err == nil && limit > 0 {
		out["max_concurrency"] = limit
	}
	a := r.summary.Run.Arrival
	if a == nil {
		return
	}
	out["request_rate"] = a.PerS
	if a.RampS > 0 {
		out["request_rate"], out["ramp_up_strategy"], out["ramp_up_start_rps"], out["ramp_up_end_rps"] = "inf", "linear", a.FromPerS, a.PerS
	}
	switch {
	case a.Burstiness != nil:
		out["burstiness"] = *a.Burstiness
	case a.Process == "poisson":
		out["burstiness"] = 1
	}
}

// vllmTotals adds what is one number for the run.
func (r *results) vllmTotals(out map[string]any, all vllmRequests) {
	ok := all.ok()
	seconds := r.summary.Run.DurationS
	if seconds <= 0 {
		seconds = math.NaN()
	}
	input, output := total(ok.column((*vllmRequest).inputTokens)), total(ok.column((*vllmRequest).outputTokens))
	out["duration"] = number(seconds)
	out["completed"], out["failed"] = len(ok), len(all)-len(ok)
	out["total_input_tokens"], out["total_output_tokens"] = number(input), number(output)
	out["request_throughput"] = number(float64(len(ok)) / seconds)
	out["request_goodput"] = nil // without SLOs, as there
	if good := r.summary.Goodput; good != nil {
		out["request_goodput"] = good.RequestsPerS
	}
	out["output_throughput"] = number(output / seconds)
	out["total_token_throughput"] = number((input + output) / seconds)
	out["max_output_tokens_per_s"] = nil // needs every chunk's instant
	out["max_concurrent_requests"] = ok.mostAtOnce()
}

// vllmLatencies adds the four distributions.
func (r *results) vllmLatencies(out map[string]any, all vllmRequests) {
	ok := all.ok()
	for name, of := range map[string]func(*vllmRequest) float64{
		"ttft": (*vllmRequest).firstToken, "tpot": (*vllmRequest).perToken, "e2el": (*vllmRequest).endToEnd,
	} {
		s := newSample(ok.column(of))
		putLatency(out, name, 1e3*s.mean(), 1e3*s.deviation(), func(q float64) float64 { return 1e3 * s.percentile(q) })
	}
	r.vllmGaps(out)
}

// putLatency adds one distribution, given in ms.
func putLatency(out map[string]any, name string, mean, deviation float64, percentile func(float64) float64) {
	out["mean_"+name+"_ms"] = number(mean)
	out["median_"+name+"_ms"] = number(percentile(50))
	out["std_"+name+"_ms"] = number(deviation)
	for _, q := range []float64{50, 90, 95, 99} {
		out[fmt.Sprintf("p%v_%s_ms", q, name)] = number(percentile(q))
	}
}

// vllmGaps adds the gaps between chunks, from histograms: within 0.1 %, and by nearest rank.
func (r *results) vllmGaps(out map[string]any) {
	if r.gaps == nil {
		absent := math.NaN()
		putLatency(out, "itl", absent, absent, func(float64) float64 { return absent })
		return
	}
	s := r.chunkStats()
	putLatency(out, "itl", s.Avg, s.Std, r.gapMS)
}
