package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Trend is a quantity that went one way over the run, so that percentiles depend on how long the run is. It is told
// from the 20 parts of equally many requests in the order of sending: from their medians, or their means if it is
// requests in flight. Of quantities that only chance moves, 1 in 1,000 has a trend.
type Trend struct {
	Quantity string  `json:"quantity"` // ttft, tpot or e2e: the median in ms; or in_flight: the mean of requests
	First    float64 `json:"first"`    // in the first quarter of the requests
	Last     float64 `json:"last"`     // in the last quarter of the requests
	// what else changed by over 10 % from the first quarter to the last, as a share: requests_per_s as planned, or
	// prompt_tokens or output_tokens of a request; empty if the load was steady
	Load map[string]float64 `json:"load"`
	// of in_flight: the load was steady, and TTFT or E2E rose, so that requests were not only filling up; else absent
	Overload bool `json:"overload,omitempty"`
}

// What counts as a trend.
const (
	trendT     = 3.92 // Student's t with 18 degrees of freedom exceeds that once in 1,000 times
	leastTrend = 0.1  // of the value in the first quarter
	leastGrown = 10   // requests in flight
	growthT    = 3.58 // with 19 steps, one way, likewise
)

// Short says what went which way and, if the load was steady, what of the server that tells.
func (t *Trend) Short() string {
	if t.Quantity == inFlightTrend {
		grew := "in flight grew " + format.Number(t.First, 3) + " → " + format.Number(t.Last, 3)
		if t.Overload {
			grew += ": the server cannot carry this load"
		}
		return grew
	}
	way := " p50 rose by "
	if t.Last < t.First {
		way = " p50 fell by "
	}
	label := t.Quantity // of a summary that we did not write
	if of := FindLatency(t.Quantity); of >= 0 {
		label = latencies[of].Label
	}
	return label + way + fmt.Sprintf("%.0f %%", 100*math.Abs(t.Last/t.First-1))
}

// Words says more of it, and what of the load may be the cause.
func (t *Trend) Words() string {
	words := t.Short()
	if t.Quantity == inFlightTrend {
		words = "requests " + words + ", all the time and on average from the first quarter of the run to the last"
	} else {
		words += " over the run, from " + format.Duration(t.First*1e6, 3) + " in its first quarter to " +
			format.Duration(t.Last*1e6, 3) + " in its last"
	}
	words += "; percentiles depend on how long the run is"
	var load []string
	for _, key := range slices.Sorted(maps.Keys(t.Load)) {
		name := strings.ReplaceAll(strings.ReplaceAll(key, "_per_s", "/s"), "_", " ")
		load = append(load, fmt.Sprintf("%s %+.0f %%", name, 100*t.Load[key]))
	}
	if load != nil {
		words += "; the load changed, too, and may be the cause (" + strings.Join(load, ", ") + ")"
	}
	return words
}

const inFlightTrend = "in_flight"

// bySection is what a run did in each of its parts.
type bySection struct {
	inFlight, prompt, output [stats.MostSections]float64 // sums
	requests, ok             [stats.MostSections]float64
	latencies                [numTimed][stats.MostSections][]int64
}

// trends are those of a run of at least five ok requests a section.
func (c *Collector) trends(s *Summary) (out []Trend) {
	if c.timings.spilled > 0 {
		return nil
	}
	by, spans := c.timings.bySection()
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
		t := Trend{
			Quantity: inFlightTrend,
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
			slices.Sort(values)
			medians[k] = float64(values[stats.Rank(int64(len(values)), 500)-1]) / 1e6
		}
		t := Trend{
			Quantity: latencies[l].Key,
			First:    quarter(medians, nil, false),
			Last:     quarter(medians, nil, true),
			Load:     load,
		}
		moved := math.Abs(t.Last - t.First)
		if slices.Min(medians) > 0 && moved > leastTrend*t.First && moved*1e6 > float64(latencies[l].toleratedNS) &&
			math.Abs(stats.TrendT(medians)) > trendT {
			rose = rose || t.Last > t.First
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].Overload = out[i].Quantity == inFlightTrend && rose && len(load) == 0
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
	from, n := 0, len(values)/4
	if last {
		from = len(values) - n
	}
	over, under := 0.0, 0.0
	for i := from; i < from+n; i++ {
		over += values[i]
		if under++; weights != nil {
			under += weights[i] - 1
		}
	}
	return over / under
}

// bySection returns that and for how long requests of each section were planned, in ns.
func (t *timings) bySection() (by *bySection, spans []float64) {
	by = new(bySection)
	cuts := t.sectionsOf()
	var ends []int64
	var sent []*timing
	t.each(func(k *timing) {
		if k.sent {
			sent = append(sent, k)
			ends = append(ends, k.endNS)
		}
	})
	slices.Sort(ends)
	slices.SortFunc(sent, func(a, b *timing) int { return int(a.atNS - b.atNS) })
	spans = make([]float64, stats.MostSections)
	ended := 0
	for i, k := range sent {
		for ended < len(ends) && ends[ended] <= k.atNS {
			ended++
		}
		j := sectionAt(cuts, k.atNS)
		by.requests[j]++
		by.inFlight[j] += float64(i + 1 - ended)
		if k.plannedNS != record.None && i > 0 && sent[i-1].plannedNS != record.None {
			spans[j] += float64(k.plannedNS - sent[i-1].plannedNS)
		}
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
