// Package metrics turns the records of one run into numbers. They are counts by outcome and distributions of drift,
// TTFT, TPOT, ITL and E2E for each target. It makes the Summary that summary.json holds, and the Verdict on it.
//
// It owns the definitions of every statistic and of validity. It does not
// measure anything, opens no sockets and writes no files.
//
// Collector.Add belongs to one goroutine, the recorder. AddGaps may be called by anybody at the same time. Summary and WriteHistograms are for after the run. Add keeps about 200 bytes of a request: 80 by time, and 8 for
// each of its latencies by target, by instance and by address; of one that is part of a job 230. The last two are kept for the first 1,024 instances and
// addresses. AddGaps allocates 0.3 MB for the first gaps of a target, up to GOMAXPROCS times, and nothing else.
package metrics

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Collector holds everything measured in one run.
type Collector struct {
	urls    []string
	slos    []SLO
	targets []series // one for each URL
	none    series   // requests that never had a target
	parts   struct{ instances, endpoints breakdown }
	pairs   route.Pairs // of instances and endpoints
	timings timings     // by time
	window  *Window     // nil = the whole run
	outside timings     // requests that the window does not hold
	jobs    jobCounts

	gaps   []gapShard // len(urls) * shards
	shards int
	next   atomic.Uint32
}

// gapShard is one of several histograms that receivers share, so that they seldom wait for a lock.
type gapShard struct {
	sync.Mutex
	itl   *Distribution // nil before the first gap
	moved moved
	_     [64]byte // keeps neighbours' locks off one cache line
}

// NewCollector returns a collector for the targets' URLs, in the order that
// the indices given to Add and AddGaps refer to. With SLOs it counts goodput.
func NewCollector(targets []string, slos ...SLO) *Collector {
	c := &Collector{urls: append([]string(nil), targets...), slos: append([]SLO(nil), slos...), targets: make([]series, len(targets))}
	c.none = newSeries(c.slos)
	for i := range c.targets {
		c.targets[i] = newSeries(c.slos)
	}
	if len(targets) == 0 {
		return c
	}
	// Many targets spread the load by themselves.
	c.shards = max(1, runtime.GOMAXPROCS(0)/len(targets))
	c.gaps = make([]gapShard, c.shards*len(targets))
	return c
}

// Add counts one finished request. target is the index of its URL; anything
// out of range means that it never had one. Latencies count for OK requests
// only, drift for every request that was sent.
func (c *Collector) Add(r *record.Record, target int) {
	if !c.window.Has(r.PlannedNS) {
		c.outside.add(r, target)
		return
	}
	s := &c.none
	if target >= 0 && target < len(c.targets) {
		s = &c.targets[target]
	}
	s.add(r)
	c.timings.add(r, target)
	c.jobs.add(r)
	c.parts.instances.add(r.Instance, r)
	c.pairs.Add(r.Instance, r.Endpoint)
	if r.SentNS != record.None {
		c.parts.endpoints.add(r.Endpoint, r)
	}
}

// MovedGap is a gap between token chunks that a late read may have changed, in ns: as measured, and as it is if what was found together
// had come evenly.
type MovedGap struct{ NS, LikelyNS int64 }

// AddGaps counts gaps between token chunks (ITL), in ns, of one OK request to
// the target of that index; moved are those of them that late reads may have changed. It keeps nothing of the slices.
func (c *Collector) AddGaps(target int, gapsNS []int64, moved ...MovedGap) {
	if target < 0 || target >= len(c.targets) || len(gapsNS) == 0 {
		return
	}
	g := c.pick(target)
	for _, gap := range gapsNS {
		g.itl.Add(gap)
	}
	for _, m := range moved {
		g.moved.add(m.NS, m.LikelyNS, m.LikelyNS)
	}
	g.Unlock()
}

// AddGapCounts counts gaps that another run counted in a histogram, to the target of that index. exact has their number, mean and maximum.
func (c *Collector) AddGapCounts(target int, gaps *hdrhistogram.Histogram, exact *stats.Percentiles) {
	if exact == nil {
		return
	}
	g := c.pick(target)
	defer g.Unlock()
	g.itl.values.Merge(gaps)
	g.itl.grow(exact.Count, int64(math.Round(exact.Mean*1e6*float64(exact.Count))), int64(math.Round(exact.Max*1e6)))
}

// pick returns a locked shard of the target with its histogram: a free one if there is any.
func (c *Collector) pick(target int) (g *gapShard) {
	own := c.gaps[target*c.shards:][:c.shards]
	first := int(c.next.Add(1))
	g = &own[first%len(own)]
	for i := 1; !g.TryLock(); i++ {
		if g = &own[(first+i)%len(own)]; i == len(own) { // all are in use
			g.Lock()
			break
		}
	}
	if g.itl == nil {
		g.itl = NewHistogram()
	}
	return g
}
