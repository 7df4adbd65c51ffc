package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestSpansOfWindow: only what there is before and after the part that is counted is shaded.
func TestSpansOfWindow(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		spans    int
	}{{0, 10, 0}, {0, 4, 1}, {4, 10, 1}, {4, 6, 2}} {
		p := &Pictures{all: []metrics.Step{{ToS: 10}}, window: &metrics.Window{FromS: c.from, ToS: c.to}}
		expect.Equal(t, len(p.spans(nil)), c.spans, "from %v to %v s of 10 spans", c.from, c.to)
	}
}

// TestUnknownIsNotZero: what no request told is not said to be 0.
func TestUnknownIsNotZero(t *testing.T) {
	p := &Pictures{all: []metrics.Step{{ToS: 1, Planned: 1}, {FromS: 1, ToS: 2, Planned: 1}}}
	_, undrawn := p.timelines(&metrics.Summary{})
	flat, unknown, _ := strings.Cut(undrawn, "as no request told them")
	expect.Contains(t, unknown, "TTFT", undrawn)
	expect.Lacks(t, flat, "TTFT", undrawn)
	expect.Contains(t, flat, "Output tokens/s", undrawn)
}

// TestLinesThatHide: two lines are one if nobody could tell them apart, and stay two if requests were late or missing.
func TestLinesThatHide(t *testing.T) {
	plan := chart.Values{10, 20, 20, 0}
	for _, c := range []struct {
		sent  chart.Values
		alike bool
	}{{plan, true}, {chart.Values{9, 21, 20, 0}, true}, {chart.Values{8, 22, 20, 0}, false}, {chart.Values{0, 10, 20, 20}, false}, {chart.Values{10, 20, 0, 0}, false}} {
		expect.Equal(t, areAlike(plan, c.sent), c.alike, c.sent)
	}
}

// TestEvenRates: of few requests no step has a rate that the load never had, and none is lost.
func TestEvenRates(t *testing.T) {
	p := &Pictures{all: make([]metrics.Step, 100)}
	rates := make(chart.Values, 100)
	for i := 0; i < 100; i += 9 {
		p.all[i].Requests = 1
		rates[i] = 100
	}
	p.even(rates)
	sum := 0.0
	for _, v := range rates {
		sum += v
	}
	expect.Near(t, sum, 1200, 1e-6, "requests")
	if most := slices.Max(rates); most > 15 {
		t.Errorf("a rate of %v, where 12 requests a second left", most)
	}
}
