package export

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// vllmOf exports to vLLM's format and reads the file.
func vllmOf(t *testing.T, records []record.Record, gapsNS []int64, change func(*metrics.Summary)) object {
	t.Helper()
	dir := resultsDir(t, records, gapsNS, change)
	write(t, dir, "vllm")
	return readObject(t, filepath.Join(dir, "vllm.json"))
}

// TestVLLM: every number against sums over the lines of requests.jsonl.
func TestVLLM(t *testing.T) {
	dir := resultsDir(t, mixed(240), nil, nil)
	write(t, dir, "vllm")
	got := readObject(t, filepath.Join(dir, "vllm.json"))
	lines := sent(t, dir)
	slices.SortFunc(lines, func(a, b object) int { return int(a["planned_ns"].(float64) - b["planned_ns"].(float64)) })
	want, lists := naiveVLLM(lines)
	for key, list := range lists {
		if !slices.EqualFunc(got[key].([]any), list, same) {
			t.Errorf("%s is\n%v, want\n%v", key, got[key], list)
		}
		delete(got, key)
	}
	for _, key := range []string{"burstiness", "label", "max_concurrency", "max_output_tokens_per_s", "request_goodput", "tokenizer_id"} {
		if v, there := got[key]; !there || v != nil {
			t.Errorf("%s is %v (%t), want null", key, v, there)
		}
		delete(got, key)
	}
	for key, w := range map[string]any{
		"date": "20260304-050619", "backend": "openai", "endpoint_type": "openai", "model_id": "llama", "request_rate": "inf", "fastreplay_version": "v1",
	} {
		expect.Equal(t, got[key], w, key)
		delete(got, key)
	}
	delete(got, verdictKey)
	for key := range maps.Keys(got) {
		if got[key] == nil { // no gaps in this run
			delete(got, key)
		}
	}
	sameNumbers(t, "vllm.json", got, want)
}

// same compares two JSON values, numbers but for their last bits.
func same(a, b any) bool {
	x, xOK := a.(float64)
	y, yOK := b.(float64)
	return xOK && yOK && near(x, y) || a == b
}

// naiveVLLM is what the lines amount to by vLLM's formulas.
func naiveVLLM(lines []object) (numbers map[string]float64, lists map[string][]any) {
	numbers, lists = map[string]float64{"num_prompts": 240, "duration": 12.5}, map[string][]any{}
	values := map[string][]float64{}
	for _, l := range lines {
		ok := l["outcome"] == "ok"
		add := func(list, distribution string, scale float64) func(v float64) {
			return func(v float64) {
				lists[list][len(lists[list])-1] = v
				if ok && distribution != "" {
					values[distribution] = append(values[distribution], v*scale)
				}
			}
		}
		for _, key := range []string{"input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times"} {
			lists[key] = append(lists[key], nil)
		}
		if !ok {
			add("output_lens", "", 1)(0)
			add("latencies", "", 1)(0)
			add("ttfts", "", 1)(0)
		}
		isl := "prompt_tokens"
		if l[isl] == nil {
			isl = "recorded_input_tokens"
		}
		naiveNeeds(l, func(v []float64) { add("input_lens", "input", 1)(v[0]) }, isl)
		naiveNeeds(l, func(v []float64) { add("ttfts", "ttft", 1000)((v[1] - v[0]) / 1e9) }, "sent_ns", "first_token_ns")
		naiveNeeds(l, func(v []float64) { add("start_times", "", 1)(v[0] / 1e9) }, "planned_ns")
		naiveNeeds(l, func(v []float64) { add("start_times", "start", 1)(v[0] / 1e9) }, "sent_ns")
		naiveNeeds(l, func(v []float64) { add("queue_times", "", 1)((v[1] - v[0]) / 1e9) }, "planned_ns", "sent_ns")
		if !ok {
			lists["errors"] = append(lists["errors"], fmt.Sprint(l["outcome"], ": ", l["error"]))
			numbers["failed"]++
			continue
		}
		lists["errors"] = append(lists["errors"], "")
		numbers["completed"]++
		naiveNeeds(l, func(v []float64) { add("output_lens", "output", 1)(v[0]) }, "completion_tokens")
		naiveNeeds(l, func(v []float64) { add("latencies", "e2el", 1000)((v[1] - v[0]) / 1e9) }, "sent_ns", "last_token_ns")
		naiveNeeds(l, func(v []float64) {
			if v[2] > 1 {
				values["tpot"] = append(values["tpot"], (v[1]-v[0])/1e6/(v[2]-1))
			}
		}, "first_token_ns", "last_token_ns", "completion_tokens")
	}
	input, output := naiveMean(values["input"])*float64(len(values["input"])), naiveMean(values["output"])*float64(len(values["output"]))
	numbers["total_input_tokens"], numbers["total_output_tokens"] = input, output
	numbers["request_throughput"], numbers["output_throughput"], numbers["total_token_throughput"] = numbers["completed"]/12.5, output/12.5, (input+output)/12.5
	for _, name := range []string{"ttft", "tpot", "e2el"} {
		v := values[name]
		numbers["mean_"+name+"_ms"], numbers["median_"+name+"_ms"], numbers["std_"+name+"_ms"] = naiveMean(v), naivePercentile(v, 50), naiveStd(v)
		for _, q := range []float64{50, 90, 95, 99} {
			numbers[fmt.Sprintf("p%v_%s_ms", q, name)] = naivePercentile(v, q)
		}
	}
	for _, at := range values["start"] { // the most are under way as one starts
		under := 0.0
		for i, start := range values["start"] {
			if start <= at && at < start+values["e2el"][i]/1000 {
				under++
			}
		}
		numbers["max_concurrent_requests"] = max(numbers["max_concurrent_requests"], under)
	}
	return numbers, lists
}

