package main

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

var (
	ours  = key{"s", "fastreplay", "drift p50"}
	other = key{"s", "rival", "drift p50"}
)

// threeRuns has ours in each of three runs and the rival in two of them.
func threeRuns() *results {
	r := newResults()
	for run, v := range []float64{1000, 4000, 2000} {
		r.put(run, ours, nanoseconds, v)
	}
	r.put(0, other, nanoseconds, 100_000)
	r.put(2, other, nanoseconds, 300_000)
	r.put(1, other, nanoseconds, math.NaN()) // a run without samples
	return r
}

func TestJudge(t *testing.T) {
	got := threeRuns().judge([]bar{
		{of: ours, limit: 2000},
		{of: ours, limit: 1999},
		{of: other, by: ours, limit: 125, atLeast: true}, // 100 and 150, within the runs that have both
		{of: other, by: ours, limit: 126, atLeast: true},
		{of: key{"s", "nobody", "x"}, limit: 1, beside: other},
		{of: key{"t", "nobody", "drift p50"}, limit: 1},
		{of: key{"s", "nobody", "x"}, limit: 1},
	})
	for i, want := range []struct {
		met, missing bool
		median       float64
		unit         unit
	}{{true, false, 2000, nanoseconds}, {false, false, 2000, nanoseconds}, {true, false, 125, ratio}, {false, false, 125, ratio}, {false, true, math.NaN(), nanoseconds}, {false, true, math.NaN(), nanoseconds}, {false, true, math.NaN(), count}} {
		j := got[i]
		same := j.spread.Median == want.median || math.IsNaN(j.spread.Median) && math.IsNaN(want.median)
		if j.met() != want.met || j.missing != want.missing || !same || j.unit != want.unit {
			t.Errorf("bar %d: met %t, missing %t, median %v, unit %s; want %+v", i, j.met(), j.missing, j.spread.Median, j.unit, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	r := threeRuns()
	r.skip("s", "not installed")
	r.skip("s", "not installed") // once is enough
	m := machine{CPU: "a CPU", Cores: 2, System: "Linux 6", Go: "go1", Date: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Command: "scripts/bench.sh"}
	bars := []bar{{of: ours, limit: 1500, beside: other}, {of: other, by: ours, limit: 50, atLeast: true}, {of: key{"s", "x", "y"}, limit: 3, beside: other}, {of: key{"did not run", "x", "y"}, limit: 1}}
	want := "`scripts/bench.sh` on 2 cores of a CPU, Linux 6, go1, 2026-11-21\n" + `
| scenario | who | measure | bar | median of 3 runs (min–max) | | in the same runs |
|---|---|---|---|---|---|---|
| s | fastreplay | drift p50 | ≤ 1.50 µs | 2 µs (1–4) | ✗ | 0.0083× that of rival, 200 µs (100–300) |
| s | rival | drift p50 | ≥ 50× that of fastreplay | 125× (100–150) | ✓ | 200 µs (100–300) against 2 µs (1–4) |
| s | x | y | ≤ 3 ns | – | – | rival: 200 µs (100–300) |

| scenario | who | median (min–max) |
|---|---|---|
| s | fastreplay | drift p50 2 µs (1–4) |
|  | rival | drift p50 200 µs (100–300) |

Not measured:

- s: not installed
`
	if got := r.markdown(m, bars); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	text, err := threeRuns().json(machine{}, []bar{{of: ours, limit: 1500}, {of: other, by: ours, limit: 50, atLeast: true}, {of: key{"a", "b", "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got jsonReport
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Runs != 3 || len(got.Measures) != 2 || len(got.Bars) != 3 {
		t.Fatalf("%s", text)
	}
	rival := got.Measures[1]
	if rival.key != other || rival.Values[1] != nil || *rival.Values[2] != 300_000 || rival.Median != 200_000 || rival.Min != 100_000 || rival.Max != 300_000 {
		t.Errorf("the rival's measure is %+v", rival)
	}
	if b := got.Bars[0]; *b.AtMost != 1500 || b.AtLeast != nil || *b.Met || *b.Median != 2000 || b.By != nil {
		t.Errorf("the first bar is %+v", b)
	}
	if b := got.Bars[1]; b.AtMost != nil || *b.AtLeast != 50 || !*b.Met || *b.By != ours {
		t.Errorf("the second bar is %+v", b)
	}
	if b := got.Bars[2]; b.Met != nil || b.Median != nil {
		t.Errorf("the bar without numbers is %+v", b)
	}
}

// TestBarsNameWhatIsMeasured: each bar belongs to a scenario that exists.
func TestBarsNameWhatIsMeasured(t *testing.T) {
	names := map[string]bool{}
	for _, s := range allScenarios() {
		if names[s.name] {
			t.Errorf("two scenarios are called %s", s.name)
		}
		names[s.name] = true
	}
	for _, b := range allBars() {
		for _, k := range []key{b.of, b.by, b.beside} {
			if k != (key{}) && !names[k.Scenario] {
				t.Errorf("no scenario %q", k.Scenario)
			}
		}
	}
}

func TestParse(t *testing.T) {
	var said strings.Builder
	q, err := parse([]string{"--quick", "3", "floor", "accuracy"}, &said)
	if err != nil || q.runs != 3 || !q.quick || q.output != "" || len(q.scenarios) != 4 {
		t.Errorf("%+v, %v", q, err)
	}
	q, err = parse(nil, &said)
	if err != nil || q.runs != defaultRuns || q.output == "" || len(q.scenarios) != len(allScenarios()) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, args := range [][]string{{"0"}, {"nonsense"}, {"2", "floor", "nonsense"}, {"--nonsense"}} {
		if _, err := parse(args, &said); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestBarsAloneKeepsWhatTheyAreAbout(t *testing.T) {
	q, err := parse([]string{"--bars"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, s := range q.scenarios {
		kept[s.name] = true
	}
	for _, b := range allBars() {
		if !kept[b.of.Scenario] || b.by.Scenario != "" && !kept[b.by.Scenario] {
			t.Errorf("%v was left out", b.of)
		}
	}
	if kept["punctuality/conversation-x1"] {
		t.Error("a scenario without a bar was kept")
	}
	if _, err := parse([]string{"--bars", "punctuality/conversation-x1"}, io.Discard); err == nil {
		t.Error("a scenario without a bar was chosen")
	}
}
