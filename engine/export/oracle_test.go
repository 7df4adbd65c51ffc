package export

import "math"

// The oracle works on the lines of requests.jsonl as encoding/json reads them, by sums over all values for each statistic.

// num is a number of a line; false where it is null.
func num(l object, key string) (float64, bool) {
	v, ok := l[key].(float64)
	return v, ok
}

// naiveNeeds calls f if the line has all of the keys.
func naiveNeeds(l object, f func(v []float64), keys ...string) {
	v := make([]float64, len(keys))
	for i, key := range keys {
		var ok bool
		if v[i], ok = num(l, key); !ok {
			return
		}
	}
	f(v)
}

// naivePercentile weighs every value by how close its rank is to the one wanted.
func naivePercentile(values []float64, q float64) (p float64) {
	want := q / 100 * float64(len(values)-1)
	for i, v := range values {
		rank := 0 // of v; equal values keep their order
		for j, o := range values {
			if o < v || o == v && j < i {
				rank++
			}
		}
		p += v * max(0, 1-math.Abs(want-float64(rank)))
	}
	return p
}

func naiveMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func naiveStd(values []float64) float64 {
	squares := make([]float64, len(values))
	for i, v := range values {
		squares[i] = (v - naiveMean(values)) * (v - naiveMean(values))
	}
	return math.Sqrt(naiveMean(squares))
}

func naiveMin(values []float64) float64 { return naivePercentile(values, 0) }
func naiveMax(values []float64) float64 { return naivePercentile(values, 100) }

// naiveAIPerf is the metrics of a line by AIPerf's formulas.
func naiveAIPerf(l object) map[string]float64 {
	m := map[string]float64{}
	put := func(tag string) func([]float64) { return func(v []float64) { m[tag] = v[0] } }
	isl := "prompt_tokens"
	if l[isl] == nil {
		isl = "input_tokens"
	}
	if l["outcome"] != "ok" {
		naiveNeeds(l, put("error_isl"), isl)
		return m
	}
	naiveNeeds(l, put("input_sequence_length"), isl)
	naiveNeeds(l, put("output_sequence_length"), "completion_tokens")
	naiveNeeds(l, put("usage_prompt_tokens"), "prompt_tokens")
	naiveNeeds(l, put("usage_prompt_cache_read_tokens"), "cached_tokens")
	if l["tokens_from"] == "usage" {
		naiveNeeds(l, put("usage_completion_tokens"), "completion_tokens")
		naiveNeeds(l, func(v []float64) { m["usage_total_tokens"] = v[0] + v[1] }, "completion_tokens", "prompt_tokens")
	}
	naiveNeeds(l, func(v []float64) { m["request_latency"] = (v[1] - v[0]) / 1e6 }, "sent_ns", "last_token_ns")
	naiveNeeds(l, func(v []float64) { m["time_to_first_token"] = (v[1] - v[0]) / 1e6 }, "sent_ns", "first_text_ns")
	naiveNeeds(l, func(v []float64) { m["decode_duration"] = (v[1] - v[0]) / 1e6 }, "first_text_ns", "last_token_ns")
	naiveNeeds(l, func(v []float64) { m["e2e_output_token_throughput"] = v[2] / ((v[1] - v[0]) / 1e9) }, "sent_ns", "last_token_ns", "completion_tokens")
	naiveNeeds(l, func(v []float64) { m["prefill_throughput_per_user"] = v[2] / ((v[1] - v[0]) / 1e9) }, "sent_ns", "first_text_ns", isl)
	naiveNeeds(l, func(v []float64) {
		if v[2] >= 2 {
			m["inter_token_latency"] = (v[1] - v[0]) / (v[2] - 1) / 1e6
			m["output_token_throughput_per_user"] = 1000 / m["inter_token_latency"]
		}
	}, "first_text_ns", "last_token_ns", "completion_tokens")
	return m
}
