package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// spec is what a metric is, whatever its values.
type spec struct {
	name, label, unit string
	main              bool
	higher            bool    // is better
	share             bool    // changes are differences, not ratios
	quantile          float64 // 0 if the metric is none
	latency           int     // place of the latency that it is of, or -1
}

// kindsOf is how many numbers of a latency are compared. The last is the typical ratio of pairs.
const kindsOf = 5

// latency is a latency of requests that is compared.
type latency struct {
	name, label string
	main        bool
	ns          func(*record.Record) int64
}

func latencies() []latency {
	return []latency{
		{"ttft", "TTFT", true, (*record.Record).TTFTNS}, {"ttft_planned", "TTFT planned", false, (*record.Record).TTFTPlannedNS},
		{"tpot", "TPOT", true, (*record.Record).TPOTNS}, {"e2e", "E2E", true, (*record.Record).E2ENS},
	}
}

// table is the values of both sides, and the designs by which they are drawn again.
type table struct {
	*matched
	specs   []spec
	ms      [2][][]float64 // by latency, of the good rows; NaN where there is none
	designs []*design

	clusters    int64
	clusteredBy string
}

// specs are all metrics, in the order of a result: of each latency what weighted.describe finds, then the typical ratio of pairs. Names are
// those of metrics.Quantities, if it has them.
func specs() (all []spec) {
	for i, l := range latencies() {
		for _, q := range []float64{0.5, 0.95, 0.99} {
			name := fmt.Sprintf("p%.0f", 100*q)
			all = append(all, spec{l.name + "." + name, l.label + " " + name, "ms", l.main, false, false, q, i})
		}
		all = append(all, spec{l.name + ".mean", l.label + " mean", "ms", false, false, false, 0, i},
			spec{l.name + ".paired", l.label + " pair by pair", "ms", l.main, false, false, 0, i})
	}
	return append(all, // runs keep no single gaps, so ITL has a mean alone
		spec{"itl.mean", "ITL mean", "ms", false, false, false, 0, -1},
		spec{"prefix_hits", "share of prompt tokens from the prefix cache", "share", true, true, true, 0, -1},
		spec{"error_rate", "share of failed requests", "share", true, false, true, 0, -1},
		spec{"goodput", "share of requests within the SLOs", "share", true, true, true, 0, -1},
		spec{"requests_per_s", "throughput in requests", "rate", false, true, false, 0, -1},
		spec{"output_tokens_per_s", "throughput in output tokens", "rate", true, true, false, 0, -1})
}

const doneSlices = 20 // of a run, by which throughput is drawn

func newTable(m *matched, slos []metrics.SLO) *table {
	t := &table{matched: m, specs: specs()}
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
	t.designs = append(t.designs, t.design(group, groups, slos).inBlocks(), t.throughput().inBlocks())
	t.clusters, t.clusteredBy = int64(slices.Min(groups)), "slice of planned time"
	if group, groups = m.byConversation(); slices.Min(groups) >= fewestConversations {
		t.designs = append(t.designs, t.design(group, groups, slos))
		t.clusters, t.clusteredBy = int64(slices.Min(groups)), "conversation, or by slice of planned time if that gives the wider interval"
	}
	return t
}

// place is that of the metric of a name.
func (t *table) place(name string) int {
	return slices.IndexFunc(t.specs, func(s spec) bool { return s.name == name })
}

// design draws rows by these groups.
func (t *table) design(group [2][]int32, groups []int, slos []metrics.SLO) *design {
	d := &design{groups: groups}
	n := len(d.all())
	var good [2][]int32
	for side := range good {
		for _, k := range t.good[side] {
			good[side] = append(good[side], group[side][k])
		}
	}
	for i := range latencies() {
		x, y := newWeighted(t.ms[0][i], good[0], n), newWeighted(t.ms[1][i], good[1], n)
		d.parts = append(d.parts, statistic{i * kindsOf, func(w []int32, a, b []float64) {
			x.describe(w, a)
			y.describe(w, b)
		}})
		if !t.paired {
			continue
		}
		ratios := newWeighted(t.logRatios(i), good[0], n)
		d.parts = append(d.parts, statistic{i*kindsOf + kindsOf - 1, func(w []int32, a, b []float64) { a[0], b[0] = 1, math.Exp(ratios.typical(w)) }})
	}
	d.ratio(t, "itl.mean", group, n, func(r *row) (over, under float64) {
		if r.state != ok || r.choices > 1 || r.chunks < 2 {
			return 0, 0
		}
		return ms(r.last - r.first), float64(r.chunks - 1)
	})
	d.ratio(t, "prefix_hits", group, n, func(r *row) (over, under float64) {
		if r.state != ok || r.cached == record.None {
			return 0, 0
		}
		return float64(r.cached), float64(r.prompt)
	})
	d.ratio(t, "error_rate", group, n, func(r *row) (over, under float64) { return float64(b2i(r.state == failed)), 1 })
	if len(slos) > 0 {
		d.ratio(t, "goodput", group, n, func(r *row) (over, under float64) {
			missed := r.state != ok || slices.ContainsFunc(slos, func(o metrics.SLO) bool { return !o.Met(r.record()) })
			return float64(b2i(!missed)), 1
		})
	}
	return d
}

