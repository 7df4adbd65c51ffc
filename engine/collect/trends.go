package collect

import (
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// What counts as a trend.
const (
	trendT     = 3.92 // Student's t with 18 degrees of freedom exceeds that once in 1,000 times
	leastTrend = 0.1  // of the value in the first quarter
	leastGrown = 10   // requests in flight
	growthT    = 3.58 // with 19 steps, one way, likewise
)

// bySection is what a run did in each of its parts.
type bySection struct {
	inFlight, prompt, output [stats.MostSections]float64 // sums
	requests, ok             [stats.MostSections]float64
	latencies                [numTimed][stats.MostSections][]int64
	cuts                     []int64 // the first instants of parts but the first
}

// instantS is when a part of the run is over, by its number from 0 and that share of it, in s from the start. The part
// is neither the first nor the last.
func (b *bySection) instantS(part float64) float64 {
	k := int(part)
	from := float64(b.cuts[k-1])
	return (from + (part-float64(k))*(float64(b.cuts[k])-from)) / 1e9
}

// trends are those of a run of at least five ok requests a section.
func (c *Collector) trends(s *metrics.Summary, run *sequence) (out []metrics.Trend) {
	by, spans := run.bySection()
	if slices.Min(by.ok[:]) < 5 {
		return nil
	}
	rose := false // a latency
	load := map[string]float64{}
	for key, v := range map[string][stats.MostSections]float64{"prompt_tokens": by.prompt, "output_tokens": by.output} {
		setChange(load, key, quarter(v[:], by.ok[:], false), quarter(v[:], by.ok[:], true))
	}
	open := s.Run.Concurrency == 0
	if open {
		setChange(load, "requests_per_s", quarter(by.requests[:], spans, false), quarter(by.requests[:], spans, true))
		flying := make([]float64, stats.MostSections)
		for i := range flying {
			flying[i] = by.inFlight[i] / by.requests[i]
		}
		t := metrics.Trend{
			Quantity: metrics.InFlightTrend,
			First:    quarter(flying, nil, false),
			Last:     quarter(flying, nil, true),
			Load:     load,
		}
		if t.Last-t.First > leastGrown && t.Last > 1.5*t.First && stats.StepsT(flying) > growthT {
			out = append(out, t)
		}
	}
	for i, l := range timedLatencies {
		if latencies[l].Twin != "" {
			continue
		}
		medians := make([]float64, stats.MostSections)
		for k, values := range by.latencies[i] {
			if len(values) < 5 {
				break
			}
			stats.Sort(values)
			medians[k] = float64(values[stats.Rank(int64(len(values)), 500)-1]) / 1e6
		}
		t := metrics.Trend{
			Quantity: latencies[l].Key,
			First:    quarter(medians, nil, false),
			Last:     quarter(medians, nil, true),
			Load:     load,
		}
		step, before, after := stats.Step(medians)
		if step > 0 {
			t.First = before
			t.Last = after
			t.StepS = by.instantS(step)
		}
		moved := math.Abs(t.Last - t.First)
		if slices.Min(medians) > 0 && moved > leastTrend*t.First && moved*1e6 > float64(latencies[l].ToleratedNS) &&
			(step > 0 || math.Abs(stats.TrendT(medians)) > trendT) {
			rose = rose || t.Last > t.First
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].Overload = out[i].Quantity == metrics.InFlightTrend && rose && len(load) == 0
	}
	return out
}

// setChange sets the change of a quantity of the load, if it is more than a trend needs.
func setChange(load map[string]float64, key string, first, last float64) {
	if change := last/first - 1; first > 0 && math.Abs(change) > leastTrend {
		load[key] = change
	}
}

// quarter is the mean of the first or last quarter of the values or, with weights, the ratio of both sums there.
func quarter(values, weights []float64, last bool) float64 {
	from := 0
	n := len(values) / 4
	if last {
		from = len(values) - n
	}
	over := 0.0
	under := 0.0
	for i := from; i < from+n; i++ {
		over += values[i]
		if under++; weights != nil {
			under += weights[i] - 1
		}
	}
	return over / under
}

// bySection returns that and for how long requests of each section were planned, in ns.
func (s *sequence) bySection() (by *bySection, spans []float64) {
	by = new(bySection)
	by.cuts = s.cuts
	for l := range by.latencies {
		for j := range by.latencies[l] {
			by.latencies[l][j] = make([]int64, 0, len(s.all)/stats.MostSections+1)
		}
	}
	ends := make([]int64, 0, len(s.all))
	for _, k := range s.all {
		if k.sent {
			ends = append(ends, k.endNS)
		}
	}
	stats.Sort(ends)
	spans = make([]float64, stats.MostSections)
	sent := 0
	ended := 0
	var before *timing
	for i, k := range s.all {
		if !k.sent {
			continue
		}
		sent++
		for ended < len(ends) && ends[ended] <= k.atNS {
			ended++
		}
		j := s.part[i]
		by.requests[j]++
		by.inFlight[j] += float64(sent - ended)
		if before != nil && k.plannedNS != record.None && before.plannedNS != record.None {
			spans[j] += float64(k.plannedNS - before.plannedNS)
		}
		before = k
		if k.outcome != record.OK {
			continue
		}
		by.ok[j]++
		by.prompt[j] += float64(k.prompt)
		by.output[j] += float64(k.output)
		for l, ns := range k.latencies {
			if ns != record.None {
				by.latencies[l][j] = append(by.latencies[l][j], ns)
			}
		}
	}
	return by, spans
}
