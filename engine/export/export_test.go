package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

func TestCheck(t *testing.T) {
	expect.Equal(t, Check(Names()), nil)
	err := Check([]string{"vllm", "genai-perf"})
	if err == nil || err.Error() != `"genai-perf" is no export: use one of aiperf, vllm, parquet, csv, markdown, junit, openmetrics, benchmark-report` {
		t.Errorf("got %v", err)
	}
	expect.Refused(Write(t.TempDir(), "genai-perf", nil, nil))(t, "", "an unknown format was written")
}

// TestWriteTwice: an export is never overwritten, and made anew it has the same bytes.
func TestWriteTwice(t *testing.T) {
	dir := resultsDir(t, mixed(60), []int64{1e6, 2e6, 3e6}, nil)
	for _, name := range Names() {
		paths := Paths(dir, []string{name})
		write(t, dir, name)
		if _, err := Write(dir, name, paths, nil); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), paths[0]) {
			t.Errorf("%s a second time: %v", name, err)
		}
		first := map[string][]byte{}
		for _, path := range paths {
			var err error
			if first[path], err = os.ReadFile(path); err != nil || len(first[path]) == 0 {
				t.Fatalf("%s: %d bytes, %v", path, len(first[path]), err)
			}
			must.Do(t, os.Remove(path))
		}
		write(t, dir, name)
		for _, path := range paths {
			if again, _ := os.ReadFile(path); !bytes.Equal(again, first[path]) {
				t.Errorf("%s: other bytes the second time", path)
			}
		}
	}
}

type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.room -= len(p); d.room < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// TestFullDisk: no writer hides that the disk is full, at whatever byte.
func TestFullDisk(t *testing.T) {
	r, err := load(resultsDir(t, mixed(60), []int64{1e6}, nil), nil)
	must.Do(t, err)
	for _, f := range formats() {
		for _, part := range f.files {
			var whole bytes.Buffer
			must.Do(t, part.write(&whole, r))
			for _, room := range []int{0, whole.Len() - 1} {
				if err := part.write(&fullDisk{room}, r); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("%s with room for %d of %d bytes: %v", part.name, room, whole.Len(), err)
				}
			}
			expect.Equal(t, part.write(&fullDisk{whole.Len()}, r), nil, part.name)
		}
	}
}

// TestAllOrNothing: when a file of a format fails, those before it go too, and nothing else does.
func TestAllOrNothing(t *testing.T) {
	r := must.Have(load(resultsDir(t, mixed(12), nil, nil), nil))(t)
	before, _ := os.ReadDir(r.dir)
	f := tool{"some", []file{{"first", writeVLLM}, {"second", func(io.Writer, *results) error { return syscall.ENOSPC }}}}
	paths := []string{filepath.Join(r.dir, "first"), filepath.Join(r.dir, "second")}
	if _, err := f.write(r.dir, paths, nil); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "second") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadDir(r.dir); len(after) != len(before) {
		t.Errorf("%d files before, now %v", len(before), after)
	}
}

