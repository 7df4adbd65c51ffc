package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// hostile would run a script, end one, or break a line of one, if any of it were taken as HTML or as JavaScript.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028</style><!--\x1b[31m"

// pageOf writes the page of results in dir, and their summary as it is on disk, or as it is made of the records.
func pageOf(t *testing.T, dir string) string {
	t.Helper()
	s := must.Have(Load(dir))(t)
	var page bytes.Buffer
	must.Do(t, HTML(&page, dir, s))
	return page.String()
}

// dataOf returns what a page shows. It must be well-formed, refer to nothing, and have no more scripts than ours.
func dataOf(t *testing.T, page string) (d chart.Document) {
	t.Helper()
	_, data, _ := strings.Cut(page, `<script type="application/json" id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	must.Do(t, json.Unmarshal([]byte(data), &d))
	frame := regexp.MustCompile(`(?s)(<script[^>]*>).*?</script>`).ReplaceAllString(page, "$1</script>")
	frame = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(frame, "<style></style>")
	expect.Equal(t, strings.Count(frame, "<script"), 3, "scripts")
	for x := xml.NewDecoder(strings.NewReader(frame)); ; {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, frame)
		}
	}
	for _, refers := range []string{"src=", "href=", "url(", "@import"} {
		if strings.Contains(frame, refers) || strings.Contains(page, refers+`"http`) {
			t.Errorf("%s in the page", refers)
		}
	}
	if !strings.Contains(frame, `content="default-src 'none';`) || strings.Contains(page, "NaN,") || strings.Contains(data, "<") || strings.Contains(data, "\u2028") {
		t.Error("a page that may load something, or data that are not escaped")
	}
	return d
}

// hostileRun writes 40 requests to two targets, one of which fails in the second second. Every text is hostile.
func hostileRun(t *testing.T) (dir string) {
	dir = t.TempDir()
	records := make([]record.Record, 40)
	for i := range int64(40) {
		r := &records[i]
		r.Clear()
		at := i * 50e6
		r.Outcome, r.RequestID, r.Session, r.SessionName, r.Turn = record.OK, hostile, i%4, hostile, i/4
		r.Row, r.PlannedNS, r.SentNS, r.Target, r.Instance = i, at, at, "http://a"+hostile, "pod"+hostile
		r.FirstTokenNS, r.LastTokenNS, r.DoneNS, r.InputTokens, r.CompletionTokens = at+20e6, at+30e6, at+30e6, 100+i, 5
		r.Job, r.Depth, r.WaitsFor, r.RecordedCachedTokens = i%4, i%2, hostile, 10
		if i < 4 {
			r.JobName, r.JobRequests, r.JobRecordedNS = hostile+strconv.Itoa(int(i)), 10, 1e9
		}
		if i%2 == 1 {
			r.Target, r.Instance = "http://b", ""
			if i >= 20 {
				r.Outcome, r.Error, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = record.Reset, hostile, record.None, record.None, record.None
			}
		}
	}
	writeRecords(t, dir, WriterOptions{}, records)
	return dir
}

func section(t *testing.T, d chart.Document, title string) chart.Section {
	t.Helper()
	for _, s := range d.Sections {
		if s.Title == title {
			return s
		}
	}
	t.Fatalf("no section %q", title)
	return chart.Section{}
}

