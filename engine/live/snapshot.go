package live

import (
	"math"
	"slices"
	"sort"

	"github.com/fastreplay/fastreplay/engine/scrape"
)

// Snapshot is a run at one moment. Rates and latencies without a value are NaN.
type Snapshot struct {
	*Plan
	Counts
	LeftNS     int64   // until the last request is released, or ends in a closed loop; -1 = unknown
	Share      float64 // 0 to 1 of the run
	DuePerS    float64 // planned over the last 5 s
	SentPerS   float64 // over the last 5 s
	TokensPerS float64 // over the last 5 s, or longer where few requests end
	TTFT, TPOT Quantiles
	Late       Quantiles // of the last 60 s
	LateP99NS  int64     // of the whole run
	Cached     float64   // share of prompt tokens that servers found in their caches
	Errors     []ErrorCount
	All        scrape.Values // gauges of all servers
	Targets    []Target
	Past       Past
}

// Quantiles describe the values of the last 60 s, in ns.
type Quantiles struct {
	Count    int64
	NowNS    float64 // mean of the last 5 s; NaN = none
	P50, P99 int64
}

// Target is one target at that moment.
type Target struct {
	URL       string
	OK        int64
	Failed    int64
	TTFTP99NS int64   // of the last 60 s; 0 = unknown
	Cached    float64 // share of prompt tokens from the cache; NaN = unknown
	FailingNS int64   // for how long no request has ended ok and at least one failed; 0 = the last one did
	Refused   bool    // the last failure was that of a connection
	Server    scrape.Values
}

// Past has a value for each of the last 60 s, the oldest first; NaN = none.
type Past struct{ TTFT, TPOT, TokensPerS, InFlight, SentPerS []float64 }

// short is what "now" means, in seconds.
const short = 5

// Snapshot returns what the meter has. Sent and in flight become part of its history.
func (m *Meter) Snapshot(c Counts) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.NowNS = max(0, c.NowNS)
	due := int64(sort.Search(len(m.plan.ReleaseNS), func(i int) bool { return m.plan.ReleaseNS[i] > c.NowNS }))
	now := m.at(c.NowNS)
	now.observed, now.atNS, now.sent, now.inFlight, now.dueBy = true, c.NowNS, c.Sent, c.InFlight, due
	s := &Snapshot{
		Plan: &m.plan, Counts: c, LateP99NS: m.late.quantile(990), Errors: m.errorKinds(),
		TTFT: m.windows[ttft].describe(c.NowNS), TPOT: m.windows[tpot].describe(c.NowNS), Late: m.windows[lateness].describe(c.NowNS),
		TokensPerS: m.tokensPerS(c.NowNS),
	}
	s.DuePerS, s.SentPerS = m.sending(now)
	if m.plan.ReleaseNS == nil {
		s.DuePerS = math.NaN()
	}
	s.TTFT.NowNS, s.TPOT.NowNS = m.recent(now.number)
	s.Past = m.past(now.number)
	s.progress(m.endedPerS(c.NowNS))
	m.describeTargets(s)
	return s
}

// progress estimates how much of the run is over, and when the rest will be.
func (s *Snapshot) progress(endedPerS float64) {
	s.LeftNS, s.Share = -1, float64(s.Requests-s.Left)/float64(max(1, s.Requests))
	byCount := int64(-1)
	if endedPerS > 0 {
		byCount = int64(float64(s.Left) / endedPerS * 1e9)
	}
	if n := len(s.ReleaseNS); n > 0 {
		span := s.ReleaseNS[n-1]
		s.LeftNS = max(0, span-s.NowNS)
		if s.ByClock {
			s.Share = min(1, float64(s.NowNS)/float64(max(1, span)))
			return
		}
	}
	s.LeftNS = max(s.LeftNS, byCount)
	if s.UntilNS != math.MaxInt64 {
		rest := max(0, s.UntilNS-s.NowNS)
		if s.LeftNS < 0 || rest < s.LeftNS {
			s.LeftNS = rest
			s.Share = max(s.Share, min(1, float64(s.NowNS)/float64(s.UntilNS)))
		}
	}
}

// each calls f for every second that is kept of the n before number, and of number itself, the oldest first.
func (m *Meter) each(number, n int64, f func(*second)) {
	for i := max(0, number-n); i <= number; i++ {
		if s := &m.seconds[i%history]; s.number == i {
			f(s)
		}
	}
}

