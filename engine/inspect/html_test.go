package inspect

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/chart"
)

// pageOf writes the page and returns it with the data in it.
func pageOf(t *testing.T, reports ...*Report) (page string, d chart.Document) {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, HTML(&b, reports))
	page = b.String()
	_, data, _ := strings.Cut(page, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	must.Do(t, json.Unmarshal([]byte(data), &d))
	return page, d
}

func graphOf(t *testing.T, d chart.Document, title string) chart.Graph {
	t.Helper()
	for _, s := range d.Sections {
		for _, g := range s.Graphs {
			if g.Title == title {
				return g
			}
		}
	}
	t.Fatalf("no graph %q", title)
	return chart.Graph{}
}

// TestHTML: words first, then pictures, tables last; names of files and types are never HTML.
func TestHTML(t *testing.T) {
	evil := sample(t, samples+"bailian.jsonl", Options{Instances: 2, LoadBound: 1.25})
	evil.Trace, evil.Types[0].Name = `<script>alert("x")</script>&.jsonl`, "</script><b>"
	for _, c := range []struct {
		reports  []*Report
		sections string
		graphs   int
	}{
		{[]*Report{evil}, "| Arrivals | Lengths | Prefix caches | Conversations | Routing | LRU caches by capacity | All numbers", 16},
		{[]*Report{evil, sample(t, samples+"mooncake.jsonl", Options{})}, "| Arrivals | Lengths | Prefix caches | Conversations | Routing | LRU caches by capacity | All numbers", 29},
		{[]*Report{Analyse(read(t, `{"timestamp":0,"input_length":5,"output_length":3}`, trace.Options{}), Options{})}, "| All numbers", 0},
	} {
		page, d := pageOf(t, c.reports...)
		for _, never := range []string{"<script>alert", "</script><b>", `src="`, "href=\"#", "@import", "NaN,"} {
			expect.Lacks(t, page, never, "the page")
		}
		var titles []string
		graphs := 0
		for i, s := range d.Sections {
			titles = append(titles, s.Title)
			graphs += len(s.Graphs)
			expect.Equal(t, s.Folded, c.graphs > 0 && i >= len(d.Sections)-2, "section %q: folded", s.Title)
			for _, g := range s.Graphs {
				for _, series := range g.Series {
					if len(series.Values) != len(g.At) || len(g.At) < 2 {
						t.Errorf("%s, %s: %d values at %d places", g.Title, series.Name, len(series.Values), len(g.At))
					}
				}
			}
		}
		if got := strings.TrimSpace(strings.Join(titles, " | ")); got != c.sections || graphs != c.graphs {
			t.Errorf("%d graphs, sections %q", graphs, got)
		}
		if first := d.Sections[0].Findings; len(first) == 0 || len(first[0].Lines) == 0 {
			t.Errorf("the page does not begin with words: %+v", d.Sections[0])
		}
	}
	_, d := pageOf(t, evil)
	expect.Contains(t, strings.Join(d.Sections[0].Findings[0].Lines, " "), "would have held 58.84 % of the input tokens")
}

// TestRefusedHTML: a trace that a replay refuses says so first.
func TestRefusedHTML(t *testing.T) {
	r := sample(t, samples+"mooncake.jsonl", Options{})
	r.Replayable, r.Findings = false, []Finding{{Refusal, "why"}, {BadRow, "where"}, {Note, "by the way"}}
	_, d := pageOf(t, r)
	f := d.Sections[0].Findings
	if len(f) != 3 || f[0].Grade != chart.Bad || !strings.HasPrefix(f[0].Word, "A replay would refuse ") || !slices.Equal(f[0].Lines, []string{"why", "where"}) || f[2].Lines[0] != "by the way" {
		t.Errorf("%+v", f)
	}
}

