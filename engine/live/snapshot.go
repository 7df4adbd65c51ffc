package live

import (
	"maps"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Snapshot is a run at one moment. Numbers that are unknown are NaN.
type Snapshot struct {
	*Plan
	Counts
	Due        float64 // requests whose planned time has come
	Failed     int64   // requests, but for those that the end of the run stopped
	WaitedNS   int64   // since nothing but requests in flight is waited for; -1 = more is to be sent
	LeftNS     int64   // until the last request is released, or ends in a closed loop; -1 = unknown
	Share      float64 // 0 to 1 of the run
	DuePerS    float64 // planned over the last 5 s
	SentPerS   Series
	TokensPerS Series                       // now is a mean of more than 5 s if few requests end
	Flying     Series                       // requests in flight
	Latencies  [metrics.NumLatencies]Series // ns; of those that are shown live
	LateP99NS  float64                      // of the whole run
	// why the verdict would be that, by the rule of package metrics for lateness; "" if it would not
	Invalid string
	Goal    string // how far the run is from what it goes on for; "" if there is no goal, or that is not known yet
	// those of the plan, then one without a URL if requests failed that never had a target, then those that joined
	Targets []Target
	All     Target // errors, and what servers say, of all of them together
	Owned   map[rows.Owner]Owned
}

// Series is what a quantity was in the last minute.
type Series struct {
	Now      float64 // mean of the last 5 s
	P50, P99 float64
	Past     []float64 // means, about one a second, the oldest first
}

// Target is one target at that moment.
type Target struct {
	URL               string
	OK, Failed        int64
	Errors            map[Kind]int64
	Generated, Prompt int64 // tokens of requests that ended ok
	Cached            int64 // of Prompt those that the servers found in their prefix caches
	Reported          bool  // Cached is known
	Histograms        [metrics.NumLatencies]Histogram
	TTFTP99NS         float64 // of the last 60 s
	FailingNS         int64   // for how long no request has ended ok and at least one failed; 0 = the last one did
	Running, Waiting  float64 // requests, as the servers say
	// 0 to 1: what is in use, as the servers say; and the share of prompt tokens from the cache
	KVUsage, Hits float64
}

// Snapshot returns what the meter has.
func (m *Meter) Snapshot(c Counts) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.moment(c)
	lately := now.since(m.before(now, 5))
	smooth := m.smooth(now)
	s := &Snapshot{
		Plan:      &m.plan,
		Counts:    c,
		WaitedNS:  -1,
		Due:       float64(now[due]),
		LateP99NS: quantile(m.whole[metrics.Drift], 99),
		Invalid:   m.invalid(),
		Goal:      m.goal,
		DuePerS:   lately.perS(due),
	}
	if m.plan.ReleaseNS == nil {
		s.Due = math.NaN()
		s.DuePerS = math.NaN()
	}
	for i, w := range m.windows {
		if w == nil {
			continue
		}
		l := &s.Latencies[i]
		*l = w.describe(c.NowNS)
		l.Now = lately.mean(i)
		l.Past = m.each(func(passed, _ moment) float64 {
			return passed.mean(i)
		})
	}
	rates := func(column int) []float64 {
		return m.each(func(passed, _ moment) float64 { return passed.perS(column) })
	}
	flying := m.each(func(_, then moment) float64 { return float64(then[inFlight]) })
	s.SentPerS = series(lately.perS(sent), rates(sent))
	s.TokensPerS = series(smooth.perS(tokens), rates(tokens))
	s.Flying = series(float64(c.InFlight), flying)
	if m.waitsNS >= 0 {
		s.WaitedNS = c.NowNS - m.waitsNS
	}
	s.describe(m.targets)
	s.Owned = map[rows.Owner]Owned{}
	for of, own := range m.owned {
		s.Owned[of] = *own
	}
	s.progress(smooth.perS(ended))
	return s
}

// each returns a value of each second of the last minute, of what passed in it and of its end.
func (m *Meter) each(of func(passed, then moment) float64) (values []float64) {
	before := m.past[0]
	for _, then := range m.past[1:] {
		values = append(values, of(then.since(before), then))
		before = then
	}
	return values
}

func series(now float64, past []float64) Series {
	s := Series{
		Now:  now,
		P50:  math.NaN(),
		P99:  math.NaN(),
		Past: past,
	}
	if n := int64(len(past)); n > 0 {
		sorted := slices.Sorted(slices.Values(past))
		p50 := stats.Rank(n, 500)
		p99 := stats.Rank(n, 990)
		s.P50 = sorted[p50-1]
		s.P99 = sorted[p99-1]
	}
	return s
}

func (m moment) since(then moment) moment {
	for i := range m {
		m[i] -= then[i]
	}
	return m
}

// perS is a counter's growth per second; NaN of less than half a second.
func (m moment) perS(column int) float64 {
	if m[atNS] < 5e8 {
		return math.NaN()
	}
	return float64(m[column]) / seconds(m[atNS])
}