// sending returns the planned and the sent requests per second, from the observation about 5 s ago to now.
func (m *Meter) sending(now *second) (due, sent float64) {
	first := now
	m.each(now.number, short, func(s *second) {
		if s.observed && first == now {
			first = s
		}
	})
	if span := seconds(now.atNS - first.atNS); span >= 1 {
		return float64(now.dueBy-first.dueBy) / span, float64(now.sent-first.sent) / span
	}
	return math.NaN(), math.NaN()
}

// enough is how many requests a rate is made of, if a minute has as many.
const enough = 20

// perSecond returns what requests had that ended in the last 5, 10, 20 or 60 s, the first of them in which enough ended. The second
// that is not over does not count, but in the first one.
func (m *Meter) perSecond(nowNS int64, of func(*second) int64) float64 {
	number := max(0, nowNS) / 1e9
	for _, span := range []int64{short, 10, 20, 60} {
		sum, ended := int64(0), int64(0)
		m.each(number-1, span-1, func(s *second) { sum, ended = sum+of(s), ended+s.ended })
		if ended >= enough || span == 60 && ended > 0 {
			return float64(sum) / float64(min(span, number))
		}
	}
	return math.NaN()
}

func (m *Meter) tokensPerS(nowNS int64) float64 {
	return m.perSecond(nowNS, func(s *second) int64 { return s.tokens })
}

func (m *Meter) endedPerS(nowNS int64) float64 {
	return m.perSecond(nowNS, func(s *second) int64 { return s.ended })
}

// recent returns the mean TTFT and TPOT of the last 5 s, in ns.
func (m *Meter) recent(number int64) (float64, float64) {
	var sum second
	m.each(number, short, func(s *second) {
		sum.ttftNS, sum.ttfts = sum.ttftNS+s.ttftNS, sum.ttfts+s.ttfts
		sum.tpotNS, sum.tpots = sum.tpotNS+s.tpotNS, sum.tpots+s.tpots
	})
	return mean(sum.ttftNS, sum.ttfts), mean(sum.tpotNS, sum.tpots)
}

func mean(sum, n int64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(sum) / float64(n)
}

// past has the seconds before the one that is not over.
func (m *Meter) past(number int64) (p Past) {
	var last *second
	for i := max(0, number-60); i < number; i++ {
		s := &m.seconds[i%history]
		if s.number != i {
			s = &second{number: i}
		}
		p.TTFT, p.TPOT = append(p.TTFT, mean(s.ttftNS, s.ttfts)), append(p.TPOT, mean(s.tpotNS, s.tpots))
		p.TokensPerS = append(p.TokensPerS, float64(s.tokens))
		inFlight, rate := math.NaN(), math.NaN()
		if s.observed {
			inFlight = float64(s.inFlight)
			if last != nil {
				rate = float64(s.sent-last.sent) / seconds(s.atNS-last.atNS)
			}
			last = s
		}
		p.InFlight, p.SentPerS = append(p.InFlight, inFlight), append(p.SentPerS, rate)
	}
	return p
}

func (m *Meter) describeTargets(s *Snapshot) {
	all, prompt, cached := target{pages: map[int]scrape.Reading{}}, int64(0), int64(0)
	s.Cached = math.NaN()
	for i := range m.targets {
		t := &m.targets[i]
		out := Target{URL: m.plan.Targets[i], OK: t.ok, Failed: t.failed, Refused: t.refused, Cached: math.NaN(), Server: t.server()}
		if t.ttft != nil {
			out.TTFTP99NS = t.ttft.describe(s.NowNS).P99
		}
		if t.failingNS > 0 {
			out.FailingNS = max(1, s.NowNS-t.failingNS)
		}
		if t.reports > 0 && t.prompt > 0 {
			out.Cached = float64(t.cached) / float64(t.prompt)
			prompt, cached = prompt+t.prompt, cached+t.cached
			s.Cached = float64(cached) / float64(prompt)
		}
		for page, r := range t.pages {
			all.pages[page] = r
		}
		s.Targets = append(s.Targets, out)
	}
	s.All = all.server()
}

// failingFirst returns the targets that fail, then the others, in the order of the plan.
func (s *Snapshot) failingFirst() []Target {
	all := slices.Clone(s.Targets)
	slices.SortStableFunc(all, func(a, b Target) int { return rank(a) - rank(b) })
	return all
}

func rank(t Target) int {
	if t.FailingNS > 0 {
		return 0
	}
	return 1
}
