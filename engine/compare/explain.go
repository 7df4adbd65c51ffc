package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// grouping is a value of pairs by which they are grouped.
type grouping struct {
	by, what string                 // the value, and what follows it in a group's name
	fifths   bool                   // groups are of one size, but for equal values; else each value has its own
	of       func(pair int) float64 // NaN = unknown
	text     func(float64) string
}

const (
	fifths = 5
	// deals is how often differences are dealt anew, by chance, in blocks of a section; a grouping counts if it
	// explains more than in all but 1 % of them
	deals, mostByChance = 200, 2
)

// pairs are requests of two runs, those with the same place in both lists.
type pairs struct{ a, b []*row }

// pairs are the good requests of the runs of both sides that have the same place among these.
func (m *matched) pairs() (p pairs) {
	for k := range min(len(m.good[0]), len(m.good[1])) {
		p.a = append(p.a, m.good[0][k]...)
		p.b = append(p.b, m.good[1][k]...)
	}
	return p
}

// explain returns which requests account for the change of each latency that changed, as one screen has it. Of all
// groupings it takes the one whose groups differ most surely.
func (m *matched) explain(found []Metric) (all []Culprits) {
	p := m.pairs()
	var groupings []*grouped
	for l, of := range metrics.BoundedLatencies() {
		var kinds []Metric
		kinds = found[:kindsOf]
		found = found[kindsOf:]
		// pair by pair, if that changed, else the first that did
		kinds = append(kinds[kindsOf-1:kindsOf:kindsOf], kinds...)
		i := slices.IndexFunc(kinds, func(m Metric) bool { return m.Main && m.changed() })
		differences, sum := p.differences(l)
		// if a percentile and the mean went apart, shares of the mean mislead
		if i < 0 || sum > 0 != (*kinds[i].Change > 0) {
			continue
		}
		if groupings == nil {
			for _, g := range p.groupings() {
				groupings = append(groupings, p.group(g))
			}
		}
		c := Culprits{
			Metric: kinds[i].Name,
			Words: fmt.Sprintf(
				"the change of %s is spread over all requests: no group has more than its part",
				of.Label,
			),
		}
		if best := mostSure(groupings, differences); best != nil {
			c.By = best.by
			c.Groups = best.list(p, l, differences, sum)
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

// mostSure is the grouping whose groups differ most surely; nil if none explains more than chance would. Chance deals
// the differences to other requests, in blocks that are as long as a section: so those that depend on each other stay
// together.
func mostSure(groupings []*grouped, differences []float64) (best *grouped) {
	most := 0.0
	for _, g := range groupings {
		if f := g.ratio(differences); f > most {
			most = f
			best = g
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	dealt := make([]float64, 0, len(differences))
	n := len(differences)
	asMuch := 0
	for range deals {
		dealt = dealt[:0]
		for _, block := range random.Perm(sectionsMost) {
			dealt = append(dealt, differences[block*n/sectionsMost:(block+1)*n/sectionsMost]...)
		}
		if slices.ContainsFunc(groupings, func(g *grouped) bool { return g.ratio(dealt) >= most }) {
			asMuch++
		}
	}
	if asMuch > mostByChance {
		return nil
	}
	return best
}

// differences are B - A of a latency in ms, and their sum. The largest 1 % count as that percentile. A pair without
// it is NaN.
func (p pairs) differences(latency int) (out []float64, sum float64) {
	var sizes []float64
	for i := range p.a {
		d := p.b[i].ms[latency] - p.a[i].ms[latency]
		if out = append(out, d); finite(d) {
			sizes = append(sizes, math.Abs(d))
		}
	}
	if len(sizes) == 0 {
		return out, 0
	}
	most := stats.Describe(sizes, 1).P99
	for i, d := range out {
		if out[i] = max(-most, min(d, most)); finite(d) {
			sum += out[i]
		}
	}
	return out, sum
}

// groupings are all ways to group pairs.
func (p pairs) groupings() []grouping {
	a := p.a
	b := p.b
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

// grouped is a grouping with the group of each pair; below 0 if it has none.
type grouped struct {
	by    string
	names []string
	of    []int
}

// group puts pairs into the groups of a grouping.
func (p pairs) group(g grouping) *grouped {
	out := &grouped{by: g.by, of: slices.Repeat([]int{-1}, len(p.a))}
	var order []int // of the pairs that are known
	for pair := range p.a {
		if !math.IsNaN(g.of(pair)) {
			order = append(order, pair)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(g.of(i), g.of(j)) })
	for at, end := 0, 0; at < len(order); at = end {
		if end = at + 1; g.fifths {
			next := ((at+1)*fifths + len(order) - 1) / len(order) // the first fifth that ends behind at
			end = max(end, next*len(order)/fifths)
		}
		for end < len(order) && g.of(order[end]) == g.of(order[end-1]) {
			end++
		}
		name := g.text(g.of(order[at]))
		if last := g.text(g.of(order[end-1])); last != name {
			name += " to " + last
		}
		for _, pair := range order[at:end] {
			out.of[pair] = len(out.names)
		}
		out.names = append(out.names, name+g.what)
	}
	return out
}

// ratio is that of the variances of differences between and within groups (F); 0 if that says nothing.
func (g *grouped) ratio(differences []float64) float64 {
	sums := make([]float64, len(g.names))
	sizes := make([]float64, len(g.names))
	n := 0.0
	sum := 0.0
	squares := 0.0
	for pair, d := range differences {
		if group := g.of[pair]; group >= 0 && !math.IsNaN(d) {
			sums[group] += d
			sizes[group]++
			n++
			sum += d
			squares += d * d
		}
	}
	between := 0.0
	groups := 0.0
	for group, size := range sizes {
		if size > 0 {
			between += sums[group] * sums[group] / size
			groups++
		}
	}
	if groups < 2 || n <= 2*groups || n < float64(len(differences))/2 {
		return 0
	}
	return (between - sum*sum/n) / (groups - 1) / ((squares - between) / (n - groups))
}

// list has the groups that have differences of a latency, the largest share of their sum first.
func (g *grouped) list(p pairs, latency int, differences []float64, sum float64) (all []Group) {
	for _, name := range g.names {
		all = append(all, Group{Name: name})
	}
	for pair, d := range differences {
		if group := g.of[pair]; group >= 0 && !math.IsNaN(d) {
			to := &all[group]
			to.Requests++
			to.Share += d / sum
			to.A += p.a[pair].ms[latency]
			to.B += p.b[pair].ms[latency]
		}
	}
	for i := range all {
		n := float64(all[i].Requests)
		all[i].A /= n
		all[i].B /= n
	}
	all = slices.DeleteFunc(all, func(g Group) bool { return g.Requests == 0 })
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Share, a.Share) })
	return all
}