// mean is that of a latency, in ns; NaN if there is none.
func (m moment) mean(latency int) float64 {
	return float64(m[sumNS+latency]) / float64(m[number+latency])
}

// before returns the latest moment that is so many seconds old, or else the oldest.
func (m *Meter) before(now moment, s int64) moment {
	for _, then := range slices.Backward(m.past) {
		if now[atNS]-then[atNS] >= s*1e9 {
			return then
		}
	}
	return m.past[0]
}

// enough is how many requests a rate is made of, if a minute has as many.
const enough = 20

// smooth returns what happened in the last 5, 10, 20 or 60 s, the first of them in which enough requests ended.
func (m *Meter) smooth(now moment) (passed moment) {
	for _, span := range []int64{5, 10, 20, 60} {
		passed = now.since(m.before(now, span))
		if passed[ended] >= enough {
			break
		}
	}
	return passed
}

// progress estimates how much of the run is over, and when the rest will be.
func (s *Snapshot) progress(endedPerS float64) {
	s.LeftNS = -1
	s.Share = ratio(s.OK+s.Failed, s.Requests)
	if s.Stopping {
		s.LeftNS = 0
		return
	}
	if n := len(s.ReleaseNS); n > 0 {
		span := s.ReleaseNS[n-1]
		s.LeftNS = max(0, span-s.NowNS)
		if s.ByClock {
			s.Share = ratio(s.NowNS, span)
			return
		}
	}
	if endedPerS > 0 {
		leftS := float64(s.Left) / endedPerS
		s.LeftNS = max(s.LeftNS, int64(leftS*1e9))
	}
	if s.UntilNS == math.MaxInt64 {
		return
	}
	rest := max(0, s.UntilNS-s.NowNS)
	if s.LeftNS < 0 || rest < s.LeftNS {
		s.LeftNS = rest
		s.Share = max(s.Share, ratio(s.NowNS, s.UntilNS))
	}
}

// ratio is part / all, and at most 1.
func ratio(part, all int64) float64 { return min(1, float64(part)/float64(max(1, all))) }

// invalid says why the run would be invalid if it ended now.
func (m *Meter) invalid() string {
	late := m.whole[metrics.Drift]
	limit := m.displacedNS()
	var displaced int64
	sent := late.TotalCount()
	if m.plan.MaxDriftNS == 0 {
		displaced = countAbove(late, limit)
	}
	p99 := late.ValueAtQuantile(99)
	switch verdict.JudgeLoad(m.plan.MaxDriftNS, p99, displaced, sent) {
	case verdict.DriftAboveMax:
		return "above --max-drift " + format.Duration(m.plan.MaxDriftNS, 3)
	case verdict.TooManyDisplaced:
		return format.Percent(ratio(displaced, sent)) + " left more than " + format.Duration(limit, 3) + " late"
	}
	return ""
}

// displacedNS is how late a request may leave before it counts as displaced; in a closed loop any time.
func (m *Meter) displacedNS() int64 {
	n := int64(len(m.plan.ReleaseNS))
	if n == 0 {
		return math.MaxInt64
	}
	span := m.plan.ReleaseNS[n-1] - m.plan.ReleaseNS[0]
	gap := span / max(1, n-1)
	return verdict.DisplacedNS(gap, m.whole[metrics.E2E].ValueAtQuantile(50))
}

// countAbove is how many values are above ns.
func countAbove(h *hdrhistogram.Histogram, ns int64) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From > ns {
			n += bar.Count
		}
	}
	return n
}

// describe adds the targets, and all of them together.
func (s *Snapshot) describe(targets []target) {
	all := target{pages: map[int]scrape.Reading{}}
	all.Errors = map[Kind]int64{}
	for i := range targets {
		t := &targets[i]
		for kind, n := range t.Errors {
			all.Errors[kind] += n
		}
		s.Failed += t.Failed
		maps.Copy(all.pages, t.pages)
		if t.URL != "" || t.Failed > 0 {
			s.Targets = append(s.Targets, t.describe(s.NowNS))
		}
	}
	s.All = all.describe(s.NowNS)
}

func (t *target) describe(nowNS int64) Target {
	out := t.Target
	out.Errors = maps.Clone(t.Errors)
	out.TTFTP99NS = math.NaN()
	if t.ttft != nil {
		out.TTFTP99NS = t.ttft.describe(nowNS).P99
	}
	if t.failingNS > 0 {
		out.FailingNS = max(1, nowNS-t.failingNS)
	}
	out.Running, _ = scrape.Total(t.pages, scrape.Running)
	out.Waiting, _ = scrape.Total(t.pages, scrape.Waiting)
	usage, pages := scrape.Total(t.pages, scrape.KVUsage)
	out.KVUsage = usage / pages
	hits, _ := scrape.Total(t.pages, scrape.PrefixHits)
	asked, _ := scrape.Total(t.pages, scrape.PrefixQueries)
	if t.Reported {
		hits = float64(t.Cached)
		asked = float64(t.Prompt)
	}
	out.Hits = hits / asked
	return out
}