// TestHTMLOfKilledRun: there is no summary, and samples of which one failed and the last was cut off.
func TestHTMLOfKilledRun(t *testing.T) {
	dir := hostileRun(t)
	expect.Lacks(t, pageOf(t, dir), "as they report", "a page of servers that nobody read")
	samples := `{"at_ns":-5,"phase":"before","target":"http://a","url":"http://a/metrics","took_ms":1,"engine":"vllm","engines":1,"running":0,"waiting":0,"kv_usage":0.1,"kv_usage_max":0.2}
{"at_ns":500000000,"phase":"during","target":"http://a","url":"http://a/metrics","took_ms":1,"error":"HTTP 500"}
{"at_ns":1000000000,"phase":"during","target":"http://a","url":"http://a/metrics","took_ms":1,"engine":"vllm","engines":1,"running":8,"waiting":2,"kv_usage":0.5,"kv_usage_max":0.5}
{"at_ns":2000000000,"phase":"after","target":"http://a","ur`
	must.Do(t, os.WriteFile(filepath.Join(dir, ServerMetricsName), []byte(samples), 0o644))
	d := dataOf(t, pageOf(t, dir))
	if v := d.Sections[0].Findings[1]; v.Word != "Measurement INVALID (partial run)" || !strings.HasPrefix(d.Sections[0].Findings[0].Lines[0], "http://b failed from 1.05 s on (10 of 10 requests, all by reset") || !strings.HasPrefix(d.Title, "10 of 40 requests failed (25\u00a0%); 1 of 2 servers was down; Measurement INVALID (partial run)") || v.Grade != chart.Bad {
		t.Errorf("verdict %+v", v)
	}
	over := section(t, d, "Over time")
	for _, want := range []string{"Requests/s", "TTFT", "Failed requests", "Requests in the servers, as they report", "KV cache in use"} {
		i := slices.IndexFunc(over.Graphs, func(g chart.Graph) bool { return g.Title == want })
		if i < 0 {
			t.Fatalf("no graph %q", want)
		}
		if g := over.Graphs[i]; len(g.At) != 98 || len(g.Spans) != 1 || g.Spans[0].From != 1.05 || len(g.Series[0].Values) != 98 { // 1.95 s in steps of 20 ms
			t.Errorf("%s: %d places, outage %v", want, len(g.At), g.Spans)
		}
	}
	sum := 0.0
	expect.Equal(t, over.Graphs[0].Series[0].Name, "sent, as planned", "the only line")
	for _, v := range over.Graphs[0].Series[0].Values {
		sum += v * 0.02
	}
	expect.Near(t, sum, 40, 1e-3, "requests over time")
	if targets := section(t, d, "Targets"); len(targets.Graphs) < 4 || !slices.Equal(targets.Graphs[0].Rows, []string{"a" + hostile, "b"}) {
		t.Errorf("targets %q", targets.Graphs[0].Rows)
	}
	var rows []string // of depths, jobs and conversations; those of the records alone
	for _, table := range section(t, d, "Jobs").Tables[1:] {
		rows = append(rows, fmt.Sprint(table.Title, " ", len(table.Rows), " ", strings.HasPrefix(table.Rows[0][0].Text, hostile)))
	}
	expect.List(t, rows, []string{"Depths 2 false", "Longest 4 true", "Sessions 1 true"})
	lanes := section(t, d, "Conversations").Graphs[0]
	if len(lanes.Rows) != 4 || lanes.Rows[0] != hostile || len(lanes.Lanes[0]) != 20 {
		t.Errorf("%d lanes", len(lanes.Rows))
	}
	if row := section(t, d, "Slowest requests").Tables[0].Rows[0]; row[len(row)-1].Text != hostile || row[6].Text != "30.00 ms" {
		t.Errorf("slowest %+v", row)
	}
	s := must.Have(Load(dir))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, ServerMetricsName), []byte("{}\nx\n"), 0o644))
	expect.Error(t, HTML(&bytes.Buffer{}, dir, s), ServerMetricsName+":2: ", "a broken file")
}

// TestPicture: a graph of the page is an SVG of its own, and an unknown name is answered with those there are.
func TestPicture(t *testing.T) {
	dir := hostileRun(t)
	s := must.Have(Load(dir))(t)
	for _, name := range []string{"ttft", "failed-requests", "e2e-distribution", "ttft-by-input-tokens"} {
		var out bytes.Buffer
		must.Do(t, Picture(&out, dir, s, name), name)
		if text := out.String(); !strings.HasPrefix(text, "<svg ") || strings.Contains(text, "<script") {
			t.Errorf("%s: %.300s", name, text)
		}
	}
	if err := Picture(io.Discard, dir, s, "x"); !errors.Is(err, ErrNoPicture) || !strings.Contains(err.Error(), "ttft-distribution") {
		t.Error(err)
	}
}

