package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Schema is the version of a Result as JSON.
const Schema = 1

// How much the bootstrap draws, unless Options say otherwise.
const (
	resamples = 2000
	mostDrawn = 200_000_000 // requests drawn in all; above it there are fewer resamples, but not below fewest
	fewest    = 400
)

// Compare says what changed from a to b. Each of floors is two sides between which nothing changed, such as two runs of the same server;
// without any the noise floor is estimated. It returns a *DifferentError if the workloads differ, unless o.Anyway.
//
// An interval is the wider one of two bootstraps. One draws conversations, since their requests share a prefix. The other draws slices
// of time, since the requests of a slow second are slow together, whatever their conversations.
//
// A floor from pairs of runs is the 95 % reach (Student's t) of the mean square of their changes and of two more, which are as large as the
// noise within these runs. It is divided by the root of the runs that each of a and b has. An estimated floor is the 95 % half-width of
// the mean of ten changes: those of ten parts of the run one after another. It contains noise that lasts longer than a slice. It contains
// none that lasts as long as a run. If that is 0.5 % (standard deviation), a third of the runs without a change are called different with an
// estimated floor, and a tenth with one from pairs of runs.
//
// Under the noise of TestComparePower in bench, whose runs do not differ as a whole, 94 to 99 % of the intervals hold the truth. At most
// 5 % of runs without a change are called different in a metric, and 97 % of those that differ by 2 % pair by pair (1,000 pairs of
// 2,000 requests, 23 November 2026).
func Compare(a, b *Side, floors [][2]*Side, o Options) (*Result, error) {
	sure, err := sameWorkload(a.runs[0], b.runs[0])
	different := new(DifferentError)
	if errors.As(err, &different) && !o.Anyway {
		return nil, err
	}
	r := &Result{Schema: Schema, A: a.identity(b), B: b.identity(a), Paired: err == nil, FloorFrom: "estimated"}
	if r.Paired && !sure {
		r.note("a run has no fingerprint, so its workload is taken to be the other's, since all that is known of both agrees")
	} else if !r.Paired {
		r.note("the workloads differ, so distributions alone are compared: %s", strings.Join(different.Differences, "; "))
	}
	slos := o.SLOs
	if slos == nil {
		slos = r.sharedSLOs(a, b)
	}
	m := match(a, b, r.Paired)
	r.noteUnpaired(m)
	if len(m.good[0]) == 0 || len(m.good[1]) == 0 {
		return nil, fmt.Errorf("%s and %s have no request in common that ended ok in both", r.A.Name, r.B.Name)
	}
	t := newTable(m, slos)
	r.Requests = int64(min(len(m.good[0]), len(m.good[1])))
	r.Clusters, r.ClusteredBy = t.clusters, t.clusteredBy
	r.Metrics = t.metrics(o)
	if len(floors) > 0 {
		r.FloorFrom = ""
	}
	reach := make([][]Metric, 0, len(floors))
	for _, f := range floors {
		if _, err := sameWorkload(f[0].runs[0], f[1].runs[0]); err != nil {
			return nil, fmt.Errorf("noise floor: %w", err)
		}
		same := newTable(match(f[0], f[1], true), slos)
		reach = append(reach, same.metrics(o))
		r.FloorFrom += strings.Repeat(", ", min(1, len(r.FloorFrom))) + strings.Join(append(f[0].identity(f[1]).Dirs, f[1].identity(f[0]).Dirs...), " - ")
	}
	for i := range r.Metrics {
		metric := &r.Metrics[i]
		if len(floors) > 0 {
			metric.Floor = pooled(reach, i, min(len(a.runs), len(b.runs)))
		}
		metric.judge(t.specs[i])
	}
	if r.Paired {
		r.Explained = t.explain(r.Metrics)
	}
	return r, nil
}

func (r *Result) note(form string, parts ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(form, parts...))
}

// ownPairs is how many pairs of runs that differ by the noise within them alone the floor assumes, since one pair says little.
const ownPairs = 2

// pooled is the floor of a metric by pairs of runs without a change, for sides of so many runs; nil if no pair has the metric.
func pooled(reach [][]Metric, i, runs int) *float64 {
	squares, within, n := 0.0, 0.0, 0.0
	for _, metrics := range reach {
		if m := metrics[i]; m.Change != nil && m.Low != nil {
			deviation := (*m.High - *m.Low) / 2 / normal95
			squares, within, n = squares+*m.Change**m.Change, within+deviation*deviation, n+1
		}
	}
	if n == 0 {
		return nil
	}
	return new(student95(n+ownPairs) * math.Sqrt((ownPairs*within/n+squares)/(n+ownPairs)/float64(runs)))
}

// sharedSLOs are the bounds of goodput that both sides were run with.
func (r *Result) sharedSLOs(a, b *Side) []metrics.SLO {
	x, y := a.runs[0].summary.Goodput, b.runs[0].summary.Goodput
	if x == nil || y == nil || !maps.Equal(x.SLO, y.SLO) {
		if x != y {
			r.note("the sides were run with different bounds of goodput, so it is not compared; give some")
		}
		return nil
	}
	var bounds []string
	for name, limit := range x.SLO {
		bounds = append(bounds, fmt.Sprintf("%s:%gms", strings.TrimSuffix(name, "_ms"), limit))
	}
	slos, err := metrics.ParseSLOs(bounds...)
	if err != nil {
		r.note("the sides' bounds of goodput cannot be read: %v", err)
	}
	return slos
}

