package export

import (
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f := must.Have(os.Open(path))(t)
	defer f.Close()
	return must.Have(csv.NewReader(f).ReadAll())(t)
}

// TestCSV: a cell is what the line of JSON has, and empty where that has null or nothing.
func TestCSV(t *testing.T) {
	records := mixed(60)
	hostile := map[string]string{ // what a server or a trace names, by what the table has of it
		"'=1+1,\"quoted\"\\r\\nand a second line": "=1+1,\"quoted\"\r\nand a second line",
		`'@SUM(1)\x1b[2J`:                         "@SUM(1)\x1b[2J", "'+1": "+1", "'-1": "-1", `\t=1`: "\t=1", "1=1": "1=1",
	}
	shown := slices.Sorted(maps.Keys(hostile))
	for i, name := range shown {
		records[7+i].Error = hostile[name]
	}
	dir := resultsDir(t, records, nil, nil)
	must.Have(Write(dir, "csv", Paths(dir, []string{"csv"}), nil))(t)
	rows := readCSV(t, filepath.Join(dir, "requests.csv"))
	lines := readObjects(t, filepath.Join(dir, report.RequestsName))
	must.Equal(t, len(rows), len(lines)+1, "rows")
	for i, line := range lines {
		for j, key := range rows[0] {
			got := rows[i+1][j]
			want := line[key]
			if n, is := want.(float64); is {
				v, err := strconv.ParseFloat(got, 64)
				expect.Equal(t, err, nil)
				expect.Equal(t, v, n, "row %d, %s", i, key)
			} else if want == nil {
				expect.Equal(t, got, "", "row %d, %s", i, key)
			} else {
				if i := i - 7; key == "error" && i >= 0 && i < len(shown) {
					want = shown[i]
				}
				expect.Equal(t, got, want.(string), "row %d, %s", i, key)
			}
			delete(line, key)
		}
		if len(line) > 0 {
			t.Fatalf("row %d lacks %v", i, line)
		}
	}
}

// judged is a run with objectives of every outcome, with a trace whose name is hostile.
func judged(t *testing.T) (dir string, s *metrics.Summary) {
	t.Helper()
	var all []record.Record
	for row := range int64(40) {
		all = append(all, answered(row))
		all[row].CompletionTokens = all[row].OutputTokens
	}
	all[3].Outcome = record.Reset
	all[3].Error = "|<script>alert(1)</script>|\n::error::forged"
	dir = resultsDir(t, all, nil, func(s *metrics.Summary) {
		s.Workload.Trace = "a<b>&\"'|*_x_*[y](http://e.org)\n@user\\`code`\x1b[31m.jsonl"
	})
	s = must.Have(report.Load(dir))(t)
	s.Limits.Require = []string{"ttft.p50<1s", "ttft.p50<1ms", "ttft.p99<1s", "goodput>=99%", "error_rate<=1%"}
	s.Verdict.Objectives = verdict.Objectives(s, nil)
	return dir, s
}

