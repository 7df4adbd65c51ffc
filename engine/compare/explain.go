package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// grouping puts each good pair into a group.
type grouping struct {
	by   string
	name func(pair int) string // of its group; "" = unknown
}

const (
	fifths   = 5
	outliers = 0.01
	surelyF  = 4.0 // a grouping whose ratio of variances is smaller explains no more than chance does
)

// explain returns which requests account for the change of each latency that changed, but for that from the planned time. Of all groupings it
// takes the one whose groups differ most surely.
func (m *matched) explain(found []Metric) (all []Culprits) {
	groupings := m.groupings()
	for l, of := range latencies()[:mainLatencies] {
		kinds := found[l*kindsOf : (l+1)*kindsOf]
		metric := &kinds[kindsOf-1] // pair by pair, if that changed, else the first that did
		for i := kindsOf - 1; i >= 0 && !kinds[kindsOf-1].changed(); i-- {
			if kinds[i].changed() {
				metric = &kinds[i]
			}
		}
		differences, sum := m.differences(l)
		if !metric.changed() || sum > 0 != (*metric.Change > 0) { // if a percentile and the mean went apart, shares of the mean mislead
			continue
		}
		c, most := Culprits{Metric: metric.Name, Words: fmt.Sprintf("the change of %s is spread over all requests: no group has more than its part", of.label)}, surelyF
		for _, g := range groupings {
			if groups, f := m.groups(g, l, differences, sum); f > most {
				c.By, c.Groups, most = g.by, groups, f
			}
		}
		if c.Groups != nil {
			top := c.Groups[0]
			c.Words = fmt.Sprintf("%.0f %% of the change of %s is in the %.0f %% of requests with %s: their mean went from %s to %s", 100*top.Share, of.label,
				100*float64(top.Requests)/float64(len(differences)), top.Name, format.Duration(top.A*1e6, 3), format.Duration(top.B*1e6, 3))
		}
		all = append(all, c)
	}
	return all
}

// differences are B - A of a latency in ms, and their sum. The largest and smallest 1 % count as that percentile. A pair without it is NaN.
func (m *matched) differences(latency int) (out []float64, sum float64) {
	difference := func(i int) float64 { return m.good[1][i].ms[latency] - m.good[0][i].ms[latency] }
	sorted := known(len(m.good[0]), difference)
	slices.Sort(sorted)
	cut := int(outliers * float64(len(sorted)))
	for i := range m.good[0] {
		d := difference(i)
		if !math.IsNaN(d) {
			d = min(max(d, sorted[cut]), sorted[len(sorted)-1-cut])
			sum += d
		}
		out = append(out, d)
	}
	return out, sum
}

// groupings are all ways to group the good pairs.
func (m *matched) groupings() []grouping {
	count := func(v float64) string { return format.Count(int64(v)) }
	return []grouping{
		m.inFifths("uncached tokens", "uncached tokens in B", count, func(_, b *row) float64 {
			if b.prompt < 0 || b.cached < 0 {
				return math.NaN()
			}
			return float64(b.prompt - b.cached)
		}),
		m.inFifths("input length", "input tokens", count, func(_, b *row) float64 {
			if b.prompt < 0 {
				return math.NaN()
			}
			return float64(b.prompt)
		}),
		{"instance", func(pair int) string {
			if name := m.good[1][pair].instance; name != "" {
				return "instance " + name
			}
			return ""
		}},
		m.inFifths("time", "of planned time", format.Span, func(a, _ *row) float64 { return float64(a.at) / 1e9 }),
	}
}

// inFifths groups pairs by a value of theirs into five groups of one size, or fewer if many values are equal.
func (m *matched) inFifths(by, what string, text func(float64) string, of func(a, b *row) float64) grouping {
	at := func(pair int) float64 { return of(m.good[0][pair], m.good[1][pair]) }
	sorted := known(len(m.good[0]), at)
	slices.Sort(sorted)
	var least []float64 // of each group
	for i := range min(fifths, len(sorted)) {
		least = append(least, sorted[i*len(sorted)/fifths])
	}
	least = slices.Compact(least)
	names := []string{""}
	for i, from := range least {
		end := len(sorted)
		if i+1 < len(least) {
			end, _ = slices.BinarySearch(sorted, least[i+1])
		}
		names = append(names, strings.TrimSuffix(text(from)+" to "+text(sorted[end-1]), " to "+text(from))+" "+what)
	}
	return grouping{by, func(pair int) string {
		k, exact := slices.BinarySearch(least, at(pair)) // what is not known is below all
		return names[k+int(b2f(exact))]
	}}
}

// groups lists the groups that have differences of a latency, the largest share of their sum first, and the ratio of the variances between
// and within them (F); 0 if that says nothing.
func (m *matched) groups(g grouping, latency int, differences []float64, sum float64) (all []Group, f float64) {
	place := map[string]int{}
	known, n, squares := 0.0, 0.0, 0.0 // known is their sum
	for i, d := range differences {
		name := g.name(i)
		if name == "" || math.IsNaN(d) {
			continue
		}
		if _, found := place[name]; !found {
			place[name], all = len(all), append(all, Group{Name: name})
		}
		part := &all[place[name]]
		part.Requests++
		part.Share += d / sum
		part.A += (m.good[0][i].ms[latency] - part.A) / float64(part.Requests)
		part.B += (m.good[1][i].ms[latency] - part.B) / float64(part.Requests)
		known, n, squares = known+d, n+1, squares+d*d
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Share, a.Share) })
	parts := float64(len(all))
	if parts < 2 || n <= 2*parts || n < float64(len(differences))/2 {
		return all, 0
	}
	between, total := -known*known/n, squares-known*known/n
	for _, part := range all {
		between += part.Share * sum * part.Share * sum / float64(part.Requests)
	}
	return all, between / (parts - 1) / ((total - between) / (n - parts))
}
