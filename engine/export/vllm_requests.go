package export

import (
	"cmp"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// vllmRequest is what vLLM keeps of a request, in seconds. Of one that failed the latency and the output are 0 there, and the
// first token is, unless it came.
type vllmRequest struct {
	planned, row  int64
	ok, atOnce    bool
	input, output float64 // tokens
	start, queue  float64 // when it was sent, and how long after it should have been
	ttft, latency float64
	err           string
}

type vllmRequests []vllmRequest

// vllmRequests returns the requests in order of release, as theirs are.
func (r *results) vllmRequests() (all vllmRequests, err error) {
	err = r.each(func(rec *record.Record) { all = append(all, newVLLMRequest(rec)) })
	slices.SortStableFunc(all, func(a, b vllmRequest) int {
		return cmp.Or(cmp.Compare(a.planned, b.planned), cmp.Compare(a.row, b.row))
	})
	return all, err
}

func newVLLMRequest(r *record.Record) vllmRequest {
	v := vllmRequest{
		planned: r.PlannedNS, row: r.Row, ok: r.Outcome == record.OK, atOnce: r.AtOnce(), input: promptTokens(r),
		start: count(startNS(r)) / 1e9, queue: spanNS(r.PlannedNS, r.SentNS) / 1e9, ttft: spanNS(r.SentNS, r.FirstTokenNS) / 1e9,
	}
	if v.ok {
		v.output, v.latency = count(r.CompletionTokens), latencyNS(r)/1e9
		return v
	}
	v.err = r.Outcome.String() + ": " + r.Error
	if !known(v.ttft) {
		v.ttft = 0
	}
	return v
}

func (v *vllmRequest) inputTokens() float64  { return v.input }
func (v *vllmRequest) outputTokens() float64 { return v.output }
func (v *vllmRequest) firstToken() float64   { return v.ttft }
func (v *vllmRequest) endToEnd() float64     { return v.latency }
func (v *vllmRequest) startTime() float64    { return v.start }
func (v *vllmRequest) queueTime() float64    { return v.queue }

// perToken is absent below two tokens, and where all came in one chunk.
func (v *vllmRequest) perToken() float64 {
	if v.output < 2 || v.atOnce {
		return math.NaN()
	}
	return (v.latency - v.ttft) / (v.output - 1)
}

// ok returns the requests that succeeded, which alone enter statistics.
func (all vllmRequests) ok() vllmRequests {
	return slices.DeleteFunc(slices.Clone(all), func(v vllmRequest) bool { return !v.ok })
}

func (all vllmRequests) column(of func(*vllmRequest) float64) []float64 {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	return values
}

// mostAtOnce is the largest number of requests under way at an instant; one that ends as another starts is not.
func (all vllmRequests) mostAtOnce() (most int) {
	type event struct {
		at    float64
		delta int
	}
	events := make([]event, 0, 2*len(all))
	for i := range all {
		if v := &all[i]; known(v.start) && known(v.latency) {
			events = append(events, event{v.start, 1}, event{v.start + v.latency, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	now := 0
	for _, e := range events {
		now += e.delta
		most = max(most, now)
	}
	return most
}

// detail adds a list for each quantity, with a place for each request. The gaps of single requests and the texts are not kept.
func (all vllmRequests) detail(out map[string]any) {
	for key, of := range map[string]func(*vllmRequest) float64{
		"input_lens": (*vllmRequest).inputTokens, "output_lens": (*vllmRequest).outputTokens, "ttfts": (*vllmRequest).firstToken,
		"latencies": (*vllmRequest).endToEnd, "start_times": (*vllmRequest).startTime, "queue_times": (*vllmRequest).queueTime,
	} {
		list := make([]number, len(all))
		for i, v := range all.column(of) {
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
