package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// The keys and formulas are those of `vllm bench serve --save-result --save-detailed`: github.com/vllm-project/vllm,
// vllm/benchmarks/serve.py (calculate_metrics, benchmark, main_async) and lib/endpoint_request_func.py. Times of single
// requests are seconds, statistics ms.

func writeVLLM(w io.Writer, r *results) error {
	var requests vllmRequests // in order of release, as theirs are
	if err := r.each(func(rec *record.Record) {
		requests = append(requests, newVLLMRequest(rec))
	}); err != nil {
		return err
	}
	slices.SortStableFunc(requests, func(a, b vllmRequest) int {
		return cmp.Or(cmp.Compare(a.planned, b.planned), cmp.Compare(a.row, b.row))
	})
	out := r.vllmSetup()
	r.vllmTraffic(out)
	r.vllmTotals(out, requests)
	r.vllmLatencies(out, requests.ok())
	requests.detail(out)
	return json.NewEncoder(w).Encode(out)
}

// vllmSetup describes what was measured.
func (r *results) vllmSetup() map[string]any {
	run := &r.summary.Run
	// vLLM's name of it
	backend := orNull(cmp.Or(map[string]string{"completions": "openai", "chat": "openai-chat"}[run.API], run.API))
	out := map[string]any{
		"date":               nil,
		"endpoint_type":      backend,
		"backend":            backend,
		"label":              nil,
		"model_id":           orNull(run.Model),
		"tokenizer_id":       orNull(r.option("tokenizer")),
		"num_prompts":        r.summary.Requests.Planned,
		ourName + "_version": orNull(run.Version), // as --metadata adds keys
		verdictKey:           r.verdict(),
	}
	if end, ok := r.end(); ok {
		out["date"] = end.UTC().Format("20060102-150405")
	}
	if run.Partial {
		out["partial"] = true
	}
	return out
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// vllmTraffic adds when requests were sent. "inf" is vLLM's for no rate of its own: trace times, a closed loop, all
// at once.
func (r *results) vllmTraffic(out map[string]any) {
	out["request_rate"] = "inf"
	out["burstiness"] = nil
	out["max_concurrency"] = nil
	if limit, err := strconv.Atoi(r.option("concurrency")); err == nil && limit > 0 {
		out["max_concurrency"] = limit
	}
	a := r.summary.Run.Arrival
	if a == nil {
		return
	}
	out["request_rate"] = a.PerS
	if a.RampS > 0 {
		out["request_rate"] = "inf"
		out["ramp_up_strategy"] = "linear"
		out["ramp_up_start_rps"] = a.FromPerS
		out["ramp_up_end_rps"] = a.PerS
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
	input := total(ok.column(inputLen))
	output := total(ok.column(outputLen))
	out["duration"] = number(seconds)
	out["completed"] = len(ok)
	out["failed"] = len(all) - len(ok)
	out["total_input_tokens"] = number(input)
	out["total_output_tokens"] = number(output)
	out["request_throughput"] = number(float64(len(ok)) / seconds)
	out["request_goodput"] = nil // without SLOs, as there
	if good := r.summary.Goodput; good != nil {
		out["request_goodput"] = good.RequestsPerS
	}
	out["output_throughput"] = number(output / seconds)
	out["total_token_throughput"] = number((input + output) / seconds)
	out["max_output_tokens_per_s"] = nil // needs every chunk's time
	out["max_concurrent_requests"] = ok.mostAtOnce()
}

// vllmLatencies adds the four distributions.
func (r *results) vllmLatencies(out map[string]any, ok vllmRequests) {
	put := func(name string, seconds []float64) {
		s := newSample(seconds)
		putLatency(out, name, 1e3*s.mean(), 1e3*s.deviation(), func(q float64) float64 {
			return 1e3 * s.percentile(q)
		})
	}
	for name, c := range map[string]vllmColumn{
		"ttft": firstToken,
		"tpot": perToken,
		"e2el": endToEnd,
	} {
		put(name, ok.column(c))
	}
	if r.gaps == nil {
		put("itl", nil)
		return
	}
	s := r.chunkStats() // from histograms: within 0.1 %, and by nearest rank
	putLatency(out, "itl", s.Avg, s.Std, r.gapMS)
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

// vllmColumn is a number that vLLM keeps of a request: tokens, or seconds.
type vllmColumn int

const (
	inputLen   vllmColumn = iota // tokens
	outputLen                    // tokens; 0 if the request failed
	firstToken                   // after it was sent; 0 if the request failed before
	endToEnd                     // after it was sent; 0 if the request failed
	startTime                    // when it was sent
	queueTime                    // how long after it should have been sent
	perToken                     // absent below two tokens, and if all came in one chunk
	vllmColumns
)

// vllmRequest is what vLLM keeps of a request.
type vllmRequest struct {
	planned, row int64
	ok           bool
	err          string
	values       [vllmColumns]float64
}

type vllmRequests []vllmRequest

func newVLLMRequest(r *record.Record) vllmRequest {
	v := vllmRequest{
		planned: r.PlannedNS,
		row:     r.Row,
		ok:      r.Outcome == record.OK,
	}
	ttft := spanNS(r.SentNS, r.FirstTokenNS) / 1e9
	v.values = [vllmColumns]float64{
		inputLen:   promptTokens(r),
		startTime:  record.Float(startNS(r)) / 1e9,
		queueTime:  spanNS(r.PlannedNS, r.SentNS) / 1e9,
		firstToken: ttft,
		perToken:   math.NaN(),
	}
	if !v.ok {
		v.err = r.Outcome.String() + ": " + r.Error
		if !known(ttft) {
			v.values[firstToken] = 0
		}
		return v
	}
	output := outputTokens(r)
	latency := latencyNS(r) / 1e9
	v.values[outputLen] = output
	v.values[endToEnd] = latency
	if !(output < 2 || r.AtOnce()) {
		v.values[perToken] = (latency - ttft) / (output - 1)
	}
	return v
}

// ok returns the requests that succeeded, which alone enter statistics.
func (all vllmRequests) ok() vllmRequests {
	return slices.DeleteFunc(slices.Clone(all), func(v vllmRequest) bool {
		return !v.ok
	})
}

func (all vllmRequests) column(c vllmColumn) []float64 {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = all[i].values[c]
	}
	return values
}

// mostAtOnce is the largest number of requests in flight at a time; one that ends as another starts is not.
func (all vllmRequests) mostAtOnce() int {
	var starts, ends []float64
	for i := range all {
		start := all[i].values[startTime]
		latency := all[i].values[endToEnd]
		if known(start) && known(latency) {
			starts = append(starts, start)
			ends = append(ends, start+latency)
		}
	}
	return stats.MostAtOnce(starts, ends)
}

// detail adds a list for each quantity, with a place for each request. The gaps of single requests and the texts are
// not kept.
func (all vllmRequests) detail(out map[string]any) {
	for key, c := range map[string]vllmColumn{
		"input_lens":  inputLen,
		"output_lens": outputLen,
		"ttfts":       firstToken,
		"latencies":   endToEnd,
		"start_times": startTime,
		"queue_times": queueTime,
	} {
		list := make([]number, len(all))
		for i, v := range all.column(c) {
			list[i] = number(v)
		}
		out[key] = list
	}
	errors := make([]string, len(all))
	for i := range all {
		errors[i] = all[i].err
	}
	out["errors"] = errors
}
