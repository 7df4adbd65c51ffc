package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// grouping puts each pair into a group. Keys of -1 are pairs of which it is unknown.
type grouping struct {
	by    string
	keys  []int
	names func(from, to int) string // of the groups with these keys
	merge bool                      // small groups join their neighbours
}

const (
	leastGroup = 0.05 // of the requests
	timeGroups = 10
	mostGroups = 64 // instances
	outliers   = 0.01
	surelyF    = 4.0 // of the ratio of variances: below it a grouping explains no more than chance does
)

// explain returns which requests account for the change of each main latency that changed. Of all groupings it takes the one that explains
// most of the variance of the pairs' differences. The largest and smallest 1 % of these count as that percentile.
func (t *table) explain(found []Metric) (all []Culprits) {
	groupings := t.groupings()
	for l, of := range latencies() {
		best := -1
		for i, m := range found {
			changed := t.specs[i].latency == l && of.main && (m.Verdict == Worse || m.Verdict == Better)
			if changed && (best < 0 || math.Abs(*m.Change)/(*m.High-*m.Low) > math.Abs(*found[best].Change)/(*found[best].High-*found[best].Low)) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		differences := t.differences(l)
		sum := 0.0
		for _, d := range differences {
			if !math.IsNaN(d) {
				sum += d
			}
		}
		if sum > 0 != (*found[best].Change > 0) {
			continue // percentiles and mean went apart: a share of the mean would mislead
		}
		var chosen *grouping
		most := 0.0
		for i := range groupings {
			if explained, f := groupings[i].variance(differences); f >= surelyF && explained > most {
				chosen, most = &groupings[i], explained
			}
		}
		c := Culprits{Metric: found[best].Name, Words: fmt.Sprintf("the change of %s is spread over all requests: no group accounts for more than its part", of.label)}
		if chosen != nil {
			c.By = chosen.by
			c.Groups = t.groups(chosen, l, differences, sum)
			c.Words = c.words(of.label, len(differences))
		}
		all = append(all, c)
	}
	return all
}

// words names the groups that account for most of the change, the largest share first.
func (c *Culprits) words(label string, requests int) string {
	share, n, names := 0.0, int64(0), []string{}
	for _, g := range c.Groups {
		if share >= 0.75 || g.Share <= 0 || len(names) == 3 {
			break
		}
		share, n, names = share+g.Share, n+g.Requests, append(names, g.Name)
	}
	top := c.Groups[0]
	return fmt.Sprintf("%s of the change of %s is in the %s of requests with %s; the mean of the first of these groups went from %s to %s",
		format.Percent(math.Round(share*100)/100), label, format.Percent(math.Round(float64(n)/float64(requests)*100)/100), strings.Join(names, ", or "),
		format.Duration(top.A*1e6, 3), format.Duration(top.B*1e6, 3))
}

// differences are B - A of a latency in ms, with outliers cut to percentiles; NaN without a pair.
func (t *table) differences(latency int) []float64 {
	out := make([]float64, len(t.good[0]))
	var sorted []float64
	for i := range out {
		if out[i] = t.ms[1][latency][i] - t.ms[0][latency][i]; !math.IsNaN(out[i]) {
			sorted = append(sorted, out[i])
		}
	}
	if len(sorted) == 0 {
		return out
	}
	slices.Sort(sorted)
	cut := int(outliers * float64(len(sorted)))
	for i, d := range out {
		out[i] = min(max(d, sorted[cut]), sorted[len(sorted)-1-cut])
	}
	return out
}

// groupings are all ways to group the good pairs.
func (t *table) groupings() []grouping {
	tokens := func(what string) func(from, to int) string {
		return func(from, to int) string {
			return fmt.Sprintf("%s to %s %s", format.Count(1<<from>>1), format.Count(1<<to-1), what)
		}
	}
	all := []grouping{
		{by: "uncached tokens", names: tokens("uncached tokens"), merge: true},
		{by: "uncached tokens", names: func(k, _ int) string {
			return [...]string{"fewer uncached tokens in B than in A", "as many uncached tokens in both", "more uncached tokens in B than in A"}[k]
		}},
		{by: "input length", names: tokens("input tokens"), merge: true},
		{by: "instance"},
		{by: "time"},
		{by: "queue", names: tokens("requests in flight"), merge: true},
	}
	queue := t.inFlight()
	instances := map[string]int{}
	from, to := int64(math.MaxInt64), int64(1)
	for _, k := range t.good[0] {
		from, to = min(from, t.rows[0][k].at()), max(to, t.rows[0][k].at()+1)
	}
	var names []string
	for i, k := range t.good[0] {
		a, b := t.rows[0][k], t.rows[1][k]
		keys := [...]int{-1, -1, -1, -1, int(float64(a.at()-from) / float64(to-from) * timeGroups), bits.Len64(uint64(queue[i]))}
		if b.prompt >= 0 {
			keys[2] = bits.Len64(uint64(b.prompt))
		}
		if a.cached != record.None && b.cached != record.None && b.prompt >= b.cached {
			keys[0] = bits.Len64(uint64(b.prompt - b.cached))
			keys[1] = 1 + cmp.Compare(b.prompt-b.cached, a.prompt-a.cached)
		}
		if b.instance != "" {
			if _, known := instances[b.instance]; !known {
				instances[b.instance] = len(names)
				names = append(names, b.instance)
			}
			keys[3] = instances[b.instance]
		}
		for g := range all {
			all[g].keys = append(all[g].keys, keys[g])
		}
	}
	all[3].names = func(k, _ int) string { return "instance " + names[k] }
	all[4].names = func(k, _ int) string {
		part := float64(to-from) / timeGroups
		return fmt.Sprintf("planned times from %s to %s", format.Span((float64(from)+part*float64(k))/1e9), format.Span((float64(from)+part*float64(k+1))/1e9))
	}
	if len(names) > mostGroups {
		all = slices.Delete(all, 3, 4)
	}
	for g := range all {
		all[g].join()
	}
	return all
}

// inFlight is how many of A's requests were in flight when each good one was sent, itself included.
func (t *table) inFlight() []int {
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
	out := make([]int, len(t.good[0]))
	for i, place := range t.good[0] {
		k, at := t.number[0][place], int(t.rows[0][place].sent)
		out[i] = sort.SearchInts(sent[k], at+1) - sort.SearchInts(done[k], at)
	}
	return out
}

// join gives neighbours one key, the smaller, until each group is large enough.
func (g *grouping) join() {
	if !g.merge {
		return
	}
	count := map[int]int{}
	for _, k := range g.keys {
		count[k]++
	}
	delete(count, -1)
	var order []int
	for k := range count {
		order = append(order, k)
	}
	slices.Sort(order)
	least := int(leastGroup * float64(len(g.keys)))
	first, last := map[int]int{}, map[int]int{} // key → first of its group; first → last
	begin, n := 0, 0
	for i, k := range order {
		if n == 0 {
			begin = k
		}
		n += count[k]
		rest := 0
		for _, later := range order[i+1:] {
			rest += count[later]
		}
		first[k], last[begin] = begin, k
		if n >= least && rest >= least {
			n = 0
		}
	}
	for i, k := range g.keys {
		if k >= 0 {
			g.keys[i] = first[k]
		}
	}
	names := g.names
	g.names = func(k, _ int) string { return names(k, last[k]) }
}

// variance is how much of the differences' variance the groups explain beyond chance (omega squared), and the ratio of the variances between
// and within groups (F).
func (g *grouping) variance(differences []float64) (explained, f float64) {
	type part struct{ n, sum float64 }
	parts := map[int]part{}
	n, sum, squares := 0.0, 0.0, 0.0
	for i, d := range differences {
		if k := g.keys[i]; k >= 0 && !math.IsNaN(d) {
			parts[k] = part{parts[k].n + 1, parts[k].sum + d}
			n, sum, squares = n+1, sum+d, squares+d*d
		}
	}
	if len(parts) < 2 || n < 10 || n <= float64(len(parts)) || n < float64(len(differences))/2 {
		return 0, 0
	}
	total, between := squares-sum*sum/n, -sum*sum/n
	for _, p := range parts {
		between += p.sum * p.sum / p.n
	}
	within := (total - between) / (n - float64(len(parts)))
	freedom := float64(len(parts) - 1)
	return (between - freedom*within) / (total + within), between / freedom / within
}

// groups lists the groups, the largest share of the sum of differences first.
func (t *table) groups(g *grouping, latency int, differences []float64, sum float64) (all []Group) {
	at := map[int]int{}
	for i, d := range differences {
		k := g.keys[i]
		if k < 0 || math.IsNaN(d) {
			continue
		}
		if _, there := at[k]; !there {
			at[k] = len(all)
			all = append(all, Group{Name: g.names(k, k)})
		}
		part := &all[at[k]]
		part.Requests++
		part.Share += d / sum
		part.A += t.ms[0][latency][i]
		part.B += t.ms[1][latency][i]
	}
	for i := range all {
		all[i].A /= float64(all[i].Requests)
		all[i].B /= float64(all[i].Requests)
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Share, a.Share) })
	return all
}
