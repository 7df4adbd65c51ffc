package inspect

import (
	"math/bits"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// timelineBins is how many bins the span is cut into: one for each column of the plot on a terminal of 80.
const timelineBins = 64

const second = int64(1e9) // ns

func arrivals(t *trace.Trace, input, output int64) Arrivals {
	span := t.SpanNS()
	a := Arrivals{SpanS: seconds(span)}
	a.burst(t.ArrivalNS)
	a.peak(t.ArrivalNS)
	gaps := make([]int64, max(0, t.Len()-1))
	for i := range gaps {
		gaps[i] = t.ArrivalNS[i+1] - t.ArrivalNS[i]
	}
	if cv, exists := stats.Variation(gaps); exists {
		a.GapCV = &cv
	}
	a.GapS = stats.Describe(gaps, 1e9)
	if span > 0 {
		a.RowsPerS, a.InputTokensPerS, a.OutputTokensPerS = perSecond(int64(t.Len()), span), perSecond(input, span), perSecond(output, span)
		a.timeline(t.ArrivalNS, span)
	}
	return a
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func perSecond(n, spanNS int64) *float64 {
	v := float64(n) / seconds(spanNS)
	return &v
}

// burst counts instants and finds the largest crowd at one; at ascends.
func (a *Arrivals) burst(at []int64) {
	crowd := int64(0)
	for i := range at {
		if i == 0 || at[i] != at[i-1] {
			a.Instants++
			crowd = 0
		}
		if crowd++; crowd > a.LargestBurst {
			a.LargestBurst, a.LargestBurstAtS = crowd, seconds(at[i])
		}
	}
}

// peak finds the second with the most rows; it may as well begin at an arrival.
func (a *Arrivals) peak(at []int64) {
	first := 0
	for i := range at {
		for at[i]-at[first] >= second {
			first++
		}
		if n := int64(i - first + 1); n > a.PeakRows {
			a.PeakRows, a.PeakAtS = n, seconds(at[first])
		}
	}
}

func (a *Arrivals) timeline(at []int64, span int64) {
	a.BinS = seconds(span) / timelineBins
	a.Timeline = make([]int64, timelineBins)
	for _, ns := range at {
		high, low := bits.Mul64(uint64(ns), timelineBins) // 64 times 292 years is beyond an int64
		bin, _ := bits.Div64(high, low, uint64(span))
		a.Timeline[min(bin, timelineBins-1)]++
	}
}
