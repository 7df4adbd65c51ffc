package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// grouping is a value of pairs by which they are grouped.
type grouping struct {
	by, what string                 // the value, and what follows it in a group's name
	fifths   bool                   // groups are of one size, but for equal values; else each value has its own
	of       func(pair int) float64 // NaN = unknown
	text     func(float64) string
}

const (
	fifths  = 5
	surelyF = 4.0 // a grouping whose ratio of variances is smaller explains no more than chance does
)

// explain returns which requests account for the change of each latency that changed, as one screen has it. Of all
// groupings it takes the one whose groups differ most surely.
func (m *matched) explain(found []Metric) (all []Culprits) {
	groupings := m.groupings()
	for l, of := range metrics.BoundedLatencies() {
		var kinds []Metric
		kinds = found[:kindsOf]
		found = found[kindsOf:]
		// pair by pair, if that changed, else the first that did
		kinds = append(kinds[kindsOf-1:kindsOf:kindsOf], kinds...)
		i := slices.IndexFunc(kinds, func(m Metric) bool { return m.Main && m.changed() })
		differences, sum := m.differences(l)
		// if a percentile and the mean went apart, shares of the mean mislead
		if i < 0 || sum > 0 != (*kinds[i].Change > 0) {
			continue
		}
		c := Culprits{
			Metric: kinds[i].Name,
			Words: fmt.Sprintf(
				"the change of %s is spread over all requests: no group has more than its part",
				of.Label,
			),
		}
		most := surelyF
		for _, g := range groupings {
			if groups, f := m.groups(g, l, differences, sum); f > most {
				c.By = g.by
				c.Groups = groups
				most = f
			}
		}
		if c.Groups != nil {
			top := c.Groups[0]
			c.Words = fmt.Sprintf(
				"%.0f %% of the change of %s is in the %.0f %% of requests with %s: their mean went from %s to %s",
				100*top.Share, of.Label, 100*float64(top.Requests)/float64(len(differences)),
				top.Name, format.Duration(top.A*1e6, 3), format.Duration(top.B*1e6, 3),
			)
		}
		all = append(all, c)
	}
	return all
}

// differences are B - A of a latency in ms, and their sum. The largest 1 % count as that percentile. A pair without
// it is NaN.
func (m *matched) differences(latency int) (out []float64, sum float64) {
	difference := func(i int) float64 { return m.good[1][i].ms[latency] - m.good[0][i].ms[latency] }
	most := describe(len(m.good[0]), func(i int) float64 { return math.Abs(difference(i)) }).P99
	for i := range m.good[0] {
		d := max(-most, min(difference(i), most))
		if out = append(out, d); finite(d) {
			sum += d
		}
	}
	return out, sum
}

// groupings are all ways to group the good pairs.
func (m *matched) groupings() []grouping {
	a := m.good[0]
	b := m.good[1]
	tokens := func(v float64) string { return format.Count(int64(v)) }
	var instances []string
	number := map[string]float64{"": math.NaN()}
	for _, r := range b {
		if _, found := number[r.instance]; !found {
			number[r.instance] = float64(len(instances))
			instances = append(instances, "instance "+r.instance)
		}
	}
	return []grouping{
		{
			"uncached tokens",
			" uncached tokens in B",
			true,
			func(pair int) float64 { return b[pair].prompt - b[pair].cached },
			tokens,
		},
		{"input length", " input tokens", true, func(pair int) float64 { return b[pair].prompt }, tokens},
		{
			"instance",
			"",
			false,
			func(pair int) float64 { return number[b[pair].instance] },
			func(v float64) string { return instances[int(v)] },
		},
		{"time", " of planned time", true, func(pair int) float64 { return a[pair].atS }, format.Span},
	}
}

// groups lists the groups that have differences of a latency, the largest share of their sum first, and the ratio of
// the variances between and within them (F); 0 if that says nothing.
func (m *matched) groups(g grouping, latency int, differences []float64, sum float64) (all []Group, f float64) {
	var order []int // of the pairs that are known
	for pair, d := range differences {
		if !math.IsNaN(d) && !math.IsNaN(g.of(pair)) {
			order = append(order, pair)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(g.of(i), g.of(j)) })
	known, squares, between := 0.0, 0.0, 0.0 // known is their sum
	for at, end := 0, 0; at < len(order); at = end {
		if end = at + 1; g.fifths {
			next := ((at+1)*fifths + len(order) - 1) / len(order) // the first fifth that ends behind at
			end = max(end, next*len(order)/fifths)
		}
		for end < len(order) && g.of(order[end]) == g.of(order[end-1]) {
			end++
		}
		part := Group{Name: g.text(g.of(order[at])), Requests: int64(end - at)}
		n := float64(end - at)
		change := 0.0
		if last := g.text(g.of(order[end-1])); last != part.Name {
			part.Name += " to " + last
		}
		for _, pair := range order[at:end] {
			d := differences[pair]
			change += d
			squares += d * d
			part.A += m.good[0][pair].ms[latency] / n
			part.B += m.good[1][pair].ms[latency] / n
		}
		part.Name += g.what
		part.Share = change / sum
		known += change
		between += change * change / n
		all = append(all, part)
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Share, a.Share) })
	n := float64(len(order))
	parts := float64(len(all))
	if parts < 2 || n <= 2*parts || n < float64(len(differences))/2 {
		return all, 0
	}
	return all, (between - known*known/n) / (parts - 1) / ((squares - between) / (n - parts))
}