// TestNoResults: a directory without results is named.
func TestNoResults(t *testing.T) {
	for _, name := range Names() {
		dir := t.TempDir()
		if _, err := Write(dir, name, Paths(dir, []string{name}), nil); !errors.Is(err, report.ErrNoResults) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// TestKilledRun: of a run that left no summary the records are exported, marked partial, without instants since 1970.
func TestKilledRun(t *testing.T) {
	dir := resultsDir(t, mixed(60), []int64{1e6}, nil)
	for _, name := range []string{report.SummaryName, report.HistogramsName} {
		must.Do(t, os.Remove(filepath.Join(dir, name)))
	}
	write(t, dir, "aiperf")
	write(t, dir, "vllm")
	aiperf := readObject(t, filepath.Join(dir, "profile_export_aiperf.json"))
	if _, there := aiperf["start_time"]; there || aiperf["was_cancelled"] != true || aiperf["request_latency"] == nil {
		t.Errorf("start_time there: %t, was_cancelled %v", there, aiperf["was_cancelled"])
	}
	for _, l := range readObjects(t, filepath.Join(dir, "profile_export.jsonl")) {
		if _, there := l["metadata"].(object)["request_start_ns"]; there {
			t.Fatalf("request_start_ns in %v", l)
		}
	}
	vllm := readObject(t, filepath.Join(dir, "vllm.json"))
	if vllm["date"] != nil || vllm["partial"] != true || vllm["mean_itl_ms"] != nil || vllm["mean_ttft_ms"] == nil {
		t.Errorf("date %v, partial %v, itl %v, ttft %v", vllm["date"], vllm["partial"], vllm["mean_itl_ms"], vllm["mean_ttft_ms"])
	}
}

// TestInvalidIsMarked: each export of a measurement that is invalid says so where its readers let it, and what has no
// place for it is named. That of a valid one says that, too.
func TestInvalidIsMarked(t *testing.T) {
	for _, invalid := range []bool{true, false} {
		dir := resultsDir(t, mixed(60), nil, nil)
		s := must.Have(report.Load(dir))(t)
		s.Verdict = metrics.Verdict{Measurement: metrics.Valid, Valid: true}
		want := "valid"
		if invalid {
			s.Verdict = metrics.Verdict{Measurement: metrics.Invalid, Reasons: []metrics.Reason{{Code: metrics.Warm, Grade: metrics.Invalid, What: "the cache was warm"}}}
			want = "invalid; the cache was warm"
		}
		var unmarked []string
		for _, name := range Names() {
			words := must.Have(Write(dir, name, Paths(dir, []string{name}), s))(t)
			if _, says, found := strings.Cut(words, "; the measurement is INVALID, which "); found {
				unmarked = append(unmarked, says)
			}
		}
		text := func(name string) string { return string(must.Have(os.ReadFile(filepath.Join(dir, name)))(t)) }
		for _, name := range []string{"profile_export_aiperf.json", "vllm.json"} {
			expect.Equal(t, readObject(t, filepath.Join(dir, name))["fastreplay_measurement"], any(want), name)
		}
		about := at(readObject(t, filepath.Join(dir, "benchmark_report.json")), "run/description").(string)
		expect.Equal(t, strings.HasSuffix(about, "; measurement "+want), true, about)
		table := text("requests.parquet")
		size := int(binary.LittleEndian.Uint32([]byte(table[len(table)-8:])))
		foot := (&thriftReader{t, []byte(table[len(table)-8-size:])}).structure()
		expect.Equal(t, fmt.Sprint(foot[5]), "[map[1:fastreplay_measurement 2:"+want+"]]")
		bit := map[bool]string{true: "0", false: "1"}[invalid]
		expect.Equal(t, strings.Join(readCSV(t, filepath.Join(dir, "summary.csv"))[1], ","), "measurement_valid,0 or 1,"+bit)
		expect.Contains(t, text("metrics.txt"), "\nfastreplay_measurement_valid "+bit+"\n")
		expect.Equal(t, strings.Contains(text("summary.md"), "INVALID"), invalid)
		expect.Equal(t, strings.Contains(text("junit.xml"), `<error message="`+want), invalid)
		silent := ""
		if invalid {
			silent = "profile_export.jsonl has no place for|requests.csv has no place for"
		}
		expect.Equal(t, strings.Join(unmarked, "|"), silent)
	}
}

// TestSample: the statistics are numpy's; the wanted values are what it prints.
func TestSample(t *testing.T) {
	s := newSample([]float64{4, 1, math.NaN(), 3, 2, math.Inf(1)})
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"percentile 0", s.percentile(0), 1},
		{"percentile 50", s.percentile(50), 2.5},
		{"percentile 90", s.percentile(90), 3.7},
		{"percentile 99", s.percentile(99), 3.97},
		{"percentile 100", s.percentile(100), 4},
		{"mean", s.mean(), 2.5},
		{"std", s.deviation(), 1.118033988749895},
		{"sum", s.sum(), 10},
		{"percentile of one", sample{7}.percentile(99), 7},
		{"std of one", sample{7}.deviation(), 0},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	none := newSample(nil)
	for name, v := range map[string]float64{"percentile": none.percentile(50), "mean": none.mean(), "std": none.deviation()} {
		if known(v) {
			t.Errorf("%s of nothing is %v", name, v)
		}
	}
}

func TestTotal(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{nan, nan}, nan}, {[]float64{nan, 3, 4}, 7}} {
		if got := total(c.values); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("total of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// The oracle works on the lines of requests.jsonl as encoding/json reads them, by sums over all values for each
// statistic.

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
		isl = "recorded_input_tokens"
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
	naiveNeeds(l, func(v []float64) { m["time_to_first_output_token"] = (max(v[1], v[2]) - v[0]) / 1e6 }, "sent_ns", "first_text_ns", "first_output_ns")
	naiveNeeds(l, func(v []float64) { m["decode_duration"] = (v[1] - v[0]) / 1e6 }, "first_text_ns", "last_token_ns")
	naiveNeeds(l, func(v []float64) { m["e2e_output_token_throughput"] = v[2] / ((v[1] - v[0]) / 1e9) }, "sent_ns", "last_token_ns", "completion_tokens")
	naiveNeeds(l, func(v []float64) { m["prefill_throughput_per_user"] = v[2] / ((v[1] - v[0]) / 1e9) }, "sent_ns", "first_text_ns", isl)
	naiveNeeds(l, func(v []float64) {
		if v[2] >= 2 {
			m["inter_token_latency"] = (v[1] - v[0]) / (v[2] - 1) / 1e6
			m["output_token_throughput_per_user"] = 1000 / m["inter_token_latency"]
		}
	}, "first_text_ns", "last_token_ns", "completion_tokens")
	naiveNeeds(l, func(v []float64) { m["full_decode_duration"] = (v[1] - v[0]) / 1e6 }, "first_text_ns", "done_ns")
	naiveNeeds(l, func(v []float64) {
		if v[2] >= 2 {
			m["full_response_inter_token_latency"] = (v[1] - v[0]) / (v[2] - 1) / 1e6
			m["full_response_output_token_throughput_per_user"] = 1000 / m["full_response_inter_token_latency"]
		}
	}, "first_text_ns", "done_ns", "completion_tokens")
	return m
}
