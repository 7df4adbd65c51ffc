package metrics

import (
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
)

// RunInfo is what the engine knows and the Collector does not. Its parts are
// copied into the Summary.
type RunInfo struct {
	Run         Run
	Workload    Workload
	Client      Client
	Connections Connections
	Writes      Writes
	Limits      Limits

	Planned    int64         // requests of the plan
	Unwritten  int64         // records that could not be written
	ReceiveLag *Distribution // nil where the kernel gave no stamps
	Overtaken  int64         // tokens above the ideal that the order of arrival explains
	Cap        *Cap          // nil without one
	Routing    *route.Oracle // nil where there is one instance, or nothing is known of prompts
	Turns      *Turns        // nil where no request follows another
	Amplify    *Amplify      // nil where the load is as recorded
	History    *History      // nil where all is sent as recorded
	BuildAhead *BuildAhead   // nil where all requests were built before the start
	Shortfall  *Shortfall    // nil where nothing exact was expected
	Servers    *Servers      // nil where no server's metrics were read
	Reasons    []string      // further reasons why the run is invalid, a sentence each
	Notes      []string      // further notes, a sentence each
	Unknown    []Unknown     // what the servers did not tell before the start
	Unproven   string        // a note that holds only if the hits are unknown after the run, too; "" = none

	CacheOff func(target int) bool // whether a target's servers say that they cache nothing; nil = nobody was asked
}

// Summary returns the result of the run, verdict included. Call it after the
// last Add and AddGaps; it changes nothing and may be called again.
func (c *Collector) Summary(info RunInfo) *Summary {
	all, targets := c.merged()
	s := &Summary{
		Schema: Schema, Run: info.Run, Workload: info.Workload, Client: info.Client,
		Connections: info.Connections, Writes: info.Writes, Limits: info.Limits,
		Requests: all.requests(), Tokens: all.tokens.summary(),
		DriftUS: all.drift.Percentiles(1e3), TTFTMS: all.ttft.Percentiles(1e6), TTFTPlannedMS: all.ttftPlanned.Percentiles(1e6),
		TPOTMS: all.tpot.Percentiles(1e6), ITLMS: all.itl.Percentiles(1e6),
		E2EMS: all.e2e.Percentiles(1e6), E2EPlannedMS: all.e2ePlanned.Percentiles(1e6),
		WireDriftUS: all.wireDrift.Percentiles(1e3), UploadMS: all.upload.Percentiles(1e6),
		Targets: make([]Target, len(targets)),
	}
	s.Requests.Planned, s.Requests.Late = info.Planned, all.drift.above(int64(info.Limits.MaxDriftMS*1e6))
	s.Connections.MaxWaitMS = float64(all.maxWait) / 1e6
	s.Requests.Unwritten = info.Unwritten
	if info.ReceiveLag != nil {
		s.Client.ReceiveLagUS = info.ReceiveLag.Percentiles(1e3)
	}
	if s.Run.Targets == nil {
		s.Run.Targets = append([]string{}, c.urls...)
	}
	for i := range targets {
		s.Targets[i] = targets[i].target(c.urls[i])
	}
	s.Instances, s.Peers = c.parts.instances.summary(1), c.parts.peers.summary(2)
	if s.Instances != nil {
		s.Instances.direct = c.pairs.OneByOne()
	}
	s.Throughput = throughput(s)
	s.InFlight, s.Outages = c.inFlight(s.Run.DurationS), c.outages()
	setGoodput(s, &all, targets)
	s.Gateway = all.gateway.summary()
	counted := c.CountedHits(info.Servers)
	s.PrefixCache = prefixCache(&all, targets, counted)
	for i, hits := range counted {
		if hits != record.None {
			s.Targets[i].CountedHitRatio = ratio(hits, targets[i].cache.prompt)
		}
	}
	s.PrefixCache.Shortfall, s.PrefixCache.OvertakenTokens = info.Shortfall, info.Overtaken
	s.BuildAhead, s.Cap = info.BuildAhead, info.Cap
	s.Turns, s.History, s.Amplify, s.Servers, s.Routing = info.Turns, info.History, info.Amplify, info.Servers, info.Routing
	s.Notes = append(notes(s, &all, targets, c.urls, &info), info.Notes...)
	s.Verdict = Judge(s, info.Reasons...)
	return s
}

