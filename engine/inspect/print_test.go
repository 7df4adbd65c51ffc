package inspect

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

var update = flag.Bool("update", false, "write the golden pages anew")

func printed(t *testing.T, width int, reports ...*Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Print(&b, reports, width))
	return b.String()
}

// sample analyses a bundled trace, or another of this repository.
func sample(t *testing.T, path string, o Options) *Report {
	t.Helper()
	o.Read.Collect = true
	tr := must.Have(trace.Open(path, o.Read))(t)
	tr.Name = filepath.Base(path)
	return Analyse(tr, o)
}

const samples, malformed = "../../bench/samples/", "../../codec/trace/testdata/"

// TestGolden compares whole pages; make them anew with -update and look at the difference.
func TestGolden(t *testing.T) {
	assumed := Options{Assumed: sched.AssumedLatency{TTFT: 200 * time.Millisecond, TPOT: 10 * time.Millisecond}}
	small := assumed
	small.CacheTokens, small.MaxModelLen = []int64{100_000, 300_000}, 10_000
	lenient := assumed
	lenient.Read.Lenient = true
	reports := map[string][]*Report{
		"bailian":        {sample(t, samples+"bailian.jsonl", assumed)},
		"mooncake":       {sample(t, samples+"mooncake.jsonl", assumed)},
		"mooncake-small": {sample(t, samples+"mooncake-small.jsonl", small)},
		"three":          {sample(t, samples+"bailian.jsonl", assumed), sample(t, samples+"mooncake.jsonl", assumed), sample(t, samples+"mooncake-small.jsonl", assumed)},
		"refused":        {sample(t, malformed+"wrong-block-size.jsonl", assumed)},
		"unit":           {sample(t, malformed+"milliseconds-as-seconds.jsonl", assumed)},
		"bad-rows":       {sample(t, malformed+"many-faults.jsonl", assumed)},
		"lenient":        {sample(t, malformed+"many-faults.jsonl", lenient)},
	}
	for name, r := range reports {
		for _, width := range []int{80, 100} {
			page := printed(t, width, r...)
			checkWidth(t, name, page, width)
			if width == 100 && name != "bailian" && name != "three" {
				continue
			}
			path := filepath.Join("testdata", name+map[int]string{80: "-80.txt", 100: "-100.txt"}[width])
			if *update {
				must.Do(t, os.WriteFile(path, []byte(page), 0o644))
			}
			want := must.Have(os.ReadFile(path))(t)
			expect.Equal(t, page, string(want), "%s differs", path)
		}
	}
}

func checkWidth(t *testing.T, name, page string, width int) {
	t.Helper()
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > width || strings.HasSuffix(line, " ") {
			t.Errorf("%s at %d columns: %q", name, width, line)
		}
	}
}

