package export

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// TestAIPerfRecords: every line against the record that it was made of.
func TestAIPerfRecords(t *testing.T) {
	dir := resultsDir(t, mixed(240), nil, nil)
	write(t, dir, "aiperf")
	want, got := sent(t, dir), readObjects(t, filepath.Join(dir, "profile_export.jsonl"))
	if len(got) != len(want) || len(got) != 220 {
		t.Fatalf("%d lines, want the %d requests that were sent", len(got), len(want))
	}
	for i, l := range want {
		what := fmt.Sprintf("row %v, %v", l["row"], l["outcome"])
		values := object{}
		for tag, v := range got[i]["metrics"].(object) {
			values[tag] = v.(object)["value"]
		}
		sameNumbers(t, what, values, naiveAIPerf(l))
		checkAIPerfError(t, what, l, got[i])
		checkAIPerfMetadata(t, what, l, got[i]["metadata"].(object))
	}
	sessions := map[any]int{}
	for i, l := range want {
		key := any(fmt.Sprint("no session ", i))
		if l["session"] != nil {
			key = l["session"]
		}
		if _, ok := sessions[key]; !ok {
			sessions[key] = len(sessions)
		}
		if n := got[i]["metadata"].(object)["session_num"]; n != float64(sessions[key]) {
			t.Errorf("line %d: session_num %v, want %d", i, n, sessions[key])
		}
	}
}

func checkAIPerfError(t *testing.T, what string, l, got object) {
	t.Helper()
	why, _ := got["error"].(object)
	expect.Equal(t, why == nil, l["outcome"] == "ok", "%s: error %v", what, got["error"])
	if why == nil {
		return
	}
	want := object{"type": l["outcome"], "message": l["error"]}
	switch l["outcome"] {
	case "http_error":
		want["code"] = l["status"]
	case "cancelled":
		want["code"], want["type"] = 499.0, "RequestCancellationError"
	}
	if !maps.Equal(why, want) {
		t.Errorf("%s: error %v, want %v", what, why, want)
	}
}

func checkAIPerfMetadata(t *testing.T, what string, l, got object) {
	t.Helper()
	epoch := func(key string) any {
		ns, ok := num(l, key)
		if !ok {
			return nil
		}
		return float64(started.UnixNano() + int64(ns))
	}
	start, end := epoch("sent_ns"), epoch("done_ns")
	if start == nil {
		start = epoch("planned_ns")
	}
	for _, key := range []string{"last_token_ns", "headers_ns", "written_ns", "planned_ns"} {
		if end == nil {
			end = epoch(key)
		}
	}
	want := object{
		"x_request_id": l["request_id"], "conversation_id": nil, "turn_index": 0.0, "request_start_ns": start, "request_end_ns": end, "request_ack_ns": nil,
		"worker_id": "fastreplay", "record_processor_id": "fastreplay", "benchmark_phase": "profiling", "was_cancelled": l["outcome"] == "cancelled", "cancellation_time_ns": nil,
		"session_num": got["session_num"],
	}
	if s, ok := num(l, "session"); ok {
		want["conversation_id"], want["turn_index"] = strconv.Itoa(int(s)), l["turn"].(float64)-1
	}
	if name, ok := l["session_name"]; ok {
		want["conversation_id"] = name
	}
	if l["first_token_ns"] != nil {
		want["request_ack_ns"] = epoch("headers_ns")
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: metadata\n%v, want\n%v", what, got, want)
	}
}

