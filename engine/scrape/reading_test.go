package scrape

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// unreported stands for a quantity that the server does not have.
var unreported = math.NaN()

// TestServers reads pages as servers of each kind write them: names, labels and numbers are those of their sources.
func TestServers(t *testing.T) {
	for _, c := range []struct {
		page, engine string
		engines      int
		want         [Quantities]float64
		mostKV       float64
	}{
		{"vllm", "vllm", 2, [Quantities]float64{12, 3, 0.5, unreported, 500710, 1000021, 4, 1000021, 100, 46, 90, 33, 600, 700, 6, 0.75}, 0.75},
		{"vllm_v0", "vllm", 1, [Quantities]float64{2, 1, 0.5, unreported, unreported, unreported, 6, 100, 50, 5, unreported, unreported, unreported, unreported, unreported, unreported}, 0.5},
		{"sglang", "sglang", 2, [Quantities]float64{13, 2, 0.4, unreported, 3208, 4096, 48, 4096, 7557572, 21, unreported, unreported, 168, 40, 4, 0.05}, 0.6},
		{"tgi", "tgi", 1, [Quantities]float64{4, 7, unreported, unreported, unreported, unreported, unreported, 1234, 8123, 11, unreported, unreported, unreported, unreported, unreported, unreported}, unreported},
		{"trtllm", "trtllm", 1, [Quantities]float64{3, 1, 0.125, unreported, 250, 1000, unreported, 1000, 80, 10, unreported, unreported, unreported, unreported, unreported, unreported}, 0.125},
		{"triton", "triton", 1, [Quantities]float64{6, 1, 0.5, unreported, unreported, unreported, unreported, unreported, unreported, 18, unreported, unreported, unreported, unreported, unreported, unreported}, 0.5},
		{"dynamo", "dynamo", 1, [Quantities]float64{12, 2, unreported, unreported, unreported, unreported, unreported, 5000, 700, 10000, unreported, unreported, unreported, unreported, unreported, unreported}, unreported},
	} {
		page := must.Have(os.ReadFile("testdata/" + c.page + ".prom"))(t)
		r := NewReader()
		for range 2 { // what is kept between pages changes nothing
			got, err := r.Read(page)
			if err != nil || got.Engine != c.engine || got.Engines != c.engines {
				t.Fatalf("%s: %d engines of %q, %v", c.page, got.Engines, got.Engine, err)
			}
			for q, want := range c.want {
				if v := *got.at(Quantity(q)); !same(v, want) {
					t.Errorf("%s: quantity %d is %s, want %v", c.page, q, show(v), want)
				}
			}
			if !same(got.MostKVUsage, c.mostKV) {
				t.Errorf("%s: most KV use %s, want %v", c.page, show(got.MostKVUsage), c.mostKV)
			}
		}
	}
}

func same(got *float64, want float64) bool {
	if got == nil || math.IsNaN(want) {
		return got == nil && math.IsNaN(want)
	}
	return math.Abs(*got-want) < 1e-9
}

func show(v *float64) string {
	if v == nil {
		return "unreported"
	}
	return fmt.Sprint(*v)
}

// TestPagesFollowEachOther: a reader keeps no value of an earlier page.
func TestPagesFollowEachOther(t *testing.T) {
	r := NewReader()
	for _, c := range []struct {
		page    string
		engine  string
		running float64
	}{
		{"vllm:num_requests_running{engine=\"0\"} 5\nvllm:num_requests_running{engine=\"1\"} 6\n", "vllm", 11},
		{"vllm:num_requests_running{engine=\"1\"} 2\n", "vllm", 2},
		{"sglang:num_running_reqs 3\n", "sglang", 3},
		{"up 1\n", "", unreported},
		{"vllm:num_requests_running NaN\n", "", unreported},
		{"vllm:num_requests_running +Inf\n", "", unreported},
		{"vllm:num_requests_running -1\n", "", unreported},
		{"vllm:num_requests_running{engine=\"0\"} -1\nvllm:num_requests_running{engine=\"1\"} 6\n", "vllm", 6},
		{"vllm:num_requests_running{engine=\"0\"} 1e308\nvllm:num_requests_running{engine=\"1\"} 1e308\n", "", unreported},
		{"vllm:num_requests_running 0\n", "vllm", 0},
		{"vllm:num_requests_running{engine=\"0\"} 1\n", "vllm", 1},
	} {
		got, err := r.Read([]byte(c.page))
		if err != nil || got.Engine != c.engine || !same(got.Running, c.running) {
			t.Errorf("%q: %q running %s, %v; want %q, %v", c.page, got.Engine, show(got.Running), err, c.engine, c.running)
		}
	}
	expect.Refused(r.Read([]byte("<html>")))(t, "", "a web page")
}

