package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// kindsOf is how many numbers of a latency are compared: percentiles, the mean, and the change that is typical of
// pairs.
const kindsOf = 5

// spec is what a metric is, whatever its values: a number of a latency, or a ratio of sums over requests.
type spec struct {
	name, label, unit string
	main              bool    // on one screen
	higher            bool    // is better
	quantile          float64 // 0 if the metric is none
	// count is nil of latencies. Its sums are divided, but of a rate over is divided by the time.
	count func(r *row) (over, under float64)
	all   bool // all requests count, and not only those that ended ok (of pairs, in both sides)
}

// specs are all metrics, in the order of a result. Names are those of metrics.Quantities, if it has them.
func specs() (all []spec) {
	for _, l := range metrics.BoundedLatencies() {
		for k, kind := range [kindsOf]string{"p50", "p95", "p99", "mean", "paired"} {
			all = append(all, spec{
				name:     l.Key + "." + kind,
				label:    l.Label + " " + strings.Replace(kind, "paired", "pair by pair", 1),
				unit:     "ms",
				quantile: [kindsOf]float64{0.5, 0.95, 0.99}[k],
				main:     slices.Contains(l.Compared, kind),
			})
		}
	}
	return append(all, // runs keep no single gaps, so ITL has a mean alone
		spec{name: "itl.mean", label: "ITL mean", unit: "ms", count: func(r *row) (over, under float64) {
			return r.ms[metrics.E2E] - r.ms[metrics.TTFT], r.chunks - 1 // from the first token to the last
		}},
		spec{
			name:   "prefix_hits",
			label:  "share of prompt tokens from the prefix cache",
			unit:   "share",
			main:   true,
			higher: true,
			count:  func(r *row) (over, under float64) { return r.cached, r.prompt },
		},
		spec{
			name:  "error_rate",
			label: "share of failed requests",
			unit:  "share",
			main:  true,
			all:   true,
			count: func(r *row) (over, under float64) { return b2f(!r.ok), 1 },
		},
		spec{
			name:   "goodput",
			label:  "share of requests within the SLOs",
			unit:   "share",
			main:   true,
			higher: true,
			all:    true,
			count:  func(r *row) (over, under float64) { return r.met, 1 },
		},
		spec{
			name:   "requests_per_s",
			label:  "throughput in requests",
			unit:   "rate",
			higher: true,
			count:  func(*row) (over, under float64) { return 1, 0 },
		},
		spec{
			name:   "output_tokens_per_s",
			label:  "throughput in output tokens",
			unit:   "rate",
			main:   true,
			higher: true,
			count:  func(r *row) (over, under float64) { return r.output, 0 },
		})
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// known are the values of n requests, without those that are not finite.
func known(n int, of func(i int) float64) (out []float64) {
	for i := range n {
		if v := of(i); finite(v) {
			out = append(out, v)
		}
	}
	return out
}

// describe has NaN for all of nothing.
func describe(n int, of func(i int) float64) *stats.Percentiles {
	nan := math.NaN()
	return cmp.Or(stats.Describe(known(n, of), 1), &stats.Percentiles{P50: nan, P95: nan, P99: nan, Mean: nan})
}

// numbers are those of both sides, in the order of the specs. A number that does not exist is not finite. What is
// typical of pairs is the median of their ratios: TestComparePower in bench found 1 % of TPOT in 65 % of pairs of
// runs by it, and in 51 % by a mean of their logarithms without the largest and smallest fifth.
func (m *matched) numbers() (sides [2][]float64) {
	a := m.good[0]
	b := m.good[1]
	for l := range metrics.BoundedLatencies() {
		for side, good := range m.good {
			d := describe(len(good), func(i int) float64 { return good[i].ms[l] })
			sides[side] = append(sides[side], d.P50, d.P95, d.P99, d.Mean)
		}
		typical := math.NaN()
		if m.paired {
			typical = describe(len(a), func(i int) float64 { return b[i].ms[l] / a[i].ms[l] }).P50
		}
		sides[0] = append(sides[0], 1)
		sides[1] = append(sides[1], typical)
	}
	for _, s := range specs()[len(sides[0]):] {
		for side, rows := range m.good {
			switch {
			case s.unit == "rate":
				sides[side] = append(sides[side], m.rate(side, s))
				continue
			case s.all:
				rows = m.rows[side]
			}
			sumOver, sumUnder := 0.0, 0.0
			for _, r := range rows {
				if over, under := s.count(r); finite(over) && finite(under) {
					sumOver, sumUnder = sumOver+over, sumUnder+under
				}
			}
			sides[side] = append(sides[side], sumOver/sumUnder)
		}
	}
	return sides
}

// rate is what ok requests made in a second of a side's runs. Runs in a pair count until one of them ended: how long
// the last request took must not decide, nor that one of them was stopped.
func (m *matched) rate(side int, s spec) float64 {
	sum, seconds := 0.0, 0.0
	for k, run := range m.runs[side] {
		lasted := run.summary.Run.DurationS
		if m.paired {
			lasted = min(lasted, m.runs[1-side][k].summary.Run.DurationS)
		}
		from := m.from * lasted
		to := m.to * lasted
		seconds += to - from
		for _, r := range run.rows {
			if over, _ := s.count(r); r.ok && r.doneS > from && r.doneS <= to && finite(over) {
				sum += over
			}
		}
	}
	return sum / seconds
}

// distance is by how much a number differs between the sides: of shares the difference, else the logarithm of the
// ratio, so that the noise of twice as much is that of half as much. changeOf makes a change of it.
func (s *spec) distance(a, b float64) float64 {
	if s.unit == "share" {
		return b - a
	}
	return math.Log(b / a)
}

func (s *spec) changeOf(distance float64) float64 {
	if s.unit == "share" {
		return distance
	}
	return math.Expm1(distance)
}

// measure compares each number. Its interval and estimated floor are from the parts of the time, or from those of
// conversations if they differ more; without pairs, or of too few requests, it has neither. Conversations do not
// divide a rate.
func (m *matched) measure() (out []Metric) {
	all := m.numbers()
	good := int64(len(m.good[0]))
	var ofParts, ofConversations [][2][]float64
	grouped := m.paired && m.groupConversations()
	for part := range parts {
		if m.paired {
			ofParts = append(ofParts, m.part(part).numbers())
		}
		if grouped {
			ofConversations = append(ofConversations, m.partOfConversations(part).numbers())
		}
	}
	for i, s := range specs() {
		metric := Metric{Name: s.name, Unit: s.unit, Main: s.main}
		distance := s.distance(all[0][i], all[1][i])
		if change := s.changeOf(distance); finite(change) {
			metric.Change = &change
			if !strings.HasSuffix(s.name, ".paired") {
				metric.A = &all[0][i]
				metric.B = &all[1][i]
			}
			reachOf := func(parts [][2][]float64) float64 {
				var distances []float64
				for _, sides := range parts {
					distances = append(distances, s.distance(sides[0][i], sides[1][i]))
				}
				return reach95(distance, distances)
			}
			reach := reachOf(ofParts)
			if other := reachOf(ofConversations); other > reach && s.unit != "rate" {
				reach = other
			}
			if finite(reach) && (s.quantile == 0 || stats.EnoughSamples(good, s.quantile)) {
				metric.Low = new(s.changeOf(distance - reach))
				metric.High = new(s.changeOf(distance + reach))
				metric.Floor = new(-s.changeOf(-reach))
			}
		}
		out = append(out, metric)
	}
	return out
}

// reach95 is how far from an estimate the truth is at most, in 95 % of cases, by the same estimate of each part of
// what it is from (S. Asmussen and P. Glynn, Stochastic Simulation, 2007, III.5: sectioning). It is not finite if
// fewer than half of the parts have one.
//
// Neighbours share conversations and slow seconds, so parts count as one less than they are. If all ten counted,
// TestComparePower in bench had 5.5 % false alarms for TTFT.
func reach95(estimate float64, ofParts []float64) float64 {
	n, squares := -1, 0.0
	for _, v := range ofParts {
		if finite(v) {
			n++
			squares += (v - estimate) * (v - estimate)
		}
	}
	if n+1 < parts/2 {
		return math.NaN()
	}
	return student95(n-1) * math.Sqrt(squares) / float64(n)
}

// student95 is how many standard deviations from the mean 95 % of Student's t reach, with so many degrees of freedom;
// of more than 9 it is that of 9.
func student95(freedom int) float64 {
	return [...]float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}[min(freedom, 9)-1]
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