// TestAIPerfSummary: every aggregate against sums over the lines of requests.jsonl.
func TestAIPerfSummary(t *testing.T) {
	dir := resultsDir(t, mixed(240), nil, nil)
	write(t, dir, "aiperf")
	got := readObject(t, filepath.Join(dir, "profile_export_aiperf.json"))
	values, units := map[string][]float64{}, aiperfUnits(t, dir)
	ok, failed, first, last := 0.0, 0.0, []float64{}, []float64{}
	var drift, perOutput []float64
	for _, l := range sent(t, dir) {
		for tag, v := range naiveAIPerf(l) {
			values[tag] = append(values[tag], v)
		}
		if l["outcome"] != "ok" {
			failed++
			continue
		}
		ok++
		first, last = append(first, l["sent_ns"].(float64)), append(last, l["last_token_ns"].(float64))
		drift = append(drift, l["drift_ns"].(float64)/1e6)
		naiveNeeds(l, func(v []float64) { perOutput = append(perOutput, (v[1]-v[0])/1e9/v[2]) }, "sent_ns", "last_token_ns", "completion_tokens")
	}
	for tag, v := range values {
		want := map[string]float64{"avg": naiveMean(v), "min": naiveMin(v), "max": naiveMax(v), "std": naiveStd(v), "count": float64(len(v)), "sum": naiveMean(v) * float64(len(v))}
		for _, q := range []float64{1, 5, 10, 25, 50, 75, 90, 95, 99} {
			want[fmt.Sprint("p", q)] = naivePercentile(v, q)
		}
		stats, _ := got[tag].(object)
		expect.Equal[any](t, stats["unit"], units[tag], "%s: unit", tag)
		delete(stats, "unit")
		sameNumbers(t, tag, stats, want)
		delete(got, tag)
	}
	sum := func(tag string) float64 { return naiveMean(values[tag]) * float64(len(values[tag])) }
	seconds := (naiveMax(last) - naiveMin(first)) / 1e9
	lag := func(q float64) float64 { return naivePercentile(drift, q) - naiveMin(drift) }
	scalars := map[string]float64{
		"e2e_normalized_interactivity_p75": 1 / naivePercentile(perOutput, 75), "e2e_normalized_interactivity_p90": 1 / naivePercentile(perOutput, 90),
		"request_count": ok, "error_request_count": failed, "completed_request_count": ok + failed, "request_error_rate": 100 * failed / (ok + failed), "benchmark_duration": seconds,
		"request_throughput": ok / seconds, "input_token_throughput": sum("input_sequence_length") / seconds, "output_token_throughput": sum("output_sequence_length") / seconds,
		"total_token_throughput": (sum("input_sequence_length") + sum("output_sequence_length")) / seconds,
		"total_isl":              sum("input_sequence_length"), "total_osl": sum("output_sequence_length"), "total_error_isl": sum("error_isl"),
		"total_usage_prompt_tokens": sum("usage_prompt_tokens"), "total_usage_completion_tokens": sum("usage_completion_tokens"), "total_usage_total_tokens": sum("usage_total_tokens"),
		"total_usage_prompt_cache_read_tokens": sum("usage_prompt_cache_read_tokens"),
		"overall_usage_prompt_cache_read_pct":  100 * sum("usage_prompt_cache_read_tokens") / sum("usage_prompt_tokens"),
		"replay_sched_lag_p50":                 lag(50), "replay_sched_lag_p90": lag(90), "replay_sched_lag_p99": lag(99), "replay_sched_degraded": 0,
	}
	averages := object{}
	for tag, v := range got {
		if scalar, isScalar := v.(object); isScalar && len(scalar) == 2 {
			averages[tag] = scalar["avg"]
			delete(got, tag)
		}
	}
	sameNumbers(t, "of the run", averages, scalars)
	errors := got["error_summary"].([]any)
	delete(got, "error_summary")
	delete(got, verdictKey)
	if want := (object{"schema_version": "1.1", "was_cancelled": false, "start_time": "2026-03-04T05:06:07.000000089Z", "end_time": "2026-03-04T05:06:19.500000089Z"}); !maps.Equal(got, want) {
		t.Errorf("besides metrics %v, want %v", got, want)
	}
	checkErrorSummary(t, errors)
}

// aiperfUnits are the units that the lines have.
func aiperfUnits(t *testing.T, dir string) map[string]string {
	units := map[string]string{}
	for _, l := range readObjects(t, filepath.Join(dir, "profile_export.jsonl")) {
		for tag, v := range l["metrics"].(object) {
			units[tag] = v.(object)["unit"].(string)
		}
	}
	return units
}

func checkErrorSummary(t *testing.T, errors []any) {
	t.Helper()
	got := map[string]float64{}
	for _, e := range errors {
		details := e.(object)["error_details"].(object)
		got[fmt.Sprint(details["code"], " ", details["type"], " ", details["message"])] = e.(object)["count"].(float64)
	}
	want := map[string]float64{
		"503 http_error too busy <&>": 20, "<nil> reset connection reset by the server": 20, "<nil> connect_error refused": 20,
		"499 RequestCancellationError the run was stopped": 20,
	}
	if !maps.Equal(got, want) {
		t.Errorf("error_summary %v, want %v", got, want)
	}
}

// TestGaps: the gaps between chunks come from the histograms, and the exact ones from the summary.
func TestGaps(t *testing.T) {
	gaps := make([]int64, 1000)
	for i := range gaps {
		gaps[i] = int64(i+1) * 20_000
	}
	dir := resultsDir(t, []record.Record{answered(0)}, gaps, nil)
	write(t, dir, "aiperf")
	write(t, dir, "vllm")
	chunks, vllm := readObject(t, filepath.Join(dir, "profile_export_aiperf.json"))["inter_chunk_latency"].(object), readObject(t, filepath.Join(dir, "vllm.json"))
	for key, want := range map[string]float64{
		"avg": 10.01, "min": .02, "max": 20, "p1": .2, "p25": 5, "p50": 10, "p99": 19.8, "std": 5.7735, "count": 1000, "sum": 10010,
		"mean_itl_ms": 10.01, "median_itl_ms": 10, "std_itl_ms": 5.7735, "p90_itl_ms": 18, "p99_itl_ms": 19.8,
	} {
		v, ok := chunks[key].(float64)
		if !ok {
			v, ok = vllm[key].(float64)
		}
		if !ok || v < want*.999 || v > want*1.001 {
			t.Errorf("%s is %v, want %v within 0.1 %%", key, v, want)
		}
	}
	if _, there := vllm["itls"]; there || chunks["unit"] != "ms" {
		t.Errorf("itls: %v, but the gaps of single requests are not known; unit %v", there, chunks["unit"])
	}
}

