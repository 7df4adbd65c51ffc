package metrics

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// The unit of every histogram is the nanosecond.
const (
	lowestNS  = 1
	highestNS = 3_600_000_000_000 // 1 h
	digits    = 3                 // significant: values within 0.1 %
)

// Percentiles describes one distribution. Percentiles are by nearest rank:
// the smallest value that at least that share of the samples do not exceed,
// within 0.1 % (3 significant digits). Max and Mean are exact. The unit is in
// the key that holds it (drift_us, ttft_ms).
type Percentiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Distribution is a histogram that also knows its exact maximum and mean, and
// takes values that a HdrHistogram cannot hold: negative ones (only drift has
// them, and only through a bug of ours) and those above an hour, which count as one hour in percentiles. One goroutine
// at a time.
type Distribution struct {
	values *hdrhistogram.Histogram // v >= 0; above an hour as an hour
	early  *hdrhistogram.Histogram // -v of v < 0; nil until there is one
	sum    int64                   // ns; 292 years of waiting fit
	max    int64                   // exact; meaningless when empty
}

// NewDistribution returns an empty distribution; the zero value is none.
func NewDistribution() *Distribution {
	return &Distribution{values: newHistogram(), max: math.MinInt64}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestNS, highestNS, digits)
}

// Add counts ns once. It allocates only for the first negative value.
func (d *Distribution) Add(ns int64) {
	d.sum += ns
	d.max = max(d.max, ns)
	h := d.values
	if ns < 0 {
		if d.early == nil {
			d.early = newHistogram()
		}
		h, ns = d.early, -ns
	}
	if err := h.RecordValue(min(ns, highestNS)); err != nil {
		panic("BUG: metrics: " + err.Error())
	}
}

// Merge adds all that is in o.
func (d *Distribution) Merge(o *Distribution) {
	d.sum += o.sum
	d.max = max(d.max, o.max)
	d.values.Merge(o.values)
	if o.early == nil {
		return
	}
	if d.early == nil {
		d.early = newHistogram()
	}
	d.early.Merge(o.early)
}

// Count returns the number of samples.
func (d *Distribution) Count() int64 {
	return d.values.TotalCount() + d.negatives()
}

func (d *Distribution) negatives() int64 {
	if d.early == nil {
		return 0
	}
	return d.early.TotalCount()
}

// QuantileNS returns the value of nearest rank ceil(permille/1000 * count).
// Empty: 0.
func (d *Distribution) QuantileNS(permille int64) int64 {
	n := d.Count()
	if n == 0 {
		return 0
	}
	rank := stats.Rank(n, permille)
	early := d.negatives()
	if rank <= early {
		return -atRank(d.early, early-rank+1)
	}
	return min(atRank(d.values, rank-early), d.max)
}

// atRank returns the value of the rank-th smallest sample, rank from 1. The
// library rounds rank = q/100*count to the nearest; asking with this very
// quotient makes that exact.
func atRank(h *hdrhistogram.Histogram, rank int64) int64 {
	return h.ValueAtQuantile(100 * float64(rank) / float64(h.TotalCount()))
}

// Percentiles returns the description in units of unitNS, or nil when empty.
func (d *Distribution) Percentiles(unitNS float64) *Percentiles {
	n := d.Count()
	if n == 0 {
		return nil
	}
	at := func(permille int64) float64 { return float64(d.QuantileNS(permille)) / unitNS }
	return &Percentiles{
		P50: at(500), P90: at(900), P95: at(950), P99: at(990), P999: at(999),
		Max:  float64(d.max) / unitNS,
		Mean: math.Round(float64(d.sum)/float64(n)) / unitNS,
	}
}
