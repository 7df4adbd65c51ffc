package live

import (
	"math/bits"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// A window counts values of the last minute in six steps of 10 s: those of the current step and of the five before it. Its size
// is fixed, 66 kB, and adding allocates nothing.
const (
	windowSteps = 6
	stepNS      = int64(10e9)
	subBuckets  = 64 // in each power of two: a bucket's middle is within 0.8 % of its values
	windowCells = (42 - 7 + 2) * subBuckets
	mostNS      = 1<<42 - 1 // 73 minutes
)

// counts are values by bucket.
type counts struct {
	cells [windowCells]uint32
	n     int64
}

func (c *counts) add(ns int64) {
	c.cells[cell(ns)]++
	c.n++
}

// quantile returns the value of the nearest rank, in ns; 0 if there is none.
func (c *counts) quantile(permille int64) int64 {
	if c.n == 0 {
		return 0
	}
	rank := stats.Rank(c.n, permille)
	for i, n := range c.cells {
		if rank -= int64(n); rank <= 0 {
			return middle(i)
		}
	}
	panic("BUG: live: values were lost")
}

type window struct {
	steps [windowSteps]counts
	all   counts // the sum of the steps
	at    int64  // number of the current step
}

// cell is the bucket of a value: values below 128 ns have their own.
func cell(ns int64) int {
	v := uint64(min(max(ns, 0), mostNS))
	shift := max(0, bits.Len64(v)-7)
	return shift*subBuckets + int(v>>shift)
}

// middle is the inverse of cell.
func middle(cell int) int64 {
	shift := max(0, cell/subBuckets-1)
	low := int64(cell-shift*subBuckets) << shift
	return low + (int64(1)<<shift)/2
}

// turn forgets the steps that are older than the minute that ends at nowNS.
func (w *window) turn(nowNS int64) {
	now := max(0, nowNS) / stepNS
	for passed := 0; w.at < now && passed < windowSteps; passed++ {
		w.at++
		step := &w.steps[w.at%windowSteps]
		for i, n := range step.cells {
			w.all.cells[i] -= n
		}
		w.all.n -= step.n
		*step = counts{}
	}
	w.at = max(w.at, now)
}

func (w *window) add(nowNS, ns int64) {
	w.turn(nowNS)
	w.steps[w.at%windowSteps].add(ns)
	w.all.add(ns)
}

func (w *window) describe(nowNS int64) Quantiles {
	w.turn(nowNS)
	return Quantiles{Count: w.all.n, P50: w.all.quantile(500), P99: w.all.quantile(990)}
}
