package collect

import (
	"cmp"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// A client that was late sends what it held back at once. Before a busy server that burst delays others, too. This file
// bounds by how much. Suppose requests were served first come, first served, and each had left when it was planned.
// Then none would have ended later than it did. None would have ended earlier by more than the largest lateness since
// the server last had nothing waiting.

// arrival is a request as it came to the servers.
type arrival struct {
	sentNS, lateNS int64
	latencies      [numTimed]int64 // ns, in the order of timedLatencies; record.None if it has none
	output         int64           // tokens
	inFlight       int             // itself included, when it was sent
	pushedNS       int64           // how much earlier it may have ended if none had been late
}

// arrivals are the requests in the order of their sending.
func (t *timings) arrivals() []arrival {
	var all []arrival
	var ends []int64
	t.each(func(k *timing) {
		if k.sent && k.plannedNS != record.None {
			ends = append(ends, k.endNS)
			all = append(all,
				arrival{
					sentNS:    k.atNS,
					lateNS:    max(0, k.driftNS()),
					latencies: k.latencies,
					output:    int64(k.output),
				})
		}
	})
	stats.SortBy(all, func(a *arrival) int64 { return a.sentNS })
	stats.Sort(ends)
	ended := 0
	for i := range all {
		for ended < len(ends) && ends[ended] <= all[i].sentNS {
			ended++
		}
		all[i].inFlight = i + 1 - ended
	}
	return all
}

const (
	// levelGroups is into how many groups, of equal in-flight, requests are divided, and leastOfGroup how many each
	// has at least.
	levelGroups  = 20
	leastOfGroup = 20
	// levelSigmas is how far beyond chance a group must be slower: in 20 groups that happens by chance once in 40 runs.
	levelSigmas = 3
)

// quietLevel is the largest number of requests in flight up to which a latency, by its place in timedLatencies, does
// not depend on it. Up to there nothing waits. It compares all others, and then groups of them, with the fifth of the
// requests that had the fewest beside them. byLevel is in the order of inFlight.
func quietLevel(byLevel []arrival, latency int) int {
	var levels []int
	var values []int64
	for i := range byLevel {
		if v := byLevel[i].latencies[latency]; v != record.None {
			levels = append(levels, byLevel[i].inFlight)
			values = append(values, v)
		}
	}
	base := len(values) / 5
	size := max(leastOfGroup, len(values)/levelGroups)
	if base < size {
		return math.MaxInt
	}
	fewest := slices.Clone(values[:base])
	slices.Sort(fewest)
	usual := fewest[base/2]
	slower := func(values []int64) bool {
		above := 0
		for _, v := range values {
			if v > usual {
				above++
			}
		}
		n := float64(len(values))
		chance := math.Sqrt(n/4 + n*n/float64(4*base))
		return float64(above) > n/2+levelSigmas*chance
	}
	if slower(values[base:]) {
		return levels[base-1]
	}
	for from := base; from+size <= len(values); from += size {
		if slower(values[from : from+size]) {
			return levels[from-1]
		}
	}
	return math.MaxInt
}

// pushed sets how much earlier each may have ended. quiet is the level up to which nothing waits.
func pushed(all []arrival, quiet int) {
	most := int64(0) // lateness since nothing waited
	for i := range all {
		a := &all[i]
		if a.inFlight <= quiet {
			most = 0
		}
		most = max(most, a.lateNS)
		a.pushedNS = most - a.lateNS
	}
}

// behindBursts are the percentiles that others' lateness may have moved, and how many requests it may have delayed by
// more than 1 ms.
func (c *Collector) behindBursts(all *targetStats) (unsafe []metrics.Unsafe, behind int64) {
	arrivals := c.timings.arrivals()
	byLevel := slices.Clone(arrivals)
	slices.SortStableFunc(byLevel, func(a, b arrival) int { return cmp.Compare(a.inFlight, b.inFlight) })
	quiet := math.MaxInt
	for i := range timedLatencies {
		quiet = min(quiet, quietLevel(byLevel, i))
	}
	pushed(arrivals, quiet)
	var by latencyBounds
	for i := range arrivals {
		a := &arrivals[i]
		if a.pushedNS == 0 {
			continue
		}
		if a.pushedNS > metrics.ToleratedNS {
			behind++
		}
		for i, l := range timedLatencies {
			less := a.pushedNS
			if latencies[l].PerToken {
				less /= max(1, a.output-1)
			}
			by[l].add(a.latencies[i], less, 0)
			if l == metrics.E2E {
				by[metrics.NTPOT].add(metrics.PerOutputToken(a.latencies[i], a.output), less/max(1, a.output), 0)
			}
		}
	}
	return by.unsafe(all), behind
}
