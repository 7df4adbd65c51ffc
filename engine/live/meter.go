// Package live says how a run goes while it runs. A Meter counts records as they come. A Snapshot is what it has at one moment.
// Pure functions make of it a screen for a terminal, or a line for a log. A Meter also makes the page for Prometheus.
//
// It opens no sockets, writes to no terminal and judges no run: package metrics does that, from all records. A Meter may be used by
// any goroutine. It keeps no records: each target takes 2 kB, and each of the first 64 has a window of 66 kB. Add allocates nothing,
// but for the first failure of a kind and the first record of another target.
package live

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// Plan is what is known of a run before it starts.
type Plan struct {
	Title     string   // what is replayed and where, for people
	Version   string   // of this program
	Targets   []string // URLs, in the order that Add refers to
	ReleaseNS []int64  // planned instants, ascending; nil in a closed loop
	ByClock   bool     // nothing but the clock releases requests
	UntilNS   int64    // nothing is released from then on; math.MaxInt64 = no such time
	Requests  int64
	LimitNS   int64 // lateness of p99 above this is shown as a fault
}

// Counts are what the run itself counts.
type Counts struct {
	NowNS, Sent, OK, Failed, InFlight, Left int64
	Stopping                                bool // nothing more is released
}

const (
	history     = 64 // seconds that are kept
	mostWindows = 64 // targets that have percentiles of their own
	mostKinds   = 32 // kinds of errors of a target that are told apart, besides the outcomes
)

// Meter counts a run. Make it with NewMeter.
type Meter struct {
	mu      sync.Mutex
	plan    Plan
	windows [latencies]window
	late    counts // of the whole run
	targets []target
	none    target // requests that never had one
	seconds [history]second
}

// The latencies that have windows.
const (
	ttft = iota
	tpot
	lateness
	latencies
)

// target is what is counted of one.
type target struct {
	ok, failed, prompt, cached, reports, generated int64
	ttft                                           *window
	failingNS                                      int64 // since when no request ended ok; 0 = the last one did
	refused                                        bool  // the last failure was that of a connection
	errors                                         []ErrorCount
	totals                                         [histograms]totals     // for Prometheus
	pages                                          map[int]scrape.Reading // the latest of its servers, by page
}

// second is what happened in one second of the run.
type second struct {
	number                      int64 // which one, from 0; a place in the ring has been used by earlier ones
	ended, tokens               int64
	ttftNS, ttfts               int64
	tpotNS, tpots               int64
	observed                    bool
	atNS, sent, inFlight, dueBy int64 // at its last observation
}

// NewMeter returns a meter of a run that follows plan.
func NewMeter(plan Plan) *Meter {
	m := &Meter{plan: plan, targets: make([]target, len(plan.Targets))}
	for i := range m.targets[:min(mostWindows, len(m.targets))] {
		m.targets[i].ttft = new(window)
	}
	for i := range m.seconds {
		m.seconds[i].number = -1
	}
	return m
}

// at returns the second of nowNS, empty if it is new.
func (m *Meter) at(nowNS int64) *second {
	number := max(0, nowNS) / 1e9
	s := &m.seconds[number%history]
	if s.number != number {
		*s = second{number: number}
	}
	return s
}

