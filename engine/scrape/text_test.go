package scrape

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// line is a sample as a test sees it.
type line struct {
	name   string
	labels map[string]string
	value  float64
}

func parse(page string) (lines []line, err error) {
	err = Lines([]byte(page), func(name []byte, labels Labels, value float64) {
		l := line{string(name), map[string]string{}, value}
		labels.each(func(n, _ []byte) bool {
			l.labels[string(n)] = labels.Get(string(n))
			return true
		})
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
			if g.labels[name] != value {
				t.Errorf("line %d: %s is %q, want %q", i, name, g.labels[name], value)
			}
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
	if _, err := parse("ok 1\n\n# c\nbad"); err == nil || !strings.Contains(err.Error(), `line 4 is "bad"`) {
		t.Error(err)
	}
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
		page, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
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
				if g.labels[name] != value {
					t.Fatalf("%q: %s is %q, want %q", page, name, g.labels[name], value)
				}
			}
		}
		_, _ = NewReader().Read([]byte(page))
	})
}