// logRatios are ln(B / A) of each pair's latency; NaN without two values above 0.
func (t *table) logRatios(latency int) []float64 {
	values := make([]float64, len(t.good[0]))
	for i := range values {
		if values[i] = math.NaN(); t.ms[0][latency][i] > 0 && t.ms[1][latency][i] > 0 {
			values[i] = math.Log(t.ms[1][latency][i] / t.ms[0][latency][i])
		}
	}
	return values
}

// ratio adds a metric that is a ratio of sums over rows, without those whose group is below 0.
func (d *design) ratio(t *table, name string, group [2][]int32, groups int, of func(*row) (over, under float64)) *[2]sums {
	both := new([2]sums)
	for side := range both {
		both[side] = sums{make([]float64, groups), make([]float64, groups)}
		for i, r := range t.rows[side] {
			if g := group[side][i]; g >= 0 {
				over, under := of(r)
				both[side].over[g] += over
				both[side].under[g] += under
			}
		}
	}
	d.parts = append(d.parts, statistic{t.place(name), func(w []int32, a, b []float64) { a[0], b[0] = both[0].ratio(w), both[1].ratio(w) }})
	return both
}

// throughput draws slices of the runs' durations, and counts the requests that ended ok in them. If a run was stopped, its pair counts
// until then.
func (t *table) throughput() *design {
	d, group, lasted := &design{}, [2][]int32{}, [2][]float64{}
	for side, rows := range t.rows {
		first := 0 // group of the side
		if side == 1 && !t.paired {
			first = d.groups[0]
		}
		lasted[side] = make([]float64, first)
		for k, run := range t.runs[side] {
			seconds := run.summary.Run.DurationS
			if other := t.runs[1-side]; t.paired && (run.summary.Run.Partial || other[k].summary.Run.Partial) {
				seconds = min(seconds, other[k].summary.Run.DurationS)
			}
			lasted[side] = append(lasted[side], slices.Repeat([]float64{seconds / doneSlices}, doneSlices)...)
		}
		if side == 0 || !t.paired {
			d.groups = append(d.groups, len(lasted[side])-first)
		}
		for i, r := range rows {
			g := first + int(t.number[side][i])*doneSlices
			slice := max(0, int(float64(r.done)/1e9/lasted[side][g]))
			if group[side] = append(group[side], int32(g+min(slice, doneSlices-1))); r.state != ok || slice > doneSlices {
				group[side][i] = -1
			}
		}
	}
	for _, tokens := range []bool{false, true} {
		both := d.ratio(t, []string{"requests_per_s", "output_tokens_per_s"}[b2i(tokens)], group, len(d.all()), func(r *row) (over, under float64) {
			if tokens {
				return float64(max(0, r.output)), 0
			}
			return 1, 0
		})
		for side := range both {
			copy(both[side].under, lasted[side])
		}
	}
	return d
}

// inBlocks splits the groups, which are in order of time, into blocks.
func (d *design) inBlocks() *design {
	n := min(blocks, slices.Min(d.groups))
	d.inTime = true
	for block := range n {
		w, from := make([]int32, len(d.all())), 0
		for _, groups := range d.groups {
			for g := block * groups / n; g < (block+1)*groups/n; g++ {
				w[from+g] = 1
			}
			from += groups
		}
		d.blocks = append(d.blocks, w)
	}
	return d
}

// change is how B's number differs from A's.
func (t *table) change(i int, a, b float64) float64 {
	if t.specs[i].share {
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
		drawn := d.resample(o.Seed+uint64(k)<<32, draws, n, t.change)
		floors := d.floors(n, t.change)
		for i := range out {
			m, change := &out[i], t.change(i, a[i], b[i])
			if math.IsNaN(change) || math.IsInf(change, 0) {
				continue
			}
			if m.Change = &change; !strings.HasSuffix(m.Name, ".paired") {
				m.A, m.B = &a[i], &b[i]
			}
			m.Floor = cmp.Or(floors[i], m.Floor)
			low, high, deviation, exists := interval(drawn[i], d.widening())
			few := t.specs[i].quantile > 0 && !stats.EnoughSamples(int64(min(len(t.good[0]), len(t.good[1]))), t.specs[i].quantile)
			if few || !exists || m.Low != nil && *m.High-*m.Low >= high-low {
				continue
			}
			m.Low, m.High = &low, &high
			if t.paired && deviation > 0 {
				m.PValue = new(math.Erfc(math.Abs(change) / deviation / d.widening() / math.Sqrt2))
			}
		}
	}
	return out
}

// floors estimates how far each change is from 0 if nothing changed, by how it differs between the blocks; nil if that is unknown.
func (d *design) floors(n int, change func(i int, a, b float64) float64) []*float64 {
	out, by := make([]*float64, n), make([][]float64, n)
	for _, w := range d.blocks {
		a, b := d.eval(w, n)
		for i := range n {
			if c := change(i, a[i], b[i]); !math.IsNaN(c) && !math.IsInf(c, 0) {
				by[i] = append(by[i], c)
			}
		}
	}
	for i, changes := range by {
		if k := float64(len(changes)); k >= blocks/2 {
			out[i] = new(student95(k-1) * spread(changes) / math.Sqrt(k))
		}
	}
	return out
}
