package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The unit of every histogram is the nanosecond.
const (
	LowestNS          = 1
	HighestNS         = 3_600_000_000_000 // 1 h
	SignificantDigits = 3                 // significant: values within 0.1 %
)

// mostExact is how many values a Distribution keeps, 32 MiB of them. A request has nine in its target's, so this is
// half a GB for 4 million requests, whose records take 2 GB.
const mostExact = 4 << 20

// Distribution counts values in ns. It keeps them, so that its percentiles are exact; above 4,194,304 values
// (mostExact) it has a histogram instead, whose percentiles are within 0.1 %. Maximum and mean are always exact. A
// histogram cannot hold negative values, so they have one of their own; only drift has them, and only through a bug
// of ours. Values above an hour count as one hour in its percentiles. The zero value is empty. One goroutine at a
// time.
type Distribution struct {
	exact  []int64                 // every value but those of full, in any order, while there is no histogram
	full   [][]int64               // parts that are full, so that nothing is copied as they grow; see kept
	limit  int                     // of exact; 0: mostExact
	values *hdrhistogram.Histogram // v >= 0; above an hour as an hour; nil while there is none
	early  *hdrhistogram.Histogram // -v of v < 0; nil until there is one
	n, sum int64                   // values, and ns; 292 years of waiting fit
	max    int64                   // exact; meaningless when empty
}

// NewHistogram returns one that keeps no values, for what a request has many of, and where Add must not allocate. It
// takes 0.3 MB.
func NewHistogram() *Distribution { return &Distribution{values: newHistogram()} }

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(LowestNS, HighestNS, SignificantDigits)
}

// Add counts ns once. A histogram allocates only for the first negative value.
func (d *Distribution) Add(ns int64) {
	d.grow(1, ns, ns)
	if d.values != nil || d.n > d.most() {
		d.count(ns)
		return
	}
	if len(d.exact) >= partValues && len(d.exact) == cap(d.exact) {
		d.full = append(d.full, d.exact)
		d.exact = make([]int64, 0, partValues)
	}
	d.exact = append(d.exact, ns)
}

// partValues is from how many values on more memory is taken for so many at a time: 64 kB.
const partValues = 8192

// most is how many values are kept.
func (d *Distribution) most() int64 { return int64(cmp.Or(d.limit, mostExact)) }

// Join puts the values that are kept into one piece, which copies of d then share.
func (d *Distribution) Join() {
	if d.full != nil {
		d.exact = slices.Concat(append(d.full, d.exact)...)
		d.full = nil
	}
}

// kept are all values that are kept.
func (d *Distribution) kept() []int64 {
	d.Join()
	return d.exact
}

// grow counts n values more, of which the largest is most.
func (d *Distribution) grow(n, sum, most int64) {
	if d.n == 0 || n > 0 && most > d.max {
		d.max = most
	}
	d.n += n
	d.sum += sum
}

// AddCounts adds what was counted elsewhere in a histogram, of which exact has number, mean and maximum. d has a
// histogram, too.
func (d *Distribution) AddCounts(h *hdrhistogram.Histogram, exact *Percentiles) {
	d.values.Merge(h)
	d.grow(exact.Count, int64(math.Round(exact.Mean*1e6*float64(exact.Count))), int64(math.Round(exact.Max*1e6)))
}

// count counts ns in the histogram, and so do all values that were kept.
func (d *Distribution) count(ns int64) {
	d.spill()
	h := d.values
	if ns < 0 {
		if d.early == nil {
			d.early = newHistogram()
		}
		h = d.early
		ns = -ns
	}
	if err := h.RecordValue(min(ns, HighestNS)); err != nil {
		panic("BUG: stats: " + err.Error())
	}
}

// spill moves the values that were kept into a histogram; nothing where there is one.
func (d *Distribution) spill() {
	if d.values != nil {
		return
	}
	kept := d.kept()
	d.values = newHistogram()
	d.exact = nil
	for _, ns := range kept {
		d.count(ns)
	}
}