// TestUseOfTheCacheBelowNothing: such a gauge counts as not reported, beside another that is.
func TestUseOfTheCacheBelowNothing(t *testing.T) {
	got, err := NewReader().Read([]byte("vllm:num_requests_running 3\nvllm:kv_cache_usage_perc -1\n"))
	if err != nil || got.KVUsage != nil || got.MostKVUsage != nil || !same(got.Running, 3) {
		t.Errorf("KV use %s, at most %s, running %s, %v", show(got.KVUsage), show(got.MostKVUsage), show(got.Running), err)
	}
}

// TestTheNextPageCostsLittle: the collector rests during a run.
func TestTheNextPageCostsLittle(t *testing.T) {
	page := must.Have(os.ReadFile("testdata/vllm.prom"))(t)
	r := NewReader()
	read := func() {
		must.Have(r.Read(page))(t)
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 2*float64(Quantities) {
		t.Errorf("%v allocations a page; want a few for what is returned", n)
	}
}

func BenchmarkRead(b *testing.B) {
	one, err := os.ReadFile("testdata/vllm.prom")
	must.Do(b, err)
	var page []byte
	for len(page) < 300<<10 {
		page = append(page, one...)
	}
	r := NewReader()
	b.ReportAllocs()
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if got, err := r.Read(page); err != nil || *got.Running != 12 {
			b.Fatal(got, err)
		}
	}
}

// line is a sample as a test sees it.
type line struct {
	name   string
	labels map[string]string
	value  float64
}

func parse(page string) (lines []line, err error) {
	err = Lines([]byte(page), func(name []byte, labels Labels, value float64) {
		l := line{string(name), map[string]string{}, value}
		for n := range labels.each {
			l.labels[string(n)] = labels.Get(string(n))
		}
		lines = append(lines, l)
	})
	return lines, err
}

func TestLines(t *testing.T) {
	// The example of the format's page, with all it allows.
	page := `# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
# Minimalistic line:
metric_without_timestamp_and_labels 12.47
# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045
	rpc_duration_seconds { quantile = "0.01" , } 3102 ` + "\r" + `
a{}1
b	2	3
c NaN
` // no newline at the end
	want := []line{
		{"http_requests_total", map[string]string{"method": "post", "code": "200"}, 1027},
		{"http_requests_total", map[string]string{"method": "post", "code": "400"}, 3},
		{"msdos_file_access_time_seconds", map[string]string{"path": `C:\DIR\FILE.TXT`, "error": "Cannot find file:\n\"FILE.TXT\""}, 1.458255915e9},
		{"metric_without_timestamp_and_labels", nil, 12.47},
		{"something_weird", map[string]string{"problem": "division by zero"}, math.Inf(1)},
		{"rpc_duration_seconds", map[string]string{"quantile": "0.01"}, 3102},
		{"a", nil, 1}, {"b", nil, 2}, {"c", nil, math.NaN()},
	}
	got, err := parse(page)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d lines, %v; want %d", len(got), err, len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.name != w.name || g.value != w.value && !(math.IsNaN(g.value) && math.IsNaN(w.value)) || len(g.labels) != len(w.labels) {
			t.Errorf("line %d: %+v, want %+v", i, g, w)
		}
		for name, value := range w.labels {
			expect.Equal(t, g.labels[name], value, "line %d: %s", i, name)
		}
	}
}

func TestLinesRefuse(t *testing.T) {
	for _, page := range []string{
		"<!DOCTYPE html>", `{"running":1}`, "a", "a ", "a{", `a{b="c"`, `a{b="c} 1`, `a{b=c} 1`, `a{b="c"d="e"} 1`, `a{="c"} 1`, "a x", "a 1 x", "a 1 2 3", "1a 1",
		"a 1\nb", "a{} ", `a{b="c\"} 1`, `a{b:c="d"} 1`, "a# 1", "ä 1", "a 0x", "[]",
	} {
		if got, err := parse(page); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", page, got, err)
		}
	}
	expect.Refused(parse("ok 1\n\n# c\nbad"))(t, `line 4 is "bad"`)
}