// TestAIPerfAbsent: where nothing succeeded, or little is known, there is less in the file and no 0.
func TestAIPerfAbsent(t *testing.T) {
	failed := answered(0)
	failed.Outcome, failed.Status, failed.Error, failed.LastTokenNS = record.HTTPError, 500, "broken", record.None
	empty := answered(0)
	empty.FirstTokenNS, empty.FirstTextNS = record.None, record.None
	empty.InputTokens, empty.PromptTokens, empty.CompletionTokens, empty.CachedTokens = record.None, record.None, record.None, record.None
	empty.TokensFrom = record.TokensUnknown
	rated := func(i *metrics.Summary) { i.Run.Pace = "300 requests/s" }
	for name, c := range map[string]struct {
		records []record.Record
		want    []string
	}{
		"nothing sent":     {nil, nil},
		"all failed":       {[]record.Record{failed}, []string{"completed_request_count", "error_isl", "error_request_count", "request_error_rate", "total_error_isl"}},
		"nothing is known": {[]record.Record{empty}, []string{"benchmark_duration", "completed_request_count", "request_count", "request_error_rate", "request_latency", "request_throughput"}},
	} {
		dir := resultsDir(t, c.records, nil, rated)
		write(t, dir, "aiperf")
		var tags []string
		for key, v := range readObject(t, filepath.Join(dir, "profile_export_aiperf.json")) {
			if _, isMetric := v.(object); isMetric {
				tags = append(tags, key)
			}
		}
		if slices.Sort(tags); !slices.Equal(tags, c.want) {
			t.Errorf("%s: metrics %q, want %q", name, tags, c.want)
		}
	}
}

// TestAIPerfPlays: a job that is replayed again is another session, with the ideal hits of both and contexts that were too
// long.
func TestAIPerfPlays(t *testing.T) {
	all := []record.Record{answered(0), answered(1), answered(2)}
	for i := range all {
		r := &all[i]
		r.Session, r.SessionName, r.Job, r.Depth, r.ExpectedCachedTokens = 7, "trace_1", int64(3*(i/2)), 0, 60
	}
	failed := answered(3)
	failed.Outcome, failed.Status, failed.Error = record.HTTPError, 400, "This model's maximum context length is 8 tokens"
	dir := resultsDir(t, append(all, failed), nil, nil)
	write(t, dir, "aiperf")
	for i, l := range readObjects(t, filepath.Join(dir, "profile_export.jsonl"))[:3] {
		m := l["metadata"].(object)
		if want := fmt.Sprint(3*(i/2), "-trace_1"); m["session_num"] != float64(i/2) || m["x_correlation_id"] != want || m["conversation_id"] != "trace_1" {
			t.Errorf("line %d: %v, want session %d, %s", i, m, i/2, want)
		}
	}
	got := readObject(t, filepath.Join(dir, "profile_export_aiperf.json"))
	for tag, want := range map[string]float64{"theoretical_prefix_cache_hit": 100 * 60.0 / 101, "context_overflow_count": 1} {
		if v, _ := got[tag].(object)["avg"].(float64); !near(v, want) {
			t.Errorf("%s is %v, want %g", tag, got[tag], want)
		}
	}
}

// TestAIPerfDegraded: a request late by more than half a second at p99 flags the run.
func TestAIPerfDegraded(t *testing.T) {
	all := []record.Record{answered(0), answered(1)}
	all[1].SentNS += int64(2 * time.Second)
	all[1].LastTokenNS += int64(2 * time.Second)
	dir := resultsDir(t, all, nil, nil)
	write(t, dir, "aiperf")
	if got := readObject(t, filepath.Join(dir, "profile_export_aiperf.json")); got["replay_sched_degraded"].(object)["avg"] != 1.0 {
		t.Errorf("replay_sched_degraded is %v", got["replay_sched_degraded"])
	}
}

// TestGapsOfAllTargets: the chunks of every instance count.
func TestGapsOfAllTargets(t *testing.T) {
	dir := resultsDir(t, []record.Record{answered(0)}, nil, nil)
	c := collect.NewCollector([]string{target, "http://127.0.0.1:8001"})
	c.AddGaps(0, []int64{1e6, 2e6})
	c.AddGaps(1, []int64{3e6})
	must.Do(t, report.WriteHistograms(dir, c, started, started))
	r := must.Have(load(dir, nil))(t)
	if s := r.chunkStats(); s.Count != 3 || s.Max < 2.99 || s.Min > 1.01 {
		t.Errorf("got %+v, want 3 gaps of 1 to 3 ms", s)
	}
}