// TestMalformed: whatever can be read is analysed and printed in every form, the reason first.
func TestMalformed(t *testing.T) {
	files, err := filepath.Glob(malformed + "*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	looked := 0
	for _, path := range files {
		tr, err := trace.Open(path, trace.Options{Collect: true})
		if err != nil {
			continue // codec/trace has the tests of what cannot be read
		}
		looked++
		r := Analyse(tr, Options{})
		if r.Replayable || len(r.Findings) == 0 || r.Findings[0].Severity != Refusal {
			t.Errorf("%s: findings %+v", path, r.Findings)
			continue
		}
		page := printed(t, 80, r)
		said := strings.Join(strings.Fields(page), " ")
		if !strings.Contains(said, "REFUSED: "+r.Findings[0].Text) || !strings.HasSuffix(said, " A replay would refuse "+path+".") {
			t.Errorf("%s:\n%s", path, page)
		}
		var b bytes.Buffer
		expect.Equal(t, HTML(&b, []*Report{r}), nil, path)
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if looked < 10 {
		t.Errorf("only %d could be looked at", looked)
	}
}

// TestAbsentIsNull: a trace without ids and conversations has no such parts, on the page and in JSON.
func TestAbsentIsNull(t *testing.T) {
	r := Analyse(read(t, `{"timestamp":0,"input_length":5,"output_length":3}`, trace.Options{}), Options{})
	text := must.Have(json.Marshal(r))(t)
	for _, key := range []string{"types", "sessions", "blocks", "prefix_cache", "reuse_distance", "context"} {
		if !bytes.Contains(text, []byte(`"`+key+`":null`)) {
			t.Errorf("%s is not null in %s", key, text)
		}
	}
	var arrivals struct {
		Arrivals map[string]any `json:"arrivals"`
	}
	must.Do(t, json.Unmarshal(text, &arrivals))
	for _, key := range []string{"rows_per_s", "interarrival_s", "interarrival_cv", "timeline_rows_per_bin"} {
		if v, known := arrivals.Arrivals[key]; !known || v != nil {
			t.Errorf("%s is %v in %s", key, v, text)
		}
	}
	if !bytes.Contains(text, []byte(`"findings":[]`)) {
		t.Errorf("findings of a clean trace: %s", text)
	}
	page := printed(t, 80, r)
	for _, word := range []string{"session", "block", "LRU", "type", "NaN", "mean rate"} {
		expect.Lacks(t, strings.Replace(page, "tokens a block", "", 1), word, "the page speaks:\n%s", page)
	}
}

// TestManyFilesInBands: more than fit beside each other stand below.
func TestManyFilesInBands(t *testing.T) {
	r := sample(t, samples+"mooncake.jsonl", Options{})
	page := printed(t, 80, r, r, r, r, r)
	expect.Equal(t, strings.Count(page, "  interarrival CV"), 2, "bands of five files:\n%s", page)
	checkWidth(t, "bands", page, 80)
}

// TestTypeNames: a name that would move the cursor is quoted.
func TestTypeNames(t *testing.T) {
	for name, want := range map[string]string{"": "(none)", "text": "text", "搜索": "搜索", "a\x1b[2J": `"a\x1b[2J"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`} {
		expect.Equal(t, typeName(name), want, name)
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{{MaxModelLen: -1}, {Assumed: sched.AssumedLatency{TTFT: -1}}, {CacheTokens: []int64{0, 5}}, {CacheTokens: []int64{5, 3}}} {
		if o.Validate() == nil {
			t.Errorf("%+v is valid", o)
		}
	}
	expect.Equal(t, (&Options{CacheTokens: []int64{1, 5}, MaxModelLen: 1}).Validate(), nil)
}

// TestDeclared: each value of quantities.txt and words.txt is one of the report or computed, and each printer exists.
func TestDeclared(t *testing.T) {
	fill := fillerOf(&Report{})
	isComputed := map[string]bool{}
	source := must.Have(os.ReadFile("quantities.go"))(t)
	for _, key := range regexp.MustCompile(`"([a-z_]+)":? *[:\]]`).FindAllStringSubmatch(string(source), -1) {
		isComputed[key[1]] = true
	}
	gaps := regexp.MustCompile(`\{([^ }]+) ?([^}]*)\}`).FindAllStringSubmatch(strings.SplitN(quantities, "[trace]", 2)[1]+words, -1)
	if len(gaps) < 80 {
		t.Fatalf("%d values", len(gaps))
	}
	for _, gap := range gaps {
		path, printer := gap[1], gap[2]
		if fill.Printers[printer] == nil && printer != "" && !strings.HasPrefix(printer, "many ") {
			t.Errorf("%s: no printer", gap[0])
		}
		if key, is := strings.CutPrefix(path, "."); is {
			if !isComputed[key] {
				t.Errorf("%s: nothing computes it", gap[0])
			}
			continue
		}
		at := reflect.TypeFor[Report]()
		for key := range strings.SplitSeq(strings.Replace(path, "*", "p999", 1), ".") {
			for at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			must.Equal(t, at.Kind(), reflect.Struct, "%s: %s is in no struct", gap[0], key)
			fields := reflect.VisibleFields(at)
			i := slices.IndexFunc(fields, func(f reflect.StructField) bool {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return name == key
			})
			if i < 0 {
				t.Fatalf("%s: no key %s", gap[0], key)
			}
			at = fields[i].Type
		}
	}
}
