package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// grouping puts each good pair into a group.
type grouping struct {
	by    string
	group []int32 // place in names; -1 if it is unknown
	names []string
}

const (
	fifths   = 5
	outliers = 0.01
	surelyF  = 4.0 // a grouping whose ratio of variances is smaller explains no more than chance does
)

// explain returns which requests account for the change of each latency that changed, but for that from the planned time. Of all groupings it
// takes the one whose groups differ most surely.
func (t *table) explain(found []Metric) (all []Culprits) {
	groupings := t.groupings()
	for l, of := range latencies()[:mainLatencies] {
		changed := func(m Metric) bool { return m.Verdict == Worse || m.Verdict == Better }
		kinds := found[l*kindsOf : (l+1)*kindsOf]
		m := kinds[kindsOf-1] // pair by pair, if that changed, else the first that did
		if i := slices.IndexFunc(kinds, changed); i >= 0 && !changed(m) {
			m = kinds[i]
		}
		differences, sum := t.differences(l)
		if !changed(m) || sum > 0 != (*m.Change > 0) { // if a percentile and the mean went apart, shares of the mean mislead
			continue
		}
		c, most := Culprits{Metric: m.Name, Words: fmt.Sprintf("the change of %s is spread over all requests: no group has more than its part", of.label)}, surelyF
		for i := range groupings {
			if groups, f := t.groups(&groupings[i], l, differences, sum); f > most {
				c.By, c.Groups, most = groupings[i].by, groups, f
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
func (t *table) differences(latency int) (out []float64, sum float64) {
	for i, a := range t.ms[0][latency] {
		out = append(out, t.ms[1][latency][i]-a)
	}
	sorted := slices.DeleteFunc(slices.Clone(out), math.IsNaN)
	slices.Sort(sorted)
	cut := int(outliers * float64(len(sorted)))
	for i, d := range out {
		if !math.IsNaN(d) {
			out[i] = min(max(d, sorted[cut]), sorted[len(sorted)-1-cut])
			sum += out[i]
		}
	}
	return out, sum
}

// groupings are all ways to group the good pairs.
func (t *table) groupings() []grouping {
	n, queue, instance := len(t.good[0]), t.inFlight(), grouping{by: "instance"}
	uncached, input, times := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, k := range t.good[0] {
		b := t.rows[1][k]
		times[i], input[i], uncached[i] = float64(t.rows[0][k].at())/1e9, float64(b.prompt), math.NaN()
		if b.prompt < 0 {
			input[i] = math.NaN()
		} else if b.cached >= 0 {
			uncached[i] = float64(b.prompt - b.cached)
		}
		name := slices.Index(instance.names, "instance "+b.instance)
		if name < 0 && b.instance != "" && len(instance.names) < 64 {
			name, instance.names = len(instance.names), append(instance.names, "instance "+b.instance)
		}
		instance.group = append(instance.group, int32(name))
	}
	count := func(v float64) string { return format.Count(int64(v)) }
	return []grouping{
		inFifths("uncached tokens", "uncached tokens in B", uncached, count), inFifths("input length", "input tokens", input, count), instance,
		inFifths("time", "of planned time", times, format.Span), inFifths("queue", "requests in flight", queue, count),
	}
}

// inFifths groups pairs by values into five groups of one size, or fewer if many values are equal.
func inFifths(by, what string, values []float64, text func(float64) string) grouping {
	g := grouping{by: by}
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(sorted)
	var from []float64 // the smallest value of each group
	for i := range min(fifths, len(sorted)) {
		from = append(from, sorted[i*len(sorted)/fifths])
	}
	from = slices.Compact(from)
	for i, least := range from {
		largest := sorted[len(sorted)-1]
		if i+1 < len(from) {
			largest = sorted[sort.SearchFloat64s(sorted, from[i+1])-1]
		}
		g.names = append(g.names, strings.TrimSuffix(text(least)+" to "+text(largest), " to "+text(least))+" "+what)
	}
	for _, v := range values {
		g.group = append(g.group, int32(sort.Search(len(from), func(i int) bool { return from[i] > v || math.IsNaN(v) }))-1)
	}
	return g
}

// inFlight is how many of A's requests were in flight when each good one was sent, itself included.
func (t *table) inFlight() (out []float64) {
	sent, done := make([][]int, len(t.runs[0])), make([][]int, len(t.runs[0]))
	for i, r := range t.rows[0] {
		if k := t.number[0][i]; r.sent != record.None {
			sent[k], done[k] = append(sent[k], int(r.sent)), append(done[k], int(max(r.sent, r.last, r.done)))
		}
	}
	for k := range sent {
		slices.Sort(sent[k])
		slices.Sort(done[k])
	}
	for _, place := range t.good[0] {
		k, at := t.number[0][place], int(t.rows[0][place].sent)
		out = append(out, float64(sort.SearchInts(sent[k], at+1)-sort.SearchInts(done[k], at)))
	}
	return out
}

// groups lists the groups that have differences of a latency, the largest share of their sum first, and the ratio of the variances between
// and within them (F); 0 if that says nothing.
func (t *table) groups(g *grouping, latency int, differences []float64, sum float64) (all []Group, f float64) {
	all = make([]Group, len(g.names))
	known, n, squares := 0.0, 0.0, 0.0 // known is their sum
	for i, d := range differences {
		if g.group[i] < 0 || math.IsNaN(d) {
			continue
		}
		part := &all[g.group[i]]
		part.Requests++
		part.Name, part.Share = g.names[g.group[i]], part.Share+d/sum
		part.A += (t.ms[0][latency][i] - part.A) / float64(part.Requests)
		part.B += (t.ms[1][latency][i] - part.B) / float64(part.Requests)
		known, n, squares = known+d, n+1, squares+d*d
	}
	all = slices.DeleteFunc(all, func(part Group) bool { return part.Requests == 0 })
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
