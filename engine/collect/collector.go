// Package collect turns the records of one run into a metrics.Summary: counts by outcome, distributions by target,
// instance and step of time, jobs, outages, trends and notes. It also tells during a run when that may end.
//
// It owns what is kept of a record, and how numbers follow from that. It does not measure anything, and opens no
// sockets. It does not judge: it asks verdict.
//
// Collector.Add belongs to one goroutine, the recorder. AddGaps may be called by anybody at the same time. Summary and
// WriteHistograms are for after the run. Add keeps about 230 bytes of a request: 96 by time, and 8 for each of its
// latencies by target, by instance and by address. If it is part of a job, it keeps 240. The last two are kept for the
// first 1,024 instances and addresses. AddGaps allocates 0.3 MB for the first gaps of a target, up to GOMAXPROCS times,
// and nothing else.
//
// The package is not an API: any release may change it.
package collect

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// latencies is the table, which nobody changes.
var latencies = metrics.Latencies()

// Collector holds everything measured in one run.
type Collector struct {
	urls    []string
	slos    []metrics.SLO
	targets []targetStats // one for each URL
	none    targetStats   // requests that never had a target
	parts   struct{ instances, prefills, endpoints breakdown }
	pairs   route.Pairs     // of instances and endpoints
	timings timings         // by time
	window  *metrics.Window // nil = the whole run
	outside timings         // requests that the window does not hold
	jobs    jobCounts
	tiers   tierCounts
	owners  ownerCounts
	models  answerModels
	hits    []had // nil if no action asks what they were when
	good    []had // likewise
	before  metrics.Preparation

	soleAddress bool // nothing is to be told apart by address
	unreleased  int64

	gaps   []gapShard // len(urls) * shards
	shards int
	next   atomic.Uint32
}

// gapShard is one of several histograms that receivers share, so that they seldom wait for a lock.
type gapShard struct {
	sync.Mutex
	itl  *stats.Distribution // nil before the first gap
	late lateReadBounds      // those of itl
	_    [64]byte            // keeps neighbours' locks off one cache line
}

// NewCollector returns a collector for the targets' URLs, in the order that
// the indices given to Add and AddGaps refer to. With SLOs it counts goodput.
func NewCollector(targets []string, slos ...metrics.SLO) *Collector {
	c := &Collector{
		urls:    slices.Clone(targets),
		slos:    slices.Clone(slos),
		targets: make([]targetStats, len(targets)),
		models:  answerModels{requests: map[answerModel]*int64{}, names: map[answerModel]int{}},
	}
	c.none = newTargetStats(c.slos)
	for _, by := range c.owners.all() {
		by.slos = c.slos
		by.waits = true
	}
	c.owners.models.loads = true
	c.tiers.bySlowest.waits = true
	for i := range c.targets {
		c.targets[i] = newTargetStats(c.slos)
	}
	if len(targets) == 0 {
		return c
	}
	// Many targets spread the load by themselves.
	c.shards = max(1, runtime.GOMAXPROCS(0)/len(targets))
	c.gaps = make([]gapShard, c.shards*len(targets))
	return c
}

// SoleAddress says that all requests go to one address, so that no more is kept by address. Call it before Add.
func (c *Collector) SoleAddress() { c.soleAddress = true }

// Rename gives the targets the names that they have after the run. Those beyond them took no part.
func (c *Collector) Rename(urls []string) {
	c.urls = urls
	c.targets = c.targets[:len(urls)]
}

// Add counts one finished request. target is the index of its URL; anything
// out of range means that it never had one. Latencies count for OK requests
// only, drift for every request that was sent. Of what prepares only Preparation and Jobs tell.
func (c *Collector) Add(r *record.Record, target int) {
	if r.Phase == record.Unreleased {
		c.unreleased++
		return
	}
	if r.Phase != record.Profiled {
		countPrepared(&c.before, r)
		c.jobs.add(r)
		return
	}
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
	c.tiers.add(r)
	c.owners.add(r)
	if target >= 0 && target < len(c.urls) {
		c.models.add(target, r)
	}
	c.addHit(r)
	c.parts.instances.add(r.Instance, r)
	c.parts.prefills.add(r.PrefillInstance, r)
	c.pairs.Add(r.Instance, r.Endpoint)
	if r.SentNS != record.None && !c.soleAddress {
		c.parts.endpoints.add(r.Endpoint, r)
	}
}

// answeredS is from the begin to the end of the last request that ended ok, in s; 0 if none did.
func (c *Collector) answeredS() (last float64) {
	from := 0.0
	if c.window != nil {
		from = c.window.FromS
	}
	c.timings.each(func(k *timing) {
		if k.outcome == record.OK {
			last = max(last, seconds(k.endNS)-from)
		}
	})
	return last
}

// Unmeasured is how many requests were added that are no part of the measurement.
func (c *Collector) Unmeasured() int64 { return c.before.Requests() + c.unreleased }