// TestHTMLOfNothing: a run without a request, and a directory without records.
func TestHTMLOfNothing(t *testing.T) {
	dir := t.TempDir()
	writeRecords(t, dir, WriterOptions{}, nil)
	dataOf(t, pageOf(t, dir))
	var page bytes.Buffer
	must.Do(t, HTML(&page, t.TempDir(), &metrics.Summary{}))
	if d := dataOf(t, page.String()); d.Sections[0].Findings[0].Word != "Measurement INVALID" {
		t.Error("a verdict of nothing")
	}
}

// TestHTMLOfOverload: what the servers cannot carry stands in the title, and once.
func TestHTMLOfOverload(t *testing.T) {
	grew := metrics.Trend{Quantity: metrics.InFlightTrend, First: 30, Last: 200, Overload: true}
	s := &metrics.Summary{Trends: []metrics.Trend{grew}}
	s.AddNotes(0, metrics.NotesOf("trend", "%s", grew.Words()))
	var page bytes.Buffer
	must.Do(t, HTML(&page, t.TempDir(), s))
	d := dataOf(t, page.String())
	expect.Contains(t, d.Title, "; the servers cannot carry the load")
	for _, section := range d.Sections[1:] {
		expect.Equal(t, len(section.Findings), 0, "findings of "+section.Title)
	}
}

