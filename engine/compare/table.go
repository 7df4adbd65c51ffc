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
	// count is nil of latencies. A row is good if it is ok; of pairs, in both sides. Of rates it is asked about those that ended ok.
	count func(r *row, good bool, slos []metrics.SLO) (over, under float64)
}

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
		spec{"itl.mean", "ITL mean", "ms", false, false, 0, func(r *row, good bool, _ []metrics.SLO) (over, under float64) {
			if !good || r.choices > 1 || r.chunks < 2 {
				return 0, 0
			}
			return ms(r.last - r.first), float64(r.chunks - 1)
		}},
		spec{"prefix_hits", "share of prompt tokens from the prefix cache", "share", true, true, 0, func(r *row, good bool, _ []metrics.SLO) (over, under float64) {
			if !good || r.cached == record.None {
				return 0, 0
			}
			return float64(r.cached), float64(r.prompt)
		}},
		spec{"error_rate", "share of failed requests", "share", true, false, 0, func(r *row, _ bool, _ []metrics.SLO) (over, under float64) {
			return float64(b2i(r.state == failed)), 1
		}},
		spec{"goodput", "share of requests within the SLOs", "share", true, true, 0, func(r *row, _ bool, slos []metrics.SLO) (over, under float64) {
			missed := r.state != ok || slices.ContainsFunc(slos, func(o metrics.SLO) bool { return !o.Met(r.record()) })
			return float64(b2i(!missed)), float64(min(1, len(slos)))
		}},
		spec{"requests_per_s", "throughput in requests", "rate", false, true, 0, func(*row, bool, []metrics.SLO) (over, under float64) { return 1, 0 }},
		spec{"output_tokens_per_s", "throughput in output tokens", "rate", true, true, 0, func(r *row, _ bool, _ []metrics.SLO) (over, under float64) {
			return float64(max(0, r.output)), 0
		}})
}

// stretches is into how many stretches the requests of a comparison are cut at least. With 15 of them, intervals held the truth in 91 % of
// the runs of TestComparePower in bench, since noise lasted longer than a stretch.
const stretches = 8

// table is the values of both sides, and the clusters that they are drawn in.
type table struct {
	*matched
	specs    []spec
	ms       [2][][]float64 // by latency, of the good rows; NaN where there is none
	sorted   [2][]weighted  // the same
	ratios   []weighted     // by latency: logarithms of B / A, of pairs
	sums     [2][]sums      // of the specs that count
	clusters int
	together int // so many neighbours are drawn at once
}

// newTable draws these clusters of rows, n in all, or stretches of requests if there are none. Without pairs it draws nothing.
func newTable(m *matched, slos []metrics.SLO, of []int32, n int) *table {
	t := &table{matched: m, specs: specs(), clusters: n, together: 1}
	if of == nil {
		of, t.clusters = make([]int32, max(len(m.rows[0]), len(m.rows[1]))), 1
		for i := range m.rows[0] {
			if m.paired {
				of[i], t.clusters = int32(i), i+1
			}
		}
		t.together = max(1, t.clusters/stretches)
	}
	for side, places := range m.good {
		var drawn []int32
		for _, k := range places {
			drawn = append(drawn, of[k])
		}
		for i, l := range latencies() {
			values, logs := make([]float64, len(places)), make([]float64, len(places))
			for k, place := range places {
				values[k], logs[k] = ms(l.ns(m.rows[side][place].record())), math.NaN()
				if m.paired && side == 1 && values[k] > 0 && t.ms[0][i][k] > 0 {
					logs[k] = math.Log(values[k] / t.ms[0][i][k])
				}
			}
			t.ms[side], t.sorted[side] = append(t.ms[side], values), append(t.sorted[side], newWeighted(values, drawn))
			if side == 1 {
				t.ratios = append(t.ratios, newWeighted(logs, drawn))
			}
		}
		for _, s := range t.specs {
			if s.count != nil {
				t.sums[side] = append(t.sums[side], t.count(s, side, of, slos))
			}
		}
	}
	return t
}