// Add counts a record that is complete at nowNS. Requests that the user left out do not count. to is the index of its target. A
// record that never had one counts for the run alone.
func (m *Meter) Add(nowNS int64, r *record.Record, to int) {
	if r.LeftOut() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := &m.none
	if to >= 0 && to < len(m.targets) {
		of = &m.targets[to]
	}
	if late := r.DriftNS(); late != record.None {
		m.windows[lateness].add(nowNS, late)
		m.late.add(late)
		of.totals[lateHistogram].add(late)
	}
	if r.Outcome != record.OK {
		of.fail(nowNS, r)
		return
	}
	s := m.at(nowNS)
	of.ok++
	of.failingNS = 0
	s.ended++
	if r.CompletionTokens != record.None {
		s.tokens += r.CompletionTokens
		of.generated += r.CompletionTokens
	}
	of.prompts(r)
	if ns := r.TTFTNS(); ns != record.None {
		m.windows[ttft].add(nowNS, ns)
		s.ttftNS, s.ttfts = s.ttftNS+ns, s.ttfts+1
		if of.ttft != nil {
			of.ttft.add(nowNS, ns)
		}
		of.totals[ttftHistogram].add(ns)
	}
	if ns := r.TPOTNS(); ns != record.None {
		m.windows[tpot].add(nowNS, ns)
		s.tpotNS, s.tpots = s.tpotNS+ns, s.tpots+1
		of.totals[tpotHistogram].add(ns)
	}
	if ns := r.E2ENS(); ns != record.None {
		of.totals[e2eHistogram].add(ns)
	}
}

// prompts counts prompt tokens, and those that the server found in its cache. What an answer with usage leaves out is 0.
func (t *target) prompts(r *record.Record) {
	if !r.ToldUsage() || r.PromptTokens == record.None {
		return
	}
	t.prompt += r.PromptTokens
	if r.CachedTokens != record.None {
		t.cached += r.CachedTokens
		t.reports++
	}
}

// ErrorCount is requests that failed alike.
type ErrorCount struct {
	Outcome record.Outcome
	Status  int64 // HTTP status of an http_error; 0 otherwise
	Count   int64
}

func (t *target) fail(nowNS int64, r *record.Record) {
	t.failed++
	t.refused = r.Outcome == record.ConnectError
	if t.failingNS == 0 && r.Outcome != record.Cancelled && r.Outcome != record.NotSent {
		t.failingNS = max(1, nowNS)
	}
	kind := ErrorCount{Outcome: r.Outcome, Count: 1}
	if r.Outcome == record.HTTPError && r.Status != record.None && len(t.errors) < mostKinds {
		kind.Status = r.Status
	}
	t.errors = count(t.errors, kind)
}

// count adds e to the kind that it is of.
func count(kinds []ErrorCount, e ErrorCount) []ErrorCount {
	for i := range kinds {
		if k := &kinds[i]; k.Outcome == e.Outcome && k.Status == e.Status {
			k.Count += e.Count
			return kinds
		}
	}
	return append(kinds, e)
}

// Sample takes what a page of a server reported. Samples without a reading forget the one before. URLs that are no target's do not
// count.
func (m *Meter) Sample(page int, s *scrape.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.plan.Targets, s.Target)
	if i < 0 {
		return
	}
	t := &m.targets[i]
	if t.pages == nil {
		t.pages = map[int]scrape.Reading{}
	}
	t.pages[page] = s.Reading
}

// server adds up the latest readings of its pages; the KV use is their mean.
func (t *target) server() (v scrape.Values) {
	shares := 0.0
	for _, r := range t.pages {
		for _, g := range []struct{ sum, value **float64 }{
			{&v.Running, &r.Running}, {&v.Waiting, &r.Waiting}, {&v.KVUsage, &r.KVUsage}, {&v.PrefixHits, &r.PrefixHits}, {&v.PrefixQueries, &r.PrefixQueries},
		} {
			if *g.value == nil {
				continue
			}
			if *g.sum == nil {
				*g.sum = new(float64)
			}
			**g.sum += **g.value
		}
		if r.KVUsage != nil {
			shares++
		}
	}
	if shares > 0 {
		*v.KVUsage /= shares
	}
	return v
}

// errorKinds returns failures by kind over all targets, the most frequent first.
func (m *Meter) errorKinds() (kinds []ErrorCount) {
	for i := -1; i < len(m.targets); i++ {
		t := &m.none
		if i >= 0 {
			t = &m.targets[i]
		}
		for _, e := range t.errors {
			kinds = count(kinds, e)
		}
	}
	slices.SortStableFunc(kinds, func(a, b ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	return kinds
}