// TestTitles: whatever went wrong with the servers, or is too little to tell, stands first in the title and before the
// verdict on the measurement, which is never green. A run without a fault says what was sent, and that it left on time.
func TestTitles(t *testing.T) {
	grew := metrics.Trend{Quantity: metrics.InFlightTrend, First: 30, Last: 200, Overload: true}
	doubled := metrics.Trend{Quantity: "ttft", First: 40, Last: 90, StepS: 12}
	wanted := func(s *metrics.Summary, met bool) {
		s.Verdict.Objectives = []metrics.Objective{{Text: "ttft.p95<100ms", Metric: "ttft.p95", Met: met, Value: new(120.0)}}
	}
	for name, c := range map[string]struct {
		change func(*metrics.Summary)
		want   []string // findings
		title  string
	}{
		"good": {func(*metrics.Summary) {}, nil, "All 1,000 requests answered in 50.0 s at 20.0/s, sent on time; TTFT p50 40.0 ms"},
		"late": {func(s *metrics.Summary) { s.Verdict.Unsafe = make([]metrics.Unsafe, 1) }, nil, "All 1,000 requests answered in 50.0 s at 20.0/s; TTFT p50 40.0 ms"},
		"a closed loop": {func(s *metrics.Summary) {
			s.Run.Concurrency, s.Run.Pace, s.Lateness.SlotsLostShare = 8, "closed loop of 8", new(0.0)
		}, nil, "All 1,000 requests answered in 50.0 s, closed loop of 8; TTFT p50 40.0 ms"},
		"cut short": {func(s *metrics.Summary) { s.Requests.OK = 900 }, nil, "900 of 1,000 requests answered in 50.0 s at 20.0/s, sent on time; TTFT p50 40.0 ms"},
		"few":       {func(s *metrics.Summary) { s.Requests.OK, s.Requests.Planned = 12, 12 }, []string{"Only 12 requests"}, "Only 12 requests; all answered in 50.0 s at 20.0/s, sent on time; TTFT p50 40.0 ms"},
		"overload":  {func(s *metrics.Summary) { s.Trends = []metrics.Trend{grew} }, []string{"The servers cannot carry the load"}, "The servers cannot carry the load; TTFT p50 40.0 ms"},
		"a step":    {func(s *metrics.Summary) { s.Trends = []metrics.Trend{doubled} }, []string{"TTFT p50 rose by a factor of 2.25 at about 12.0 s"}, "TTFT p50 rose by a factor of 2.25 at about 12.0 s; TTFT p50 40.0 ms"},
		"failures": {func(s *metrics.Summary) { s.Requests.Failed, s.Requests.OK = 250, 750 }, []string{"250 of 1,000 requests failed (25 %)"},
			"250 of 1,000 requests failed (25 %); TTFT p50 of the others 40.0 ms"},
		"all failed": {func(s *metrics.Summary) { s.Requests.Failed, s.Requests.OK, s.TTFTMS = 1000, 0, nil }, []string{"All 1,000 requests failed"}, "All 1,000 requests failed"},
		"few, of which some failed": {func(s *metrics.Summary) {
			s.Requests = metrics.Requests{Planned: 12, OK: 9, Failed: 3}
		}, []string{"3 of 12 requests failed (25 %)", "Only 9 requests ended ok"}, "3 of 12 requests failed (25 %); only 9 requests ended ok; TTFT p50 of the others 40.0 ms"},
		"one of four servers": {func(s *metrics.Summary) {
			s.Requests.Failed, s.Requests.OK, s.Targets = 250, 750, make([]metrics.Target, 4)
			s.Outages = []metrics.Outage{{Target: "http://d"}, {Target: "http://d", FromS: 9}}
		}, []string{"250 of 1,000 requests failed (25 %); 1 of 4 servers was down"}, "250 of 1,000 requests failed (25 %); 1 of 4 servers was down; TTFT p50 of the others 40.0 ms"},
		"invalid, one failed": {func(s *metrics.Summary) {
			s.Requests.Failed, s.Requests.OK, s.Verdict.Measurement = 1, 999, metrics.Invalid
		}, []string{"Measurement INVALID", "1 of 1,000 requests failed (0.1 %)"}, "Measurement INVALID; 1 of 1,000 requests failed (0.1 %); TTFT p50 of the others 40.0 ms"},
		"missed": {func(s *metrics.Summary) { wanted(s, false) }, []string{"1 of 1 objective missed: ttft.p95<100ms (120.0 ms)"},
			"1 of 1 objective missed: ttft.p95<100ms (120.0 ms); all 1,000 requests answered in 50.0 s at 20.0/s, sent on time"},
		"goodput": {func(s *metrics.Summary) {
			s.Goodput = &metrics.Goodput{Share: new(0.046), SLO: map[string]float64{"ttft_ms": 500, "tpot_ms": 9}}
		}, nil, "4.6 % of requests had TTFT ≤ 500 ms, TPOT ≤ 9 ms; all 1,000 requests answered in 50.0 s at 20.0/s, sent on time"},
		"a busy machine": {func(s *metrics.Summary) {
			s.Client.LocalServers = &stats.LocalServers{WaitedS: new(20.0)}
			s.AddNotes(0, metrics.NotesOf("local_server", "it waited"))
		}, []string{"The server waited at least 40 % of the run for a core"}, "All 1,000 requests answered in 50.0 s at 20.0/s; the server waited at least 40 % of the run for a core"},
	} {
		s := &metrics.Summary{Requests: metrics.Requests{Planned: 1000, OK: 1000}}
		s.TTFTMS, s.DriftUS = &stats.Percentiles{Count: 1000, P50: 40}, &stats.Percentiles{}
		s.Run.DurationS, s.UnderLoad.RequestsPerS = 50, 20
		s.Verdict.Measurement, s.Verdict.Valid = metrics.Valid, true
		c.change(s)
		found := verdictSection(s, chart.Finding{})
		found.Tiles = NewPictures(nil).tiles(s)
		var words []string
		for _, f := range found.Findings {
			words = append(words, f.Word)
			if f.Grade == chart.Good {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if s.Verdict.Measurement == metrics.Valid {
			expect.Equal(t, words[len(words)-1], "Measurement VALID", name)
			words = words[:len(words)-1]
		}
		expect.List(t, words, c.want, name)
		expect.Equal(t, strings.ReplaceAll(strings.ReplaceAll(headline(s, &found), "~", ""), "\u00a0", " "), c.title, name)
	}
}

// TestStall: of a server that answered nothing for two seconds of forty, the page names the server, the time and what
// was done then. Slow requests all over the run, or nowhere, are no stall.
func TestStall(t *testing.T) {
	for name, c := range map[string]struct {
		slow func(second int) bool
		want string
	}{
		"a stall":       {func(second int) bool { return second == 15 || second == 16 }, "Slow answers at 15–17 s: TTFT up to 2.00 s"},
		"now and then":  {func(second int) bool { return second%8 == 0 }, ""},
		"never":         {func(int) bool { return false }, ""},
		"a slow server": {func(int) bool { return true }, ""},
	} {
		collected := collect.NewCollector([]string{"http://a", "http://b"})
		p := NewPictures(nil)
		var all []float64
		for i := range 400 { // ten a second, by turns
			var r record.Record
			r.Clear()
			r.Outcome, r.Target, r.SentNS, r.PlannedNS = record.OK, []string{"http://a", "http://b"}[i%2], int64(i)*1e8, int64(i)*1e8
			ttft := int64(40e6)
			if i%2 == 1 && c.slow(i/10) {
				ttft = 2e9
			}
			r.FirstTokenNS, r.LastTokenNS, r.DoneNS = r.SentNS+ttft, r.SentNS+ttft, r.SentNS+ttft
			all = append(all, float64(ttft)/1e6)
			collected.Add(&r, i%2)
		}
		s := &metrics.Summary{Targets: make([]metrics.Target, 2)}
		s.TTFTMS, s.Run.DurationS = stats.Describe(all, 1), 40
		s.Actions = []metrics.Action{{AtS: 15, Run: "kill -STOP 1"}, {AtS: 35, Run: "true"}}
		must.Do(t, p.complete(t.TempDir(), s, collected.Timeline()))
		found := p.stall(s)
		expect.Equal(t, found.Word, c.want, name)
		if c.want != "" {
			expect.List(t, found.Lines, []string{"all of them went to b", "action at 15.0 s: kill -STOP 1", "at other times its p99 was at most 40.0 ms, so p99 and max of the run are of this part"})
		}
	}
}

// TestFewValues: a percentile that is the largest value is said to be it.
func TestFewValues(t *testing.T) {
	for n, want := range map[int64]string{9: "~5.00 ms ~5.00 ms – – – – 5.00 ms 5.00 ms", 500: "5.00 ms 5.00 ms 5.00 ms 5.00 ms ~5.00 ms – 5.00 ms 5.00 ms"} {
		var s metrics.Summary
		s.TTFTMS = &stats.Percentiles{Count: n, P50: 5, P75: 5, P90: 5, P95: 5, P99: 5, P999: 5, Max: 5, Mean: 5}
		var texts []string
		for _, cell := range latencyTable(&s).Rows[0][2:] {
			texts = append(texts, cell.Text)
		}
		expect.Equal(t, strings.Join(texts, " "), want, n)
	}
}

// TestFewValuesOfParts: percentiles of an owner, a server or a job are marked by how many answers they are of.
func TestFewValuesOfParts(t *testing.T) {
	table := chart.Table{Head: []string{"name", "requests", "failed", "ttft_ms.p50", "ttft_ms.p99", "hits"}}
	for _, n := range [][2]string{{"1,000", "100"}, {"700", "100"}, {"20", "10"}} {
		table.Rows = append(table.Rows, chart.Texts("a", n[0], n[1], "5.0", "9.0", "1 %"))
	}
	s := chart.Section{Tables: []chart.Table{table}}
	nameTables(&s)
	for i, want := range []string{"5.0 9.0 1 %", "5.0 ~9.0 1 %", "~5.0 ~9.0 1 %"} {
		row := table.Rows[i]
		expect.Equal(t, row[3].Text+" "+row[4].Text+" "+row[5].Text, want, "row %d", i)
	}
}

// value reads a number of the page back: its value in the unit of the summary, and how much its last digit is worth.
func value(t *testing.T, text, unit string) (v, digit float64) {
	t.Helper()
	number, of, _ := strings.Cut(strings.TrimPrefix(text, "~"), " ")
	plain := strings.ReplaceAll(number, ",", "")
	v, err := strconv.ParseFloat(plain, 64)
	must.Do(t, err)
	_, decimals, _ := strings.Cut(plain, ".")
	scale := map[string]float64{"": 1, "ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3, "%": 0.01}[of]
	if unit == "us" {
		scale *= 1e3
	} else if unit == "s" {
		scale /= 1e3
	}
	return v * scale, math.Pow(10, -float64(len(decimals))) * scale
}

// TestNumbersOfHTML compares every number of the page with what summary.json has of it.
func TestNumbersOfHTML(t *testing.T) {
	for name, s := range map[string]*metrics.Summary{"normal": normalRun(), "failed": failedRun(), "partial": partialRun()} {
		var page bytes.Buffer
		s.UnderLoad = metrics.UnderLoad{UntilS: 51.2, Throughput: metrics.Throughput{RequestsPerS: 214, InputTokensPerS: 9876, OutputTokensPerS: 543}}
		must.Do(t, HTML(&page, t.TempDir(), s))
		d := dataOf(t, page.String())
		var summary map[string]any
		must.Do(t, json.Unmarshal(must.Have(json.Marshal(s))(t), &summary))
		at := func(path ...string) any {
			var v any = summary
			for _, key := range path {
				inside, _ := v.(map[string]any)
				v = inside[key]
			}
			return v
		}
		compared := 0
		same := func(what, text, unit string, want any) {
			t.Helper()
			got, digit := value(t, text, unit)
			if number, is := want.(float64); !is || math.Abs(got-number) > 0.501*digit {
				t.Errorf("%s, %s: %q is %v, want %v", name, what, text, got, want)
			}
			compared++
		}
		for _, row := range section(t, d, "Latencies").Tables[0].Rows {
			key, unit := strings.ToLower(row[0].Text), "ms"
			key = strings.Replace(key, " from the planned time", "_planned", 1)
			if key == "drift" {
				unit = "us"
			}
			same(key, row[1].Text, "", at(key+"_"+unit, "count"))
			for i, p := range []string{"p50", "p75", "p90", "p95", "p99", "p999", "max", "mean"} {
				same(key+" "+p, row[2+i].Text, unit, at(key+"_"+unit, p))
			}
		}
		paths := map[string]struct{ path, unit string }{
			"requests": {"requests planned", ""}, "ok": {"requests ok", ""}, "failed": {"requests failed", ""}, "seconds": {"run duration_s", ""},
			"ok requests/s": {"under_load requests_per_s", ""}, "input tokens/s": {"under_load input_tokens_per_s", ""}, "seconds under load": {"under_load until_s", ""},
			"output tokens/s": {"under_load output_tokens_per_s", ""}, "in flight, mean": {"in_flight_mean", ""},
			"good requests": {"goodput requests", ""}, "goodput": {"goodput share", ""}, "good requests/s": {"goodput requests_per_s", ""},
			"prefix hits": {"prefix_cache hit_ratio", ""}, "prefix hits, as reported": {"prefix_cache reported_hit_ratio", ""}, "ideal prefix hits, as placed": {"prefix_cache expected_hit_ratio", ""},
			"preemptions": {"server_metrics all preemptions", ""}, "CPU taken by the host": {"client stolen_share", ""},
		}
		for _, tile := range d.Sections[0].Tiles {
			path, known := map[string]string{
				"TTFT p50": "ttft_ms p50", "TPOT p50": "tpot_ms p50", "requests/s": "under_load requests_per_s", "ok requests/s": "under_load requests_per_s", "prefix hits": "prefix_cache hit_ratio",
				"failed": "requests failed", "goodput": "goodput share", "objectives met": "",
			}[tile.Name]
			unit := ""
			if strings.HasSuffix(path, "p50") {
				unit = "ms"
			}
			if path != "" {
				same("tile "+tile.Name, tile.Value, unit, at(strings.Fields(path)...))
			} else if !known {
				t.Errorf("%s: nobody knows the tile %q", name, tile.Name)
			}
		}
		for _, fact := range section(t, d, "Numbers").Facts {
			if p, is := paths[fact[0]]; is {
				same(fact[0], fact[1], p.unit, at(strings.Fields(p.path)...))
			} else if !strings.HasPrefix(fact[0], "missed ") && fact[0] != "sent again" {
				t.Errorf("%s: no number of the summary for %q", name, fact[0])
			}
		}
		if name == "normal" && compared < 40 {
			t.Errorf("%d numbers were compared", compared)
		}
	}
}

// TestHTMLInBrowser: the browser draws all graphs, shows hostile texts as texts, and finds no fault.
func TestHTMLInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil || testing.Short() {
		t.Skip("needs chromium, and is left out of -short")
	}
	page := pageOf(t, hostileRun(t))
	d := dataOf(t, page)
	graphs := 0
	for _, s := range d.Sections {
		graphs += len(s.Graphs)
	}
	dom := domOf(t, browser, page)
	expect.Equal(t, strings.Count(dom, "<canvas"), graphs, "pictures of graphs")
	if strings.Contains(dom, "<img") || strings.Count(dom, "<script") != 3 || !strings.Contains(dom, "&lt;img src=x onerror") {
		t.Error("a hostile text became an element")
	}
	for _, row := range slices.Concat(section(t, d, "Failures").Tables[0].Rows, section(t, d, "Latencies").Tables[0].Rows) {
		if text := row[2].Text; !strings.Contains(dom, fmt.Sprintf(">%s</td>", text)) {
			t.Errorf("the page does not show %q", text)
		}
	}
}

// domOf is what a browser makes of a page, in whose console nothing may stand.
func domOf(t *testing.T, browser, page string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	must.Do(t, os.WriteFile(name, []byte(page), 0o644))
	c := exec.CommandContext(t.Context(), browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+name)
	var said bytes.Buffer
	c.Stderr = &said
	dom := string(must.Have(c.Output())(t))
	expect.Lacks(t, said.String(), "CONSOLE", "the browser's console")
	return dom
}

// TestPageOfNothing: where no request was ever sent, there is no latency, and the page tells of the failures. Its data
// once had null in place of rows, so it stayed white.
func TestPageOfNothing(t *testing.T) {
	var page bytes.Buffer
	must.Do(t, HTML(&page, t.TempDir(), &metrics.Summary{Requests: metrics.Requests{Planned: 150, Failed: 150}}))
	expect.Lacks(t, page.String(), `"rows":null`, "the page's data")
	browser, err := exec.LookPath("chromium")
	if err != nil || testing.Short() {
		t.Skip("the rest needs chromium, and is left out of -short")
	}
	expect.Contains(t, domOf(t, browser, page.String()), "<h1>All 150 requests failed", "the page")
}

// TestPageOfUnfinishedJobs: if no job has finished, the jobs have fields and no distributions.
func TestPageOfUnfinishedJobs(t *testing.T) {
	s := &metrics.Summary{Jobs: &metrics.Jobs{Jobs: 8, CutOff: 8}}
	var page bytes.Buffer
	must.Do(t, HTML(&page, t.TempDir(), s))
	table := section(t, dataOf(t, page.String()), "Jobs").Tables[0]
	if table.Title != "" || len(table.Rows) == 0 || table.Rows[0][0].Text != "jobs" || table.Rows[0][1].Text != "8" {
		t.Errorf("%+v", table)
	}
}

// TestStoppedRequestsDidNotFail: what the end of a run left unsent or cancelled is not among failures over time.
func TestStoppedRequestsDidNotFail(t *testing.T) {
	for _, over := range []bool{false, true} {
		p := NewPictures(nil)
		for _, outcome := range []record.Outcome{record.NotSent, record.Cancelled, record.Reset} {
			var r record.Record
			r.Clear()
			r.Outcome = outcome
			p.See(&r)
		}
		c := collect.NewCollector(nil)
		must.Do(t, p.complete(t.TempDir(), &metrics.Summary{Run: metrics.Run{Partial: over}}, c.Timeline()))
		want := "cancelled not_sent reset"
		if over {
			want = "reset"
		}
		expect.Equal(t, strings.Join(slices.Sorted(maps.Keys(p.moments)), " "), want, over)
	}
}

// TestUnsentRequestsAreNotCalledSent: of requests that never left, the graph has what was planned.
func TestUnsentRequestsAreNotCalledSent(t *testing.T) {
	p := NewPictures(nil)
	p.all = []metrics.Step{{ToS: 1, Planned: 3, Requests: 3}, {FromS: 1, ToS: 2, Planned: 2, Requests: 2}}
	for sent, want := range map[int64]string{5: "sent, as planned", 2: "planned (3 were not sent)"} {
		graphs, _ := p.timelines(&metrics.Summary{Requests: metrics.Requests{Planned: 5, Sent: sent}})
		expect.Equal(t, graphs[0].Series[0].Name, want, "sent %d", sent)
	}
}
