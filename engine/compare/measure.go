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

// errorRate is the name of the share of requests that failed.
const errorRate = "error_rate"

// outputTokens is the name of how many tokens an answer has.
const outputTokens = "output_tokens"

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

// specs are all metrics, in the order of a result. Names are those of verdict.Quantities, if it has them.
func specs() (all []spec) {
	for _, l := range metrics.BoundedLatencies() {
		for k, kind := range [kindsOf]string{"p50", "p95", "p99", "mean", "paired"} {
			all = append(all, spec{
				name:     l.Key + "." + kind,
				label:    strings.Replace(l.Label+" "+kind, " paired", ", request by request,", 1),
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
			count: func(r *row) (over, under float64) {
				return r.cached, r.prompt
			},
		},
		spec{
			name:  errorRate,
			label: "share of failed requests",
			unit:  "share",
			main:  true,
			all:   true,
			count: func(r *row) (over, under float64) {
				return b2f(!r.ok), 1
			},
		},
		spec{
			name:   "goodput",
			label:  "share of requests within the SLOs",
			unit:   "share",
			main:   true,
			higher: true,
			all:    true,
			count: func(r *row) (over, under float64) {
				return r.met, 1
			},
		},
		spec{
			name:   "requests_per_s",
			label:  "throughput in requests",
			unit:   "rate",
			higher: true,
			count: func(*row) (over, under float64) {
				return 1, 0
			},
		},
		spec{
			name:   outputTokens,
			label:  "length of answers, in tokens,",
			unit:   "tokens",
			higher: true,
			count: func(r *row) (over, under float64) {
				return r.output, 1
			},
		},
		spec{
			name:   "output_tokens_per_s",
			label:  "throughput in output tokens",
			unit:   "rate",
			main:   true,
			higher: true,
			count: func(r *row) (over, under float64) {
				return r.output, 0
			},
		})
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// column has the values of a latency in one run in rising order, without those that are not finite. Of pairs it has
// the place of each one's request among all rows.
type column struct {
	values []float64
	places []int
}

// newColumn has a value of each good request; of gives it by its place among these.
func (m *matched) newColumn(n int, of func(i int) float64) *column {
	var order []int
	all := make([]float64, n)
	for i := range n {
		all[i] = of(i)
		if finite(all[i]) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Compare(all[i], all[j])
	})
	c := new(column)
	for _, i := range order {
		c.values = append(c.values, all[i])
		if m.paired {
			c.places = append(c.places, m.places[i])
		}
	}
	return c
}

// describe returns p50, p95, p99 and the mean of the values whose requests are not in a group; NaN if there are none.
func (c *column) describe(g *groups, without int8) (found [4]float64) {
	left := len(c.values)
	if g != nil {
		for _, place := range c.places {
			if g.of[place] == without {
				left--
			}
		}
	}
	if left == 0 {
		return [4]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	n := int64(left)
	ranks := [3]int64{stats.Rank(n, 500), stats.Rank(n, 950), stats.Rank(n, 990)}
	var rank int64
	sum := 0.0
	for i, v := range c.values {
		if g != nil && g.of[c.places[i]] == without {
			continue
		}
		rank++
		sum += v
		for k, wanted := range ranks {
			if rank == wanted {
				found[k] = v
			}
		}
	}
	found[3] = sum / float64(n)
	return found
}

// addColumns adds the columns that numbers are computed from.
func (m *matched) addColumns() {
	for l := range metrics.BoundedLatencies() {
		var means []float64
		for i := range m.places {
			sum := 0.0
			for _, s := range m.samples {
				sum += math.Log(s.good[i].ms[l])
			}
			means = append(means, math.Exp(sum/float64(len(m.samples))))
		}
		for _, s := range m.samples {
			of := func(i int) float64 {
				return s.good[i].ms[l]
			}
			ratio := func(i int) float64 {
				return of(i) / means[i]
			}
			s.latencies = append(s.latencies, m.newColumn(len(s.good), of))
			s.ratios = append(s.ratios, m.newColumn(len(means), ratio))
		}
	}
}

// numbersOf are those of a run in the order of the specs, if there are groups without the requests of one. A number
// that does not exist is not finite. What is typical of a run's requests is the median of their ratios to what the same
// requests took in all runs. TestComparePower in bench found 1 % of TPOT in 65 % of pairs of runs by a median of
// ratios. By a mean of their logarithms without the largest and smallest fifth it was 51 %.
func (m *matched) numbersOf(of *sample, g *groups, without int8) (out []float64) {
	for l, c := range of.latencies {
		found := c.describe(g, without)
		typical := of.ratios[l].describe(g, without)
		out = append(out, found[:]...)
		out = append(out, typical[0])
	}
	for _, s := range specs()[len(out):] {
		if s.unit == "rate" {
			out = append(out, m.rate(of, s, g, without))
			continue
		}
		rows := of.good
		if s.all {
			rows = of.all
		}
		var sumOver, sumUnder float64
		for i, r := range rows {
			if g != nil {
				place := i
				if !s.all {
					place = m.places[i]
				}
				if g.of[place] == without {
					continue
				}
			}
			if over, under := s.count(r); finite(over) && finite(under) {
				sumOver += over
				sumUnder += under
			}
		}
		out = append(out, sumOver/sumUnder)
	}
	return out
}

// rate is what ok requests made in a second of a run. If runs are paired, each counts until one of them ended. How long
// the last request took must not decide, nor that one of them was stopped. Conversations do not divide a rate.
func (m *matched) rate(of *sample, s spec, g *groups, without int8) float64 {
	lasted := of.summary.Run.DurationS
	if m.paired {
		for _, other := range m.samples {
			lasted = min(lasted, other.summary.Run.DurationS)
		}
	}
	// what is left out
	var from, to float64
	if g != nil {
		if !g.timed {
			return math.NaN()
		}
		from = lasted * float64(without) / float64(len(g.sizes))
		to = lasted * float64(without+1) / float64(len(g.sizes))
	}
	sum := 0.0
	later := false
	for _, r := range of.rows {
		out := r.doneS > from && r.doneS <= to
		later = later || r.ok && (r.doneS >= lasted || math.IsNaN(r.doneS)) // a trace's record has no ends
		if over, _ := s.count(r); r.ok && !out && r.doneS < lasted && finite(over) {
			sum += over
		}
	}
	if sum == 0 && later { // nothing ended in the time of the shortest run, which is no rate of 0
		return math.NaN()
	}
	return sum / (lasted - (to - from))
}

// scale is on what numbers are compared. Shares are compared by their difference, all else by the logarithm of the
// ratio. So the noise of twice as much is that of half as much.
func (s *spec) scale(v float64) float64 {
	if s.unit == "share" {
		return v
	}
	return math.Log(v)
}

// value is the number at a place of the scale.
func (s *spec) value(v float64) float64 {
	if s.unit == "share" {
		return v
	}
	return math.Exp(v)
}

// changeOf is the change that a difference on the scale stands for.
func (s *spec) changeOf(distance float64) float64 {
	if s.unit == "share" {
		return distance
	}
	return math.Expm1(distance)
}

func finite(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}