// count adds up what a spec counts of a side's requests, by cluster. Of a rate, each cluster stands for a part of a run's duration, in order,
// and has the requests that ended ok in it. If a run was stopped, its pair counts until then.
func (t *table) count(s spec, side int, of []int32, slos []metrics.SLO) sums {
	all := sums{make([]float64, t.clusters), make([]float64, t.clusters)}
	good, runs, others := make([]bool, len(t.rows[side])), t.runs[side], t.runs[1-side]
	for _, place := range t.good[side] {
		good[place] = true
	}
	per, lasted := max(1, t.clusters/len(runs)), make([]float64, len(runs))
	for k := range runs {
		lasted[k] = runs[k].summary.Run.DurationS
		if t.paired && (runs[k].summary.Run.Partial || others[k].summary.Run.Partial) {
			lasted[k] = min(lasted[k], others[k].summary.Run.DurationS)
		}
		for part := range per {
			if s.unit == "rate" {
				all.under[(k*per+part)%t.clusters] += lasted[k] / float64(per)
			}
		}
	}
	for i, r := range t.rows[side] {
		c := of[i]
		if k := int(t.number[side][i]); s.unit == "rate" {
			part := max(0, int(float64(r.done)/1e9/lasted[k]*float64(per)))
			if c = int32((k*per + min(part, per-1)) % t.clusters); r.state != ok || part > per {
				continue
			}
		}
		over, under := s.count(r, good[i], slos)
		all.over[c] += over
		all.under[c] += under
	}
	return all
}

// eval computes the numbers of both sides, in the order of the specs, from clusters with these weights. A number that does not exist is NaN.
func (t *table) eval(w []int32) (a, b []float64) {
	for l := range t.ratios {
		x, y, ratio := t.sorted[0][l].describe(w), t.sorted[1][l].describe(w), t.ratios[l].describe(w)
		a, b = append(append(a, x[:kindsOf-1]...), 1), append(append(b, y[:kindsOf-1]...), math.Exp(ratio[kindsOf-1]))
	}
	for i := range t.sums[0] {
		a, b = append(a, t.sums[0][i].ratio(w)), append(b, t.sums[1][i].ratio(w))
	}
	return a, b
}

// changes are how B's numbers differ from A's; not finite if that cannot be said.
func (t *table) changes(w []int32) []float64 {
	a, b := t.eval(w)
	for i, s := range t.specs {
		if b[i] -= a[i]; s.unit != "share" {
			b[i] /= a[i]
		}
	}
	return b
}

// blocks are the parts of the run, by which the noise floor is estimated.
const blocks = 10

// measure sets all metrics of a result. An interval is the wider one of two: stretches of requests are drawn, and conversations.
func (r *Result) measure(m *matched, slos []metrics.SLO, o Options) *table {
	t := newTable(m, slos, nil, 0)
	r.Requests, r.Metrics = int64(min(len(m.good[0]), len(m.good[1]))), t.metrics(o)
	r.Clusters, r.ClusteredBy = int64(t.clusters/t.together), "stretch of requests"
	if of, n := m.conversations(); m.paired && n >= fewestConversations {
		r.Clusters, r.ClusteredBy = int64(n), "conversation, or by stretch of requests if that gives the wider interval"
		for i, other := range newTable(m, slos, of, n).metrics(o) {
			if one := &r.Metrics[i]; one.Low != nil && other.Low != nil && *other.High-*other.Low > *one.High-*one.Low {
				one.Low, one.High = other.Low, other.High
			}
		}
	}
	return t
}

// metrics compares each number, with its interval and an estimated floor.
func (t *table) metrics(o Options) (out []Metric) {
	draws, wider := o.Resamples, widening(float64(t.clusters)/float64(t.together))
	if draws == 0 {
		draws = min(resamples, max(fewest, mostDrawn/len(t.rows[0])))
	}
	if math.IsInf(wider, 1) {
		draws = 0
	}
	drawn := resample(o.Seed, draws, t.clusters, t.together, t.changes)
	var parts [][]float64
	for block := range min(blocks, t.clusters) {
		w, n := make([]int32, t.clusters), min(blocks, t.clusters)
		for c := block * t.clusters / n; c < (block+1)*t.clusters/n; c++ {
			w[c] = 1
		}
		parts = append(parts, t.changes(w))
	}
	all := slices.Repeat([]int32{1}, t.clusters)
	a, b := t.eval(all)
	column := func(of [][]float64, i int) (values []float64) {
		for _, changes := range of {
			values = append(values, changes[i])
		}
		return values
	}
	for i, change := range t.changes(all) {
		s := t.specs[i]
		m := Metric{Name: s.name, Unit: s.unit, Main: s.main}
		if finite(change) {
			m.Change = &change
			if !strings.HasSuffix(s.name, ".paired") {
				m.A, m.B = &a[i], &b[i]
			}
			known := slices.DeleteFunc(column(parts, i), func(v float64) bool { return !finite(v) })
			if n := float64(len(known)); n >= blocks/2 {
				m.Floor = new(student95(n-1) * spread(known) / math.Sqrt(n))
			}
			few := s.quantile > 0 && !stats.EnoughSamples(int64(len(t.good[0])), s.quantile)
			if low, high, exists := interval(column(drawn, i), wider); exists && !few {
				m.Low, m.High = &low, &high
			}
		}
		out = append(out, m)
	}
	return out
}