// oracle takes a page apart by regular expressions.
func oracle() func(page string) (lines []line, ok bool) {
	label := `[a-zA-Z_][a-zA-Z0-9_]*[ \t]*=[ \t]*"(?:[^"\\]|\\.)*"`
	whole := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t]*\{((?:[ \t]*` + label + `[ \t]*,)*(?:[ \t]*` + label + `)?[ \t]*)\}[ \t]*|[ \t]+)([^ \t]+)(?:[ \t]+([+-]?[0-9]+))?$`)
	one := regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"`)
	plain := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	return func(page string) (lines []line, ok bool) {
		for _, text := range strings.Split(page, "\n") {
			text = strings.Trim(text, " \t\r")
			if text == "" || text[0] == '#' {
				continue
			}
			m := whole.FindStringSubmatch(text)
			if m == nil {
				return lines, false
			}
			value, err := strconv.ParseFloat(m[3], 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return lines, false
			}
			l := line{name: m[1], labels: map[string]string{}, value: value}
			for _, pair := range one.FindAllStringSubmatch(m[2], -1) {
				if _, twice := l.labels[pair[1]]; !twice {
					l.labels[pair[1]] = plain.Replace(pair[2])
				}
			}
			lines = append(lines, l)
		}
		return lines, true
	}
}

// FuzzLines compares the scanner with regular expressions.
func FuzzLines(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.prom")
	for _, name := range files {
		page := must.Have(os.ReadFile(name))(f)
		for text := range strings.Lines(string(page)) { // short ones, of which the fuzzer makes more in a second
			f.Add(text)
		}
	}
	for _, page := range []string{`a{b="c\\",d="\n\"",} +Inf 12`, "a{}1", "a\t1\t-2\r\n#x", `a{b="}"} 1`, "<html>", "a 1e999", "a{,} 1", `a{b="1",b="2"} 1`} {
		f.Add(page)
	}
	expressions := oracle()
	f.Fuzz(func(t *testing.T, page string) {
		if !utf8.ValidString(page) {
			return // regular expressions take bytes that are no characters for one
		}
		want, ok := expressions(page)
		got, err := parse(page)
		if (err == nil) != ok || len(got) != len(want) {
			t.Fatalf("%q: %d lines, %v; by regular expressions %d, %v", page, len(got), err, len(want), ok)
		}
		for i, w := range want {
			g := got[i]
			if g.name != w.name || math.Float64bits(g.value) != math.Float64bits(w.value) && !(math.IsNaN(g.value) && math.IsNaN(w.value)) || len(g.labels) != len(w.labels) {
				t.Fatalf("%q: line %d is %+v, want %+v", page, i, g, w)
			}
			for name, value := range w.labels {
				must.Equal(t, g.labels[name], value, "%q: %s", page, name)
			}
		}
		_, _ = NewReader().Read([]byte(page))
	})
}

// TestAdaptersSinceTheReadingBefore: vLLM's page keeps a series for each set of adapters that ever ran, with the time at
// which it last did. Those that ran since the page before count, and none that ran earlier.
func TestAdaptersSinceTheReadingBefore(t *testing.T) {
	r := NewReader()
	for _, c := range []struct{ page, want string }{
		{`vllm:lora_requests_info{max_lora="1",running_lora_adapters="old",waiting_lora_adapters=""} 100.5`, "old"},
		{`vllm:lora_requests_info{max_lora="1",running_lora_adapters="old",waiting_lora_adapters=""} 100.5
vllm:lora_requests_info{max_lora="1",running_lora_adapters="a,b",waiting_lora_adapters="c"} 101.25
vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} 1.0175e+02`, "a,b"},
		{`vllm:lora_requests_info{max_lora="1",running_lora_adapters="a,b",waiting_lora_adapters="c"} 101.25
vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} 102`, ""},
		{`vllm:lora_requests_info{max_lora="1",running_lora_adapters="a,b",waiting_lora_adapters="c"} 103
vllm:lora_requests_info{max_lora="1",running_lora_adapters="d",waiting_lora_adapters=""} 104`, "a,b,d"},
	} {
		got, err := r.Read([]byte(c.page + "\n"))
		if err != nil || got.Adapters != c.want {
			t.Errorf("%q (%v), want %q of\n%s", got.Adapters, err, c.want, c.page)
		}
	}
}