// merged returns the whole run and every target with its gaps. The targets share all but these with c.
func (c *Collector) merged() (all series, targets []series) {
	all = newSeries(c.slos)
	all.merge(&c.none)
	targets = make([]series, len(c.targets))
	for i := range targets {
		targets[i] = c.targets[i]
		targets[i].itl = NewDistribution()
		for j := range c.gaps[i*c.shards:][:c.shards] {
			g := &c.gaps[i*c.shards+j]
			g.Lock()
			if g.itl != nil {
				targets[i].itl.Merge(g.itl)
			}
			g.Unlock()
		}
		all.merge(&targets[i])
	}
	return all, targets
}

func (s *series) recorded() (n int64) {
	for _, count := range s.outcomes {
		n += count
	}
	return n
}

func (s *series) requests() Requests {
	r := Requests{
		Sent: s.sent, OK: s.outcomes[record.OK], Resent: s.resent, Early: s.drift.negatives(),
		ByOutcome: make(map[string]int64, record.Outcomes),
	}
	for o, n := range s.outcomes {
		r.ByOutcome[record.Outcome(o).String()] = n
	}
	r.Failed = s.recorded() - r.OK
	return r
}

func (s *series) target(url string) Target {
	ok := s.outcomes[record.OK]
	return Target{
		URL: url, Requests: s.recorded(), OK: ok, Failed: s.recorded() - ok,
		DriftUS: s.drift.Percentiles(1e3), TTFTMS: s.ttft.Percentiles(1e6), TPOTMS: s.tpot.Percentiles(1e6),
		ITLMS: s.itl.Percentiles(1e6), E2EMS: s.e2e.Percentiles(1e6), ReportedHitRatio: s.cache.hitRatio(),
	}
}

func (t *tokenCounts) summary() Tokens {
	return Tokens{
		Prompt: t.prompt, Completion: t.completion, FromUsage: t.fromUsage, FromChunks: t.fromChunks,
		PerChunk: ratio(t.usageTokens, t.chunks), PromptMismatches: t.promptMismatches, CutShort: t.cutShort, OverLong: t.overLong,
		AtOnce: t.atOnce, SeveralChoices: t.several,
	}
}

func throughput(s *Summary) Throughput {
	d := s.Run.DurationS
	if d <= 0 {
		return Throughput{}
	}
	return Throughput{
		RequestsPerS:     float64(s.Requests.OK) / d,
		InputTokensPerS:  float64(s.Tokens.Prompt) / d,
		OutputTokensPerS: float64(s.Tokens.Completion) / d,
	}
}

func prefixCache(all *series, targets []series, counted []int64) PrefixCache {
	p := PrefixCache{AboveIdealTokens: all.cache.aboveTokens, AboveIdealRequests: all.cache.aboveRequests}
	if all.cache.ideals > 0 {
		p.ExpectedTokens = &all.cache.expected
		p.ExpectedHitRatio = ratio(all.cache.expected, all.cache.prompt)
	} else if c := all.cache; c.bounds > 0 && c.prompt > 0 {
		p.ExpectedRange = &[2]float64{float64(c.least) / float64(c.prompt), float64(c.most) / float64(c.prompt)}
	}
	var told, known, hits int64 // prompt tokens of targets that report, and of those whose hits are known; these
	for i := range targets {
		switch c := &targets[i].cache; {
		case c.reports > 0:
			told += c.told
			p.UnreportedRequests += c.untold
		case counted[i] != record.None:
			known += c.prompt
			hits += counted[i]
			p.CountedTokens = &hits
			if c.bounds == targets[i].outcomes[record.OK] { // no order of requests makes the sum of their hits larger than that
				p.AboveIdealTokens += max(0, counted[i]-c.most)
			}
		default:
			p.UnreportedRequests += targets[i].outcomes[record.OK]
		}
	}
	if all.cache.reports > 0 {
		p.ReportedTokens, p.HitsFrom = &all.cache.reported, "responses"
		p.ReportedHitRatio = ratio(all.cache.reported, told)
	}
	if p.CountedTokens != nil {
		p.HitsFrom = strings.TrimPrefix(p.HitsFrom+" and server counters", " and ")
	}
	p.HitRatio = ratio(all.cache.reported+hits, told+known)
	return p
}

// ratio returns part/whole, or nil when there is no whole.
func ratio(part, whole int64) *float64 {
	if whole <= 0 {
		return nil
	}
	r := float64(part) / float64(whole)
	return &r
}