// matched is the requests of both sides that are compared. If they are paired, those with the same place are a pair.
type matched struct {
	a, b    *Side
	paired  bool
	rows    [2][]*row  // all that both sides were to answer
	number  [2][]int32 // of the pair of runs that a row is from
	good    [2][]int32 // places of those that are ok; of pairs, in both
	onlyOne [2]int64   // pairs that are ok in this side alone
	lone    int64      // requests that one side alone has, or that one side alone was stopped before
	runs    [2][]*run  // by number
}

// match pairs the runs of both sides in their order, and their requests by index.
func match(a, b *Side, paired bool) *matched {
	m := &matched{a: a, b: b, paired: paired}
	if !paired {
		m.runs = [2][]*run{a.runs, b.runs}
		for side, s := range []*Side{a, b} {
			for k, run := range s.runs {
				for i := range run.rows {
					if run.rows[i].state != stopped {
						m.add(side, &run.rows[i], k)
					}
				}
			}
			for i, row := range m.rows[side] {
				if row.state == ok {
					m.good[side] = append(m.good[side], int32(i))
				}
			}
		}
		return m
	}
	for k := range max(len(a.runs), len(b.runs)) {
		one, other := a.runs[k%len(a.runs)], b.runs[k%len(b.runs)]
		m.runs[0], m.runs[1] = append(m.runs[0], one), append(m.runs[1], other)
		for i, j := 0, 0; i < len(one.rows) || j < len(other.rows); {
			switch {
			case j == len(other.rows) || i < len(one.rows) && one.rows[i].index < other.rows[j].index:
				m.lone, i = m.lone+1, i+1
				continue
			case i == len(one.rows) || other.rows[j].index < one.rows[i].index:
				m.lone, j = m.lone+1, j+1
				continue
			}
			x, y := &one.rows[i], &other.rows[j]
			i, j = i+1, j+1
			if x.state == stopped || y.state == stopped {
				m.lone += b2i(x.state != y.state)
				continue
			}
			if x.state == ok && y.state == ok {
				m.good[0] = append(m.good[0], int32(len(m.rows[0])))
			} else if x.state == ok {
				m.onlyOne[0]++
			} else if y.state == ok {
				m.onlyOne[1]++
			}
			m.add(0, x, k)
			m.add(1, y, k)
		}
	}
	m.good[1] = m.good[0]
	return m
}

func (m *matched) add(side int, r *row, number int) {
	m.rows[side], m.number[side] = append(m.rows[side], r), append(m.number[side], int32(number))
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// noteUnpaired says which requests latencies leave out.
func (r *Result) noteUnpaired(m *matched) {
	for side, name := range []string{"A", "B"} {
		if n := m.onlyOne[side]; n > 0 {
			r.note("%s ended ok in %s alone: latencies leave them out, and error_rate counts them", format.Many(n, "request"), name)
		}
	}
	if m.lone > 0 {
		r.note("%s were answered in one side alone, since a run was stopped: only what both sides have is compared", format.Many(m.lone, "request"))
	}
	for _, id := range []Identity{r.A, r.B} {
		if id.Verdict == strings.ToUpper(string(metrics.Invalid)) {
			r.note("%s has a run whose measurement is INVALID: its own report says why, and how far this comparison can be used", id.Name)
		}
	}
}

// How requests are grouped.
const (
	sliceNS             = 10e9 // of planned time
	fewestSlices        = 10   // a short run has shorter slices
	fewestConversations = 20   // with fewer, slices of time are drawn alone
	blocks              = 10   // parts of the run, by which the noise floor is estimated
)

// byTime groups each side's rows by slices of time, or by their order if all are planned at once.
func (m *matched) byTime() (group [2][]int32, groups []int) {
	var from, slice [2]int64
	at := func(r *row) int64 { return r.at() }
	for side, rows := range m.rows {
		byTime := func(x, y *row) int { return cmp.Compare(at(x), at(y)) }
		first, last := slices.MinFunc(rows, byTime), slices.MaxFunc(rows, byTime)
		if at(first) == at(last) {
			at = func(r *row) int64 { return r.index }
			first, last = slices.MinFunc(rows, byTime), slices.MaxFunc(rows, byTime)
		}
		from[side], slice[side] = at(first), min(int64(sliceNS), (at(last)-at(first))/fewestSlices)+1
	}
	return m.groups(func(side, i int) [2]int64 {
		number := int64(m.number[side][i])
		if m.paired && len(m.a.runs) != len(m.b.runs) {
			number = 0 // a run is in several pairs
		}
		return [2]int64{number, (at(m.rows[side][i]) - from[side]) / slice[side]}
	})
}

// byConversation groups rows by conversation. It finds none if most rows have none; others without one are a group each.
func (m *matched) byConversation() (group [2][]int32, groups []int) {
	lone := 0
	group, groups = m.groups(func(side, i int) [2]int64 {
		if r := m.rows[side][i]; r.group != record.None {
			return [2]int64{0, r.group}
		}
		lone++
		return [2]int64{1, int64(i)}
	})
	if lone > len(group[0])/2 {
		return group, []int{0}
	}
	return group, groups
}

// groups numbers the rows' keys in their order: of pairs once, else side B's behind A's.
func (m *matched) groups(key func(side, i int) [2]int64) (group [2][]int32, groups []int) {
	byOrder := func(x, y [2]int64) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }
	from := 0
	for side, rows := range m.rows {
		if side == 1 && m.paired {
			group[1] = group[0]
			break
		}
		keys := make([][2]int64, len(rows))
		for i := range rows {
			keys[i] = key(side, i)
		}
		different := slices.Clone(keys)
		slices.SortFunc(different, byOrder)
		different = slices.Compact(different)
		for _, k := range keys {
			i, _ := slices.BinarySearchFunc(different, k, byOrder)
			group[side] = append(group[side], int32(from+i))
		}
		from, groups = from+len(different), append(groups, len(different))
	}
	return group, groups
}