// AddGaps counts gaps between token chunks (ITL), in ns, of one OK request to the target of that index. late are those
// that late reads may have changed. It keeps nothing of the slices. Of a request whose chunks all came at one instant
// no gap is known.
func (c *Collector) AddGaps(target int, gapsNS []int64, late ...metrics.LateReadGap) {
	if target < 0 || target >= len(c.targets) || len(gapsNS) == 0 {
		return
	}
	g := c.pick(target)
	// what came at one instant says nothing of how long its tokens took
	if slices.Max(gapsNS) > 0 {
		for _, gap := range gapsNS {
			g.itl.Add(gap)
		}
	}
	for _, m := range late {
		g.late.add(m.NS, m.NS-m.LikelyNS, m.LikelyNS-m.NS)
	}
	g.Unlock()
}

// AddGapCounts counts gaps that another run counted in a histogram, to the target of that index. exact has their
// number, mean and maximum.
func (c *Collector) AddGapCounts(target int, gaps *hdrhistogram.Histogram, exact *stats.Percentiles) {
	if exact == nil {
		return
	}
	g := c.pick(target)
	defer g.Unlock()
	g.itl.AddCounts(gaps, exact)
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
		g.itl = stats.NewHistogram()
	}
	return g
}

// Probed is what became known of the servers before the run. The notes name it.
type Probed struct {
	Unknown            []metrics.Unknown // what is unknown, whatever the run brings
	NoteUnlessReported string            // a note that holds only if the hits are unknown after the run, too; "" = none
	// whether a target's servers report that they cache nothing; nil = no server was asked
	CacheOff func(target int) bool
}

// Summary returns the result of the run, verdict included. s has what the Collector does not count:
//   - Run, Workload, Client, Limits, Writes and Connections, but for the longest wait;
//   - Cap, Turns, History, Answers but for what was wrong, Amplify, BuildAhead, Servers and Routing, nil where there is
//     none;
//   - of Requests Planned and Unwritten, of PrefixCache Shortfall and OvertakenTokens;
//   - further Notes and Verdict.Reasons, a sentence each.
//
// Call it after the last Add and AddGaps; it changes nothing and may be called again.
func (c *Collector) Summary(s metrics.Summary, probed Probed) *metrics.Summary {
	all, targets := c.merged()
	s.Schema = metrics.Schema
	if s.Window = c.window; s.Window != nil {
		s.Run.DurationS = s.Window.ToS - s.Window.FromS
	}
	s.Run.AnsweredS = c.answeredS()
	all.Latencies.Fill(&s.RunLatencies)
	var run *sequence
	if c.timings.spilled == 0 {
		run = c.timings.sequence()
		s.Intervals = c.intervals(&s, run)
		s.Trends = c.trends(&s, run)
		s.Outages = slices.DeleteFunc(c.outages(run), func(o metrics.Outage) bool {
			return o.Failed <= s.Connections.NoResources // this machine's own failure may be all of it
		})
	}
	over := s.Run.Partial || s.Run.Cut
	all.count(&s.Requests, over)
	s.Requests.Failures = all.Kinds.List(over)
	s.Lateness = c.lateness(&s, &all)
	s.Requests.Late = all.Latencies[metrics.Drift].Above(cmp.Or(int64(s.Limits.MaxDriftNS),
		int64(1e6*s.Lateness.DisplacedMS), metrics.ToleratedNS))
	s.Tokens = all.Tokens.Tokens
	s.Throughput = metrics.Throughput{}
	s.Tokens.PerChunk = stats.Ratio(all.Tokens.UsageTokens, all.Tokens.Chunks)
	if s.Run.DurationS > 0 {
		c.setRates(&s)
	}
	s.Connections.MaxWaitMS = float64(all.MaxWaitNS) / 1e6
	if s.Run.Targets == nil {
		s.Run.Targets = append([]string{}, c.urls...)
	}
	s.Targets = make([]metrics.Target, len(targets))
	for i := range targets {
		s.Targets[i] = targets[i].target(c.urls[i], over)
	}
	s.Instances = c.parts.instances.summary(1, over)
	s.Prefills = c.parts.prefills.summary(1, over)
	setTransfers(s.Servers, s.Instances)
	setTransfers(s.Servers, s.Prefills)
	s.Owners = c.owners.summary(over)
	s.AnswerModels = c.models.several(c.urls, s.Run.AskedModels)
	s.Endpoints = c.parts.endpoints.summary(2, over)
	s.Answers = all.Answers.summary(s.Answers)
	s.Actions = c.actions(&s, run)
	s.Gateway = all.Gateway.summary()
	if s.Window == nil { // which has but pieces of jobs
		c.jobs.shorter = s.IdleCuts != nil && s.IdleCuts.System > 0
		s.Jobs = c.jobs.summary(s.Run.DurationS, over, s.Run.Lanes)
	}
	if c.before.Requests() > 0 {
		s.Preparation = &c.before
	}
	s.SetOfGPUs()
	s.SetInteractivity()
	setGoodput(&s, &all, targets)
	counted := c.CountedHits(s.Servers)
	countHits(&s.PrefixCache, &all, targets, counted)
	s.PrefixCache.Tiers = c.tiers.summary(s.Run.DurationS)
	for i, hits := range counted {
		if hits != record.None {
			s.Targets[i].CountedHitRatio = stats.Ratio(hits, targets[i].Cache.Prompt)
		}
	}
	s.AddNotes(0, c.notes(&s, &all, targets, probed))
	s.Verdict = verdict.Judge(&s, s.Verdict.Reasons...)
	return &s
}