type suites struct {
	Suite struct {
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"`
		Time     float64 `xml:"time,attr"`
		Cases    []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Error *struct {
				Message string `xml:"message,attr"`
			} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// TestJUnit: each objective is a case; the standard library's parser reads the file.
func TestJUnit(t *testing.T) {
	dir, s := judged(t)
	must.Have(Write(dir, "junit", Paths(dir, []string{"junit"}), s))(t)
	var got suites
	must.Do(t, xml.Unmarshal(must.Have(os.ReadFile(filepath.Join(dir, "junit.xml")))(t), &got))
	suite := got.Suite
	expect.Equal(t, suite.Tests, 6)
	var outcomes []string
	failures, errors := 0, 0
	for _, c := range suite.Cases {
		expect.Equal(t, c.Class, "fastreplay."+report.Title(s))
		switch {
		case c.Failure != nil:
			failures++
			outcomes = append(outcomes, "failure "+c.Name)
			expect.Equal(t, c.Failure.Message == "", false)
		case c.Error != nil:
			errors++
			outcomes = append(outcomes, "error "+c.Name)
		default:
			outcomes = append(outcomes, "ok "+c.Name)
		}
	}
	expect.List(t, outcomes, []string{
		"ok the measurement can be used", "ok ttft.p50<1s", "failure ttft.p50<1ms", "error ttft.p99<1s",
		"failure goodput>=99%", "error error_rate<=1%",
	})
	expect.Equal(t, suite.Failures, failures)
	expect.Equal(t, suite.Errors, errors)
	expect.Near(t, suite.Time, s.Run.DurationS, 1e-9, "time")
}

// TestQuantities: CSV and OpenMetrics have every number that --require knows, in their units.
func TestQuantities(t *testing.T) {
	dir, s := judged(t)
	must.Have(Write(dir, "csv", Paths(dir, []string{"csv"}), s))(t)
	must.Have(Write(dir, "openmetrics", Paths(dir, []string{"openmetrics"}), s))(t)
	page := must.Have(os.ReadFile(filepath.Join(dir, "metrics.txt")))(t)
	if !strings.HasSuffix(string(page), "\n# EOF\n") {
		t.Errorf("the page does not end with # EOF")
	}
	got := map[string]float64{}
	must.Do(t, scrape.Lines(page, func(name []byte, labels scrape.Labels, value float64) {
		got[string(name)+strings.TrimRight(string(labels), "}")] = value
	}))
	rows := readCSV(t, filepath.Join(dir, "summary.csv"))[2:]
	for _, row := range rows {
		value := must.Have(strconv.ParseFloat(row[2], 64))(t)
		expect.Equal(t, *verdict.Value(s, row[0]), value, row[0])
		name := ""
		switch row[1] {
		case "ms":
			latency, statistic, _ := strings.Cut(row[0], ".")
			name = fmt.Sprintf("fastreplay_%s_secondsstatistic=%q", latency, statistic)
			value /= 1e3
		case "share":
			name = "fastreplay_" + row[0] + "_ratio"
		case "rate":
			name = "fastreplay_" + strings.ReplaceAll(row[0], ".", "_") + "econd"
		}
		if v, there := got[name]; !there || math.Abs(v-value) > 1e-12*value {
			t.Errorf("%s is %g (%t), want %g", name, v, there, value)
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d quantities", len(rows))
	}
	for name, want := range map[string]float64{
		`fastreplay_requestsstate="ok"`: 39, `fastreplay_requestsstate="failed"`: 1, "fastreplay_measurement_valid": 1,
		`fastreplay_objective_metobjective="ttft.p50<1s"`: 1, `fastreplay_objective_metobjective="ttft.p50<1ms"`: 0,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %g (%t), want %g", name, v, there, want)
		}
	}
}

// TestMarkdown: the verdict, latencies and objectives are there, and names from outside are no markup.
func TestMarkdown(t *testing.T) {
	dir, s := judged(t)
	must.Have(Write(dir, "markdown", Paths(dir, []string{"markdown"}), s))(t)
	text := string(must.Have(os.ReadFile(filepath.Join(dir, "summary.md")))(t))
	for _, want := range []string{
		"### 1 of 40 failed, measurement VALID: ", "| TTFT | 4.00 ms \\[", "39 ok, 1 failed", "- ✗ ttft.p50&lt;1ms (3.998 ms)", "- ✓ ttft.p50&lt;1s (3.998 ms)",
		"- ? ttft.p99&lt;1s (", "- failed: all by ",
	} {
		expect.Contains(t, text, want, text)
	}
	for _, bad := range []string{"<", "@", "http://", "\n::", "\x1b", "_x_", "[y]"} {
		expect.Lacks(t, text, bad)
	}
}

// TestAnnotations: what fails a job is an error, one line each; what came from a server forges no line.
func TestAnnotations(t *testing.T) {
	_, s := judged(t)
	lines := report.Annotations(s)
	want := []string{
		"::error title=fastreplay::MISSED ttft.p50<1ms (3.998 ms)", "::error title=fastreplay::UNDECIDED ttft.p99<1s (",
		"::error title=fastreplay::MISSED goodput>=99%25 (", "::error title=fastreplay::UNDECIDED error_rate<=1%25 (unknown: 2.5 %25 of too few requests, 662 would tell)",
		"::warning title=fastreplay::FAILED all by ",
	}
	expect.Equal(t, len(lines), len(want), lines)
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) || strings.Contains(line, "\n") {
			t.Errorf("got %q, want %q", line, want[i])
		}
	}
	s.Verdict.Reasons = []metrics.Reason{{Grade: metrics.Invalid, What: "wrong"}}
	expect.Equal(t, report.Annotations(s)[0], "::error title=fastreplay::INVALID wrong")
}

// at is the value at a path of keys, with slashes between.
func at(o object, path string) any {
	var value any = o
	for key := range strings.SplitSeq(path, "/") {
		inner, _ := value.(object)
		value = inner[key]
	}
	return value
}

// TestBenchmarkReport: numbers are those of the summary and of the lines. Its own library checks the schema, in the tests of
// the Python package.
func TestBenchmarkReport(t *testing.T) {
	dir, s := judged(t)
	must.Have(Write(dir, "benchmark-report", Paths(dir, []string{"benchmark-report"}), s))(t)
	got := readObject(t, filepath.Join(dir, "benchmark_report.json"))
	input, longest := 0.0, 0.0
	for _, line := range readObjects(t, filepath.Join(dir, report.RequestsName)) {
		if line["outcome"] == "ok" {
			input += line["prompt_tokens"].(float64)
			longest = max(longest, line["prompt_tokens"].(float64))
		}
	}
	const aggregate = "results/request_performance/aggregate/"
	for path, want := range map[string]float64{
		aggregate + "requests/total":                     40,
		aggregate + "requests/failures":                  1,
		aggregate + "requests/input_length/mean":         input / 39,
		aggregate + "requests/input_length/max":          longest,
		aggregate + "requests/output_length/p50":         20,
		aggregate + "latency/time_to_first_token/p50":    s.TTFTMS.P50,
		aggregate + "latency/time_to_first_token/p99p9":  s.TTFTMS.P999,
		aggregate + "latency/time_per_output_token/mean": s.TPOTMS.Mean,
		aggregate + "latency/request_latency/max":        s.E2EMS.Max,
		aggregate + "throughput/total_token_rate/mean":   s.Throughput.InputTokensPerS + s.Throughput.OutputTokensPerS,
		"scenario/load/standardized/input_seq_len/value": input / 39,
	} {
		if v, is := at(got, path).(float64); !is || !near(v, want) {
			t.Errorf("%s is %v, want %v", path, at(got, path), want)
		}
	}
	expect.Equal(t, at(got, "run/time/start"), any(started.UTC().Format(time.RFC3339Nano)))
	expect.Equal(t, at(got, aggregate+"latency/inter_token_latency"), nil, "without gaps")
}