// TestPictures counts again what is drawn, from the trace itself.
func TestPictures(t *testing.T) {
	tr := must.Have(trace.Open(samples+"bailian.jsonl", trace.Options{}))(t)
	r := Analyse(tr, Options{})
	_, d := pageOf(t, r)
	rows, input := make([]float64, timeSteps), make([]float64, timeSteps)
	stepS := float64(tr.SpanNS()) / 1e9 / timeSteps
	active := make([]float64, timeSteps)
	first, last := map[int64]int{}, map[int64]int{}
	for i, ns := range tr.ArrivalNS {
		step := min(timeSteps-1, int(float64(ns)/1e9/stepS+1e-9))
		rows[step]++
		input[step] += float64(tr.InputTokens[i]) / stepS
		if _, there := first[tr.Session[i]]; !there {
			first[tr.Session[i]] = step
		}
		last[tr.Session[i]] = step
	}
	for id := range first {
		for step := first[id]; step <= last[id]; step++ {
			active[step]++
		}
	}
	for title, want := range map[string][]float64{"Rows by time": rows, "Input tokens/s": input, "Conversations by time": active} {
		got := graphOf(t, d, title).Series[0].Values
		for i := range want {
			expect.Near(t, got[i], want[i], 1e-5*want[i], "%s: step %d", title, i)
		}
	}
	for title, lengths := range map[string][]int32{"Input tokens": tr.InputTokens, "Output tokens": tr.OutputTokens} {
		g := graphOf(t, d, title)
		if len(g.At) < 20 || g.X.Log {
			t.Errorf("%s: %d bars, logarithmic %t", title, len(g.At), g.X.Log)
		}
		for k, at := range g.At {
			n, up := 0.0, 0.0
			for _, tokens := range lengths {
				if v := float64(tokens); v < at+g.X.Step/2-1e-3 || k == len(g.At)-1 {
					if up++; v >= at-g.X.Step/2-1e-3 {
						n++
					}
				}
			}
			if math.Abs(g.Series[0].Values[k]-n) > 1e-9 || math.Abs(g.Series[1].Values[k]-up/float64(len(lengths))) > 1e-5 {
				t.Errorf("%s: bar at %v is %v, %v up to it; want %v, %v", title, at, g.Series[0].Values[k], g.Series[1].Values[k], n, up)
			}
		}
	}
	lru := graphOf(t, d, "Share of the input tokens that an LRU cache would have held, by its capacity in tokens")
	for i, at := range lru.At {
		if want := r.Cache.at(int64(at)).TokenRatio; at < 1e5 && math.Abs(lru.Series[0].Values[i]-want) > 1e-5 {
			t.Errorf("an LRU cache of %v tokens: %v, want %v", at, lru.Series[0].Values[i], want)
		}
	}
	expect.Near(t, lru.Series[0].Values[len(lru.At)-1], r.Cache.Infinite.Tokens, 1e-5, "the largest LRU cache holds")
	held, all := 0.0, 0.0
	for step, share := range r.pictures.series[heldTitle][0].Values {
		if rows[step] > 0 {
			held += share * input[step]
			all += input[step]
		}
	}
	expect.Near(t, held/all, r.Cache.Infinite.Tokens, 1e-9, "the steps hold")
}

// TestOutline: outlines of many values have the ranks of all.
func TestOutline(t *testing.T) {
	var many []int64
	for i := range int64(1e6) {
		many = append(many, 999_999-i)
	}
	o := outlineOf(many, 1)
	for i, v := range o.At {
		if want := (float64(i) + 0.5) * 1e6 / mostValues; math.Abs(v-want) > 1 {
			t.Fatalf("value %d of the outline is %v, want %v", i, v, want)
		}
	}
}

// TestRateOfUnknownLengths: prompts that nobody counted are no 0 tokens a second.
func TestRateOfUnknownLengths(t *testing.T) {
	rows := `{"timestamp":0,"text":"a b","output_length":3}` + "\n" + `{"timestamp":1000,"text":"a c","output_length":3}`
	a := Analyse(read(t, rows, trace.Options{Format: "single_turn"}), Options{}).Arrivals
	expect.Equal(t, a.InputTokensPerS == nil && *a.OutputTokensPerS == 6, true, "%+v", a)
}
