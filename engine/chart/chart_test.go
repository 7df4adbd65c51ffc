package chart

import (
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestBlocks: what is above 0 is seen, and the highest fills its cells.
func TestBlocks(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.0001: "▏", 0.25: "█", 0.3: "█▎", 1: "████"} {
		expect.Equal(t, Bar(share, 4), want, "Bar(%v)", share)
	}
	if got := Skyline([]int64{0, 1, 50, 100}, 2); got[0] != "   █" || got[1] != " ▁██" {
		t.Errorf("Skyline: %q", got)
	}
}

// TestBars: each value is in its bar, on each kind of axis.
func TestBars(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(n int, one func() float64) (all []float64) {
		for range n {
			all = append(all, one())
		}
		return all
	}
	for name, c := range map[string]struct {
		values       []float64
		whole, ratio bool
		log          bool
		bars         int
	}{
		"wide":         {draw(900, func() float64 { return math.Exp(3 * rng.NormFloat64()) }), false, false, true, mostBars},
		"wide, with 0": {append(make([]float64, 100), draw(300, func() float64 { return math.Exp(3 * rng.NormFloat64()) })...), false, false, true, mostBars},
		"narrow":       {draw(500, func() float64 { return 5 + rng.Float64() }), false, false, false, mostBars},
		"few counts":   {draw(500, func() float64 { return float64(1 + rng.IntN(7)) }), true, false, false, 7},
		"many counts":  {draw(500, func() float64 { return float64(1 + rng.IntN(9000)) }), true, false, true, mostBars},
		"ratio":        {draw(500, rng.Float64), false, true, false, mostBars},
		"one value":    {[]float64{42, 42, 42}, true, false, false, 1},
		"all 0":        {[]float64{0, 0}, false, false, false, mostBars},
	} {
		slices.Sort(c.values)
		samples := []Sample{{At: c.values, Counts: slices.Repeat([]float64{1}, len(c.values))}}
		edges, log := edgesOf(samples, c.whole, c.ratio)
		if log != c.log || len(edges) != c.bars+1 {
			t.Errorf("%s: logarithmic %t, %d bars", name, log, len(edges)-1)
		}
		want, up := make(Values, c.bars), make(Values, c.bars)
		for _, v := range c.values {
			bar := 0
			for bar+1 < c.bars && v >= edges[bar+1] {
				bar++
			}
			if !c.log || v > 0 {
				want[bar]++
			}
			for ; bar < c.bars; bar++ {
				up[bar] += 1 / float64(len(c.values))
			}
		}
		unit := map[bool]string{true: "ratio"}[c.ratio]
		g := Distributions("", unit, c.whole, samples)[0]
		expect.List(t, g.Series[0].Values, want, "%s: bars", name)
		for i, v := range g.Series[1].Values {
			expect.Near(t, v, up[i], 1e-9, "%s: up to bar %d", name, i)
		}
	}
	two := Distributions("of two", "s", false, []Sample{{"a", []float64{1, 2}, []float64{3, 1}}, {"none", nil, nil}, {"b", []float64{1, 2}, []float64{1, 1}}})
	if len(two) != 2 || two[0].Series[0].Values[0] != 0.75 || two[1].Series[1].Values[mostBars-1] != 1 || two[0].Series[1].Name != "b" {
		t.Errorf("of two: %+v", two)
	}
}

// TestSVG: values stand where their axes have them, and a hostile title is a text.
func TestSVG(t *testing.T) {
	ends := func(from, to float64) (a Axis) { return Axis{From: &from, To: &to} }
	line := Graph{Title: "</text><script/>\x1b", X: ends(0, 10), Y: ends(0, 100), At: Values{0, 5, 10}, Series: []Series{{Name: "a", Gaps: true, Values: Values{0, 100, 25}}}}
	gap, log, stacked, limit := line, line, line, line
	gap.Series = []Series{{Gaps: true, Values: Values{0, math.NaN(), 100}}}
	log.Y = ends(1, 100)
	log.Y.Log = true
	log.Series = []Series{{Values: Values{1, 0, 10}}}
	limit.Series = []Series{{Style: Points, Values: Values{0, 50, 100}, Low: Values{0, 25, math.NaN()}, High: Values{100, 75, math.NaN()}, Names: []string{"", "load", ""}}}
	stacked.Stacked = true
	stacked.Series = []Series{{Style: Bars, Values: Values{0, 50, 0}}, {Style: Bars, Values: Values{0, 50, 0}}}
	for want, g := range map[string]*Graph{
		`d="M90.0 450.0L495.0 60.0L900.0 352.5"`:         &line,
		`d="M90.0 450.0M900.0 60.0"`:                     &gap,
		`d="M90.0 450.0L900.0 255.0"`:                    &log,
		`y="60.0" width="243.0" height="390.0"`:          &stacked, // the first stands on the second
		`x="494.0" y="157.5" width="2.0" height="195.0"`: &limit,   // an interval from 25 to 75
	} {
		var out strings.Builder
		must.Do(t, g.SVG(&out))
		expect.Contains(t, out.String(), want)
		expect.Lacks(t, out.String(), "<script", "a hostile title")
		for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, out.String())
			}
		}
	}
}