// merged returns the whole run and every target with its gaps. The targets share all but these with c.
func (c *Collector) merged() (all targetStats, targets []targetStats) {
	all = newTargetStats(c.slos)
	metrics.MergeCounts(&all, &c.none)
	targets = make([]targetStats, len(c.targets))
	for i := range targets {
		for l := range c.targets[i].Latencies {
			c.targets[i].Latencies[l].Join() // before it is copied
		}
		targets[i] = c.targets[i]
		targets[i].Latencies[metrics.ITL] = stats.Distribution{}
		for j := range c.gaps[i*c.shards:][:c.shards] {
			g := &c.gaps[i*c.shards+j]
			g.Lock()
			if g.itl != nil {
				targets[i].Latencies[metrics.ITL].Merge(g.itl)
			}
			metrics.MergeCounts(&targets[i].LateReads[metrics.ITL], &g.late)
			g.Unlock()
		}
		metrics.MergeCounts(&all, &targets[i])
	}
	return all, targets
}

func (s *targetStats) recorded() (n int64) {
	for _, count := range s.Outcomes {
		n += count
	}
	return n
}

// stopped is how many requests did not fail, although they are not ok. The user left them out, or the end of the run
// ended them.
func (s *targetStats) stopped(over bool) int64 {
	if !over {
		return s.LeftOut
	}
	return s.Outcomes[record.Cancelled] + s.Outcomes[record.NotSent]
}

func (s *targetStats) failed(over bool) int64 {
	return s.recorded() - s.Outcomes[record.OK] - s.stopped(over)
}

func (s *targetStats) count(r *metrics.Requests, over bool) {
	r.Sent = s.Sent
	r.OK = s.Outcomes[record.OK]
	r.Resent = s.Resent
	r.Early = s.Latencies[metrics.Drift].Negatives()
	r.Stopped = s.stopped(over)
	r.ByOutcome = make(map[string]int64, record.Outcomes)
	r.Failed = s.failed(over)
	for o, n := range s.Outcomes {
		r.ByOutcome[record.Outcome(o).String()] = n
	}
}

func (s *targetStats) target(url string, over bool) metrics.Target {
	t := metrics.Target{
		URL:              url,
		Requests:         s.recorded(),
		OK:               s.Outcomes[record.OK],
		Failed:           s.failed(over),
		ReportedHitRatio: s.Cache.hitRatio(),
	}
	s.Latencies.Fill(&t.TargetLatencies)
	return t
}

// countHits fills in all but Shortfall and OvertakenTokens; counted has the hits by the servers' counters, by target.
func countHits(p *metrics.PrefixCache, all *targetStats, targets []targetStats, counted []int64) {
	p.AboveIdealTokens = all.Cache.AboveTokens
	p.AboveIdealRequests = all.Cache.AboveRequests
	if all.Cache.Ideals > 0 {
		p.ExpectedTokens = &all.Cache.Expected
		p.ExpectedHitRatio = stats.Ratio(all.Cache.Expected, all.Cache.Prompt)
	} else if c := all.Cache; c.Bounds > 0 && c.Prompt > 0 {
		p.ExpectedRange = &[2]float64{float64(c.Least) / float64(c.Prompt), float64(c.Most) / float64(c.Prompt)}
	}
	var reporting, known, hits int64 // prompt tokens of targets that report, and of those whose hits are known; these
	for i := range targets {
		switch c := &targets[i].Cache; {
		case c.Reports > 0:
			reporting += c.PromptWithUsage
			p.UnreportedRequests += c.WithoutUsage
		case counted[i] != record.None:
			known += c.Prompt
			hits += counted[i]
			p.CountedTokens = &hits
			// no order of requests makes the sum of their hits larger than that
			if c.Bounds == targets[i].Outcomes[record.OK] {
				p.AboveIdealTokens += max(0, counted[i]-c.Most)
			}
		default:
			p.UnreportedRequests += targets[i].Outcomes[record.OK]
		}
	}
	if all.Cache.Reports > 0 {
		p.ReportedTokens = &all.Cache.Reported
		p.HitsFrom = "responses"
		p.ReportedHitRatio = stats.Ratio(all.Cache.Reported, reporting)
	}
	if p.CountedTokens != nil {
		p.HitsFrom = strings.TrimPrefix(p.HitsFrom+" and server counters", " and ")
	}
	p.HitRatio = stats.Ratio(all.Cache.Reported+hits, reporting+known)
	p.Recorded = recordedHits(all, targets)
}