// TestVLLMTraffic: what released the requests, in vLLM's words.
func TestVLLMTraffic(t *testing.T) {
	half := 0.5
	for name, c := range map[string]struct {
		arrival     *metrics.Arrival
		concurrency string
		want        object
	}{
		"trace time":  {nil, "", object{"request_rate": "inf", "burstiness": nil, "max_concurrency": nil}},
		"closed loop": {nil, "8", object{"request_rate": "inf", "burstiness": nil, "max_concurrency": 8.0}},
		"constant":    {&metrics.Arrival{Process: "constant", PerS: 30}, "", object{"request_rate": 30.0, "burstiness": nil}},
		"poisson":     {&metrics.Arrival{Process: "poisson", PerS: 30}, "4", object{"request_rate": 30.0, "burstiness": 1.0, "max_concurrency": 4.0}},
		"gamma":       {&metrics.Arrival{Process: "gamma", PerS: 30, Burstiness: &half}, "", object{"request_rate": 30.0, "burstiness": 0.5}},
		"ramp": {
			&metrics.Arrival{Process: "constant", FromPerS: 10, PerS: 30, RampS: 60}, "",
			object{"request_rate": "inf", "ramp_up_strategy": "linear", "ramp_up_start_rps": 10.0, "ramp_up_end_rps": 30.0},
		},
	} {
		got := vllmOf(t, []record.Record{answered(0)}, nil, func(i *metrics.Summary) {
			i.Run.Arrival = c.arrival
			if c.concurrency != "" {
				i.Run.Options = map[string]any{"concurrency": c.concurrency}
			}
		})
		for key, want := range c.want {
			if v, there := got[key]; !there || v != want {
				t.Errorf("%s: %s is %v (%t), want %v", name, key, v, there, want)
			}
		}
		if _, there := got["ramp_up_strategy"]; there != (name == "ramp") {
			t.Errorf("%s: ramp_up_strategy is there: %t", name, there)
		}
	}
}

// TestVLLMAbsent: what is not known is null, never 0.
func TestVLLMAbsent(t *testing.T) {
	r := answered(0)
	r.FirstTokenNS, r.FirstTextNS = record.None, record.None
	r.InputTokens, r.PromptTokens, r.CompletionTokens, r.TokensFrom = record.None, record.None, record.None, record.TokensUnknown
	got := vllmOf(t, []record.Record{r}, nil, func(i *metrics.Summary) { i.Run.Model, i.Run.API, i.Run.Partial = "", "", true })
	for _, key := range []string{
		"model_id", "backend", "total_input_tokens", "total_output_tokens", "output_throughput", "total_token_throughput",
		"mean_ttft_ms", "p99_ttft_ms", "std_tpot_ms", "median_itl_ms",
	} {
		if v, there := got[key]; !there || v != nil {
			t.Errorf("%s is %v (%t), want null", key, v, there)
		}
	}
	for _, key := range []string{"ttfts", "input_lens", "output_lens"} {
		if list := got[key].([]any); len(list) != 1 || list[0] != nil {
			t.Errorf("%s is %v, want a null", key, list)
		}
	}
	if got["partial"] != true || got["completed"] != 1.0 || got["mean_e2el_ms"] == nil {
		t.Errorf("partial %v, completed %v, mean_e2el_ms %v", got["partial"], got["completed"], got["mean_e2el_ms"])
	}
}

// TestMostAtOnce: a request that ends as another starts is not beside it.
func TestMostAtOnce(t *testing.T) {
	for _, c := range []struct {
		spans [][2]float64 // start, latency
		want  int
	}{
		{nil, 0},
		{[][2]float64{{0, 1}}, 1},
		{[][2]float64{{1, 1}, {0, 1}, {2, 1}}, 1},
		{[][2]float64{{0, 3}, {1, 1}, {2, 2}, {2.5, .25}}, 3},
	} {
		var all vllmRequests
		for _, s := range c.spans {
			all = append(all, vllmRequest{values: [vllmColumns]float64{startTime: s[0], endToEnd: s[1]}})
		}
		expect.Equal(t, all.mostAtOnce(), c.want, c.spans)
	}
}

// TestGoodput: both tools count the requests that met every SLO.
func TestGoodput(t *testing.T) {
	slos := must.Have(metrics.ParseSLOs("ttft:4.5 e2e:90"))(t)
	all := []record.Record{answered(0), answered(1), answered(2), answered(3)}
	all[1].LastTokenNS += 1e6 // too long
	all[3].Outcome, all[3].Error = record.Reset, "lost"
	dir := resultsDir(t, all, nil, nil)
	s := must.Have(report.Load(dir, slos...))(t)
	for _, name := range Names() {
		must.Have(Write(dir, name, Paths(dir, []string{name}), s))(t)
	}
	aiperf, vllm := readObject(t, filepath.Join(dir, "profile_export_aiperf.json")), readObject(t, filepath.Join(dir, "vllm.json"))
	seconds := aiperf["benchmark_duration"].(object)["avg"].(float64)
	for tag, want := range map[string]aiperfScalar{"good_request_count": {"requests", 2}, "good_request_fraction": {"ratio", .5}, "goodput": {"requests/sec", 2 / seconds}} {
		if got := aiperf[tag].(object); got["unit"] != want.Unit || !near(got["avg"].(float64), want.Avg) {
			t.Errorf("%s is %v, want %v", tag, got, want)
		}
	}
	expect.Equal(t, vllm["request_goodput"], 2/12.5, "request_goodput")
}