// Merge adds all that is in o.
func (d *Distribution) Merge(o *Distribution) {
	d.grow(o.n, o.sum, o.max)
	if d.values == nil && o.values == nil && d.n <= d.most() {
		if kept := d.kept(); cap(kept) == 0 {
			d.exact = slices.Clip(o.kept()) // shared, until either grows: nobody minds their order
		} else {
			d.exact = append(kept, o.kept()...)
		}
		return
	}
	for _, ns := range o.kept() {
		d.count(ns)
	}
	if o.values == nil {
		return
	}
	d.spill()
	d.values.Merge(o.values)
	if o.early != nil {
		if d.early == nil {
			d.early = newHistogram()
		}
		d.early.Merge(o.early)
	}
}

// Histograms returns the values as histograms, of those that are at least 0 and of the sizes of others; nil for none.
func (d *Distribution) Histograms() (values, early *hdrhistogram.Histogram) {
	if d.Count() > 0 && d.values == nil {
		counted := NewHistogram()
		counted.Merge(d)
		d = counted
	}
	return d.values, d.early
}

// With returns a histogram of d's values without those of less and with those of more, which may be nil. d has
// values, none below 0.
func (d *Distribution) With(less, more *Distribution) *Distribution {
	out := NewHistogram()
	gone := map[int64]int64{}
	if less != nil {
		values, _ := less.Histograms()
		for _, bar := range values.Distribution() {
			if bar.Count > 0 {
				gone[bar.From] = bar.Count
			}
		}
	}
	values, _ := d.Histograms()
	for _, bar := range values.Distribution() {
		if n := bar.Count - gone[bar.From]; n > 0 {
			out.grow(n, 0, d.max)
			if err := out.values.RecordValues(bar.From, n); err != nil {
				panic("BUG: stats: " + err.Error())
			}
		}
	}
	if more != nil {
		out.Merge(more)
	}
	return out
}

// Count returns the number of samples.
func (d *Distribution) Count() int64 { return d.n }

// SumNS returns the sum of all samples.
func (d *Distribution) SumNS() int64 { return d.sum }

// Negatives is how many values are below 0.
func (d *Distribution) Negatives() (n int64) {
	for _, ns := range d.kept() {
		if ns < 0 {
			n++
		}
	}
	if d.early != nil {
		n += d.early.TotalCount()
	}
	return n
}

// Above returns how many values are above ns, which is at least 0. In a histogram, values within 0.1 % of ns may count
// either way.
func (d *Distribution) Above(ns int64) (n int64) {
	for _, v := range d.kept() {
		if v > ns {
			n++
		}
	}
	if d.values != nil {
		for _, bar := range d.values.Distribution() {
			if bar.From > ns {
				n += bar.Count
			}
		}
	}
	return n
}

// QuantileNS returns the value of nearest rank ceil(permille/1000 * count).
// Empty: 0.
func (d *Distribution) QuantileNS(permille int64) int64 {
	n := d.Count()
	if n == 0 {
		return 0
	}
	rank := Rank(n, permille)
	if d.values == nil {
		Sort(d.kept())
		return d.exact[rank-1]
	}
	early := d.Negatives()
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

// Percentiles returns the description in units of unitNS; nil if d is nil or empty.
func (d *Distribution) Percentiles(unitNS float64) *Percentiles {
	if d == nil || d.Count() == 0 {
		return nil
	}
	n := d.Count()
	p := Describe(d.kept(), unitNS)
	if p == nil {
		at := func(permille int64) float64 { return float64(d.QuantileNS(permille)) / unitNS }
		p = &Percentiles{
			P50:           at(500),
			P75:           at(750),
			P90:           at(900),
			P95:           at(950),
			P99:           at(990),
			P999:          at(999),
			Max:           float64(d.max) / unitNS,
			FromHistogram: true,
		}
	}
	p.Mean = math.Round(float64(d.sum)/float64(n)) / unitNS
	p.Count = n
	return p
}

// stepExact is how many values of a latency a step keeps exactly: 1 MB.
const stepExact = 1 << 17

// Emptied is an empty distribution of a step, in the memory of d.
func (d *Distribution) Emptied() Distribution {
	return Distribution{exact: d.exact[:0], limit: stepExact}
}

// At is the percentile by nearest rank in units of unitNS; nil of nothing.
func (d *Distribution) At(permille int64, unitNS float64) *float64 {
	if d.Count() == 0 {
		return nil
	}
	return new(float64(d.QuantileNS(permille)) / unitNS)
}
