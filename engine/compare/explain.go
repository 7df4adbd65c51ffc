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

// grouping has the group of each pair, by a value of it; below 0 if it has none.
type grouping struct {
	by    string
	names []string
	of    []int
}

const (
	fifths = 5
	// deals is how often differences are dealt anew, by chance, in blocks of a section
	deals = 200
	// mostByChance of them, 1 %, may explain as much as a grouping that counts
	mostByChance = 2
)

// pairs are requests of two runs, those with the same place in both lists.
type pairs struct{ a, b []*row }

// pairs are the good requests of the runs of both sides that have the same place among these.
func (m *matched) pairs() (p pairs) {
	for k := range min(len(m.sides[0]), len(m.sides[1])) {
		p.a = append(p.a, m.sides[0][k].good...)
		p.b = append(p.b, m.sides[1][k].good...)
	}
	return p
}

// spreads is said of latencies of which no group of requests explains the change.
const spreads = "the change of %s is spread over all requests: no group has more than its part"

// explain returns which requests account for the change of each latency that changed, as one screen has it. Of all
// groupings it takes the one whose groups differ most surely.
func (m *matched) explain(found []Metric) (all []Culprits) {
	p := m.pairs()
	var groupings []*grouping
	for l, of := range metrics.BoundedLatencies() {
		var kinds []Metric
		kinds = found[:kindsOf]
		found = found[kindsOf:]
		// pair by pair, if that changed, else the first that did
		kinds = append(kinds[kindsOf-1:kindsOf:kindsOf], kinds...)
		i := slices.IndexFunc(kinds, func(m Metric) bool {
			return m.Main && m.changed()
		})
		differences, sum := p.differences(l)
		// if a percentile and the mean went apart, shares of the mean mislead
		if i < 0 || sum > 0 != (*kinds[i].Change > 0) {
			continue
		}
		if groupings == nil {
			groupings = p.groupings()
		}
		c := Culprits{
			Metric: kinds[i].Name,
			Words:  fmt.Sprintf(spreads, of.Label),
		}
		best := mostSure(groupings, differences)
		if best != nil {
			c.By = best.by
			c.Groups = best.list(p, l, differences, sum)
			top := c.Groups[0]
			c.Words = fmt.Sprintf(
				"%.0f %% of the change of %s is in the %.0f %% of requests with %s: their mean went from %s to %s",
				100*top.Share, of.Label, 100*float64(top.Requests)/float64(len(differences)),
				top.Name, format.Milliseconds(top.A), format.Milliseconds(top.B),
			)
		}
		all = append(all, c)
	}
	return all
}

// mostSure is the grouping whose groups differ most surely; nil if none explains more than chance would. Chance deals
// the differences to other requests, in blocks that are as long as a section: so those that depend on each other stay
// together.
func mostSure(groupings []*grouping, differences []float64) (best *grouping) {
	most := 0.0
	for _, g := range groupings {
		f := g.ratio(differences)
		if f > most {
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
		if slices.ContainsFunc(groupings, func(g *grouping) bool {
			return g.ratio(dealt) >= most
		}) {
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
		out = append(out, d)
		if finite(d) {
			sizes = append(sizes, math.Abs(d))
		}
	}
	if len(sizes) == 0 {
		return out, 0
	}
	most := stats.Describe(sizes, 1).P99
	for i, d := range out {
		out[i] = max(-most, min(d, most))
		if finite(d) {
			sum += out[i]
		}
	}
	return out, sum
}

// groupings are all ways to group pairs.
func (p pairs) groupings() []*grouping {
	tokens := func(v float64) string {
		return format.Count(int64(v))
	}
	var instances []string
	number := map[string]float64{"": math.NaN()}
	for _, r := range p.b {
		if _, found := number[r.instance]; !found {
			number[r.instance] = float64(len(instances))
			instances = append(instances, "instance "+r.instance)
		}
	}
	instance := func(v float64) string {
		return instances[int(v)]
	}
	return []*grouping{
		group("uncached tokens", " uncached tokens in B", true, p.b, tokens, func(r *row) float64 {
			return r.prompt - r.cached
		}),
		group("input length", " input tokens", true, p.b, tokens, func(r *row) float64 {
			return r.prompt
		}),
		group("instance", "", false, p.b, instance, func(r *row) float64 {
			return number[r.instance]
		}),
		group("time", " of planned time", true, p.a, format.Span, func(r *row) float64 {
			return r.atS
		}),
	}
}

// group puts pairs into groups by a value of their row of one side; NaN is unknown. With inFifths groups are of one
// size, but for equal values; else each value has its own. What stands behind the values in their names.
func group(by, what string, inFifths bool, rows []*row, print func(float64) string, of func(*row) float64) *grouping {
	g := &grouping{
		by: by,
		of: slices.Repeat([]int{-1}, len(rows)),
	}
	var order []int // of the pairs that are known
	values := make([]float64, len(rows))
	for pair, r := range rows {
		values[pair] = of(r)
		if !math.IsNaN(values[pair]) {
			order = append(order, pair)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Compare(values[i], values[j])
	})
	for at, end := 0, 0; at < len(order); at = end {
		end = at + 1
		if inFifths {
			next := ((at+1)*fifths + len(order) - 1) / len(order) // the first fifth that ends behind at
			end = max(end, next*len(order)/fifths)
		}
		last := values[order[end-1]]
		for end < len(order) && values[order[end]] == last {
			end++
		}
		name := print(values[order[at]])
		to := print(last)
		if to != name {
			name += " to " + to
		}
		for _, pair := range order[at:end] {
			g.of[pair] = len(g.names)
		}
		g.names = append(g.names, name+what)
	}
	return g
}

// ratio is that of the variances of differences between and within groups (F); 0 if that says nothing.
func (g *grouping) ratio(differences []float64) float64 {
	sums := make([]float64, len(g.names))
	sizes := make([]float64, len(g.names))
	var n, sum, squares float64
	for pair, d := range differences {
		if group := g.of[pair]; group >= 0 && !math.IsNaN(d) {
			sums[group] += d
			sizes[group]++
			n++
			sum += d
			squares += d * d
		}
	}
	var between, groups float64
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
func (g *grouping) list(p pairs, latency int, differences []float64, sum float64) (all []Group) {
	for _, name := range g.names {
		all = append(all, Group{Name: name})
	}
	for pair, d := range differences {
		group := g.of[pair]
		if group >= 0 && !math.IsNaN(d) {
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
	all = slices.DeleteFunc(all, func(g Group) bool {
		return g.Requests == 0
	})
	slices.SortStableFunc(all, func(a, b Group) int {
		return cmp.Compare(b.Share, a.Share)
	})
	return all
}
