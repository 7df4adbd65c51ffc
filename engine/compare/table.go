package compare

import (
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// spec is what a metric is, whatever its values: a number of a latency, or a ratio of sums over requests.
type spec struct {
	name, label, unit string
	main              bool    // on one screen
	higher            bool    // is better
	quantile          float64 // 0 if the metric is none
	of                requests
	count             func(r *row, slos []metrics.SLO) (over, under float64) // nil of latencies
}

// requests are those that a metric is of.
type requests int

const (
	good     requests = iota // that are ok; of pairs, in both
	answered                 // that the runs were not stopped before
	finished                 // that are ok, by when they ended
)

// latency is a latency of requests that is compared.
type latency struct {
	name, label string
	ns          func(*record.Record) int64
}

func latencies() []latency {
	return []latency{
		{"ttft", "TTFT", (*record.Record).TTFTNS}, {"tpot", "TPOT", (*record.Record).TPOTNS}, {"e2e", "E2E", (*record.Record).E2ENS},
		{"ttft_planned", "TTFT planned", (*record.Record).TTFTPlannedNS},
	}
}

// mainLatencies is how many of them, from the first on, are explained and drawn.
const mainLatencies = 3

// kindsOf is how many numbers of a latency are compared: what weighted.describe finds, then the typical ratio of pairs.
const kindsOf = 5

// specs are all metrics, in the order of a result. Names are those of metrics.Quantities, if it has them.
func specs() (all []spec) {
	for _, l := range latencies() {
		for k, kind := range [kindsOf]string{"p50", "p95", "p99", "mean", "pair by pair"} {
			s := spec{name: l.name + "." + strings.Replace(kind, "pair by pair", "paired", 1), label: l.label + " " + kind, unit: "ms"}
			s.quantile = [kindsOf]float64{0.5, 0.95, 0.99}[k]
			s.main = k != 3 && (l.name == "ttft" || l.name == "tpot" || l.name == "e2e" && (k == 1 || k == 4))
			all = append(all, s)
		}
	}
	return append(all, // runs keep no single gaps, so ITL has a mean alone
		spec{"itl.mean", "ITL mean", "ms", false, false, 0, good, func(r *row, _ []metrics.SLO) (over, under float64) {
			if r.choices > 1 || r.chunks < 2 {
				return 0, 0
			}
			return ms(r.last - r.first), float64(r.chunks - 1)
		}},
		spec{"prefix_hits", "share of prompt tokens from the prefix cache", "share", true, true, 0, good, func(r *row, _ []metrics.SLO) (over, under float64) {
			if r.cached == record.None {
				return 0, 0
			}
			return float64(r.cached), float64(r.prompt)
		}},
		spec{"error_rate", "share of failed requests", "share", true, false, 0, answered, func(r *row, _ []metrics.SLO) (over, under float64) {
			return float64(b2i(r.state == failed)), 1
		}},
		spec{"goodput", "share of requests within the SLOs", "share", true, true, 0, answered, func(r *row, slos []metrics.SLO) (over, under float64) {
			missed := r.state != ok || slices.ContainsFunc(slos, func(o metrics.SLO) bool { return !o.Met(r.record()) })
			return float64(b2i(!missed)), float64(min(1, len(slos)))
		}},
		spec{"requests_per_s", "throughput in requests", "rate", false, true, 0, finished, func(*row, []metrics.SLO) (over, under float64) { return 1, 0 }},
		spec{"output_tokens_per_s", "throughput in output tokens", "rate", true, true, 0, finished, func(r *row, _ []metrics.SLO) (over, under float64) {
			return float64(max(0, r.output)), 0
		}})
}

// table is the values of both sides, and the designs by which they are drawn again.
type table struct {
	*matched
	specs   []spec
	slos    []metrics.SLO
	ms      [2][][]float64 // by latency, of the good rows; NaN where there is none
	designs []*design

	clusters    int64
	clusteredBy string
}

func newTable(m *matched, slos []metrics.SLO) *table {
	t := &table{matched: m, specs: specs(), slos: slos}
	for side := range m.good {
		for _, l := range latencies() {
			values := make([]float64, len(m.good[side]))
			for i, k := range m.good[side] {
				values[i] = ms(l.ns(m.rows[side][k].record()))
			}
			t.ms[side] = append(t.ms[side], values)
		}
	}
	group, groups := m.byTime()
	t.designs = append(t.designs, t.design(group, groups).inBlocks(), t.throughput().inBlocks())
	t.clusters, t.clusteredBy = int64(slices.Min(groups)), "slice of planned time"
	if group, groups = m.byConversation(); slices.Min(groups) >= fewestConversations {
		t.designs = append(t.designs, t.design(group, groups))
		t.clusters, t.clusteredBy = int64(slices.Min(groups)), "conversation, or by slice of planned time if that gives the wider interval"
	}
	return t
}

// design draws rows by these groups.
func (t *table) design(group [2][]int32, groups []int) *design {
	d := &design{groups: groups}
	n := len(d.all())
	var drawn [2][]int32 // groups of the good rows
	for side, places := range t.good {
		for _, k := range places {
			drawn[side] = append(drawn[side], group[side][k])
		}
	}
	for i := range latencies() {
		x, y := newWeighted(t.ms[0][i], drawn[0], n), newWeighted(t.ms[1][i], drawn[1], n)
		logs := make([]float64, len(t.good[0])) // of B / A; NaN without two values above 0
		for k := range logs {
			if logs[k] = math.NaN(); t.paired && t.ms[0][i][k] > 0 && t.ms[1][i][k] > 0 {
				logs[k] = math.Log(t.ms[1][i][k] / t.ms[0][i][k])
			}
		}
		ratios := newWeighted(logs, drawn[0], n)
		d.parts = append(d.parts, statistic{i * kindsOf, func(w []int32, a, b []float64) {
			x.describe(w, a[:kindsOf-1])
			y.describe(w, b[:kindsOf-1])
			if of := make([]float64, kindsOf); ratios.describe(w, of) {
				a[kindsOf-1], b[kindsOf-1] = 1, math.Exp(of[kindsOf-1])
			}
		}})
	}
	t.ratios(d, group, nil, good, answered)
	return d
}

// ratios adds the metrics of these requests that are ratios of sums, without rows whose group is below 0. If under is given, it is the
// denominators of the groups.
func (t *table) ratios(d *design, group [2][]int32, under *[2][]float64, of ...requests) {
	for i, s := range t.specs {
		if s.count == nil || !slices.Contains(of, s.of) {
			continue
		}
		var both [2]sums
		for side := range both {
			both[side] = sums{make([]float64, len(d.all())), make([]float64, len(d.all()))}
			add := func(k int) {
				if g := group[side][k]; g >= 0 {
					over, under := s.count(t.rows[side][k], t.slos)
					both[side].over[g] += over
					both[side].under[g] += under
				}
			}
			if s.of == good {
				for _, k := range t.good[side] {
					add(int(k))
				}
			} else {
				for k := range t.rows[side] {
					add(k)
				}
			}
			if under != nil {
				copy(both[side].under, under[side])
			}
		}
		d.parts = append(d.parts, statistic{i, func(w []int32, a, b []float64) { a[0], b[0] = both[0].ratio(w), both[1].ratio(w) }})
	}
}

const doneSlices = 20 // of a run, by which throughput is drawn

// throughput draws slices of the runs' durations, and counts the requests that ended ok in them. If a run was stopped, its pair counts
// until then.
func (t *table) throughput() *design {
	d, group, lasted := &design{groups: []int{doneSlices * len(t.runs[0])}}, [2][]int32{}, [2][]float64{}
	if !t.paired {
		d.groups = append(d.groups, doneSlices*len(t.runs[1]))
	}
	for side, rows := range t.rows {
		first := side * (len(d.groups) - 1) * d.groups[0] // group of the side
		lasted[side] = make([]float64, first)
		for k, run := range t.runs[side] {
			seconds := run.summary.Run.DurationS
			if other := t.runs[1-side]; t.paired && (run.summary.Run.Partial || other[k].summary.Run.Partial) {
				seconds = min(seconds, other[k].summary.Run.DurationS)
			}
			lasted[side] = append(lasted[side], slices.Repeat([]float64{seconds / doneSlices}, doneSlices)...)
		}
		for i, r := range rows {
			g := first + int(t.number[side][i])*doneSlices
			slice := max(0, int(float64(r.done)/1e9/lasted[side][g]))
			if group[side] = append(group[side], int32(g+min(slice, doneSlices-1))); r.state != ok || slice > doneSlices {
				group[side][i] = -1
			}
		}
	}
	t.ratios(d, group, &lasted, finished)
	return d
}

// change is how B's number differs from A's, if that can be said.
func (t *table) change(i int, a, b float64) float64 {
	if t.specs[i].unit == "share" {
		return b - a
	}
	return b/a - 1
}

// metrics compares each number, with its interval and an estimated floor.
func (t *table) metrics(o Options) []Metric {
	n, draws := len(t.specs), o.Resamples
	if draws == 0 {
		draws = min(resamples, max(fewest, mostDrawn/len(t.rows[0])))
	}
	out := make([]Metric, n)
	for i, s := range t.specs {
		out[i] = Metric{Name: s.name, Unit: s.unit, Main: s.main}
	}
	for k, d := range t.designs {
		a, b := d.eval(d.all(), n)
		drawn, inBlocks := d.resample(o.Seed+uint64(k)<<32, draws, n, t.change), make([][]float64, n)
		for _, w := range d.blocks {
			x, y := d.eval(w, n)
			for i := range n {
				if c := t.change(i, x[i], y[i]); finite(c) {
					inBlocks[i] = append(inBlocks[i], c)
				}
			}
		}
		for i, s := range t.specs {
			m, change := &out[i], t.change(i, a[i], b[i])
			if !finite(change) {
				continue
			}
			if m.Change = &change; !strings.HasSuffix(m.Name, ".paired") {
				m.A, m.B = &a[i], &b[i]
			}
			if known := float64(len(inBlocks[i])); known >= blocks/2 {
				m.Floor = new(student95(known-1) * spread(inBlocks[i]) / math.Sqrt(known))
			}
			low, high, exists := interval(drawn[i], d.widening())
			few := s.quantile > 0 && !stats.EnoughSamples(int64(min(len(t.good[0]), len(t.good[1]))), s.quantile)
			if exists && !few && (m.Low == nil || *m.High-*m.Low < high-low) {
				m.Low, m.High = &low, &high
			}
		}
	}
	return out
}
