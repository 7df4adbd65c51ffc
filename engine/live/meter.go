// Package live says how a run goes while it runs. A Meter counts records as they come. A Snapshot is what it has at
// one moment. Of it are made a screen for a terminal, a line for a log and the page for Prometheus.
//
// It opens no sockets, writes to no terminal and judges no run: package metrics does that, from all records. A Meter
// may be used by any goroutine. It keeps no records: each target takes 3 kB, and each of the first 64 has a window of
// 180 kB. Add allocates nothing, but for the first failure of a kind, and the first request of an owner.
//
// The package is not an API: any release may change it.
package live

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// Plan is what is known of a run before it starts.
type Plan struct {
	Title      string   // what is replayed and where, for people
	Version    string   // of this program
	Targets    []string // URLs, in the order that Add refers to
	ReleaseNS  []int64  // planned instants, ascending; nil in a closed loop
	ByClock    bool     // nothing but the clock releases requests
	UntilNS    int64    // nothing is released from then on; math.MaxInt64 = no such time
	Requests   int64
	MaxDriftNS int64 // most that p99 of lateness may be; 0 = lateness is judged by what it changes
	TimeoutNS  int64 // most that is waited for requests in flight once all are sent
	DrainNS    int64 // the same once the run is stopped
	Quits      bool  // the key q stops the run
}

// Counts are what the run itself counts.
type Counts struct {
	NowNS, Sent, OK, InFlight, Left int64
	Stopping                        bool // nothing more is released
}

// A moment is what a run has counted at that time; the difference of two is what happened between them.
type moment [columns]int64

// The columns of a moment: besides counters the time, and for each latency the sum of all values in ns and their
// number.
const (
	atNS = iota
	sent
	due
	inFlight
	ended // ok
	tokens
	sumNS
	number  = sumNS + metrics.NumLatencies
	columns = number + metrics.NumLatencies
)

// The limits of what is kept.
const (
	moments     = 61 // a minute
	mostWindows = 64 // targets that have percentiles of their own
)

// Meter counts a run. Make it with NewMeter.
type Meter struct {
	mu   sync.Mutex
	plan Plan
	now  moment   // without what the run itself counts
	past []moment // about one a second; the first is the start, for a minute
	// of the last minute; nil of latencies that are not shown live
	windows [metrics.NumLatencies]*window
	whole   [metrics.NumLatencies]*hdrhistogram.Histogram // of the run; likewise
	targets []target                                      // one for requests that never had any, and those that joined
	owned   map[rows.Owner]*Owned                         // of requests whose rows say whose they are
	// since when nothing but requests in flight is waited for; -1 = more is to be sent
	waitsNS int64
	stopped bool // the run was stopped then
	goal    string
}

// target is what is counted of one.
type target struct {
	Target
	failingNS int64 // since when no request ended ok; 0 = the last one did
	ttft      *window
	pages     map[int]scrape.Reading // the latest of its servers, by page
}

// target is the one with an index in the plan, else the one of that URL, which joined during the run. Without a URL it
// is that of requests that never had any.
func (m *Meter) target(url string, at int) *target {
	none := len(m.plan.Targets)
	switch {
	case at >= 0 && at < none:
		return &m.targets[at]
	case url == "":
		return &m.targets[none]
	}
	at = slices.IndexFunc(m.targets, func(t target) bool { return t.URL == url })
	if at < 0 {
		at = len(m.targets)
		m.targets = append(m.targets, newTarget(url))
	}
	return &m.targets[at]
}

// newTarget is one of which nothing is counted yet.
func newTarget(url string) target {
	t := target{pages: map[int]scrape.Reading{}}
	t.URL = url
	t.Errors = map[Kind]int64{}
	return t
}

// Owned is what is counted of the requests of one owner.
type Owned struct {
	OK, Failed int64
	TTFT       Histogram
}

// mostOwned bounds the owners that are told apart. Further ones count together, as nobody's.
const mostOwned = 1024

// owner is what is counted of a request's owner; nil if its row does not say.
func (m *Meter) owner(r *record.Record) *Owned {
	of := metrics.OwnerOf(r)
	if of == (rows.Owner{}) {
		return nil
	}
	if own := m.owned[of]; own != nil {
		return own
	}
	if len(m.owned) >= mostOwned {
		of = rows.Owner{}
	}
	if m.owned[of] == nil {
		m.owned[of] = new(Owned)
	}
	return m.owned[of]
}

func (o *Owned) count(r *record.Record) {
	switch kind := (Kind{Outcome: r.Outcome}); {
	case o == nil, kind.stopped():
	case r.Outcome == record.OK:
		o.OK++
	default:
		o.Failed++
	}
}

// Kind is how requests fail alike.
type Kind struct {
	Outcome record.Outcome
	Status  int64 // HTTP status of an http_error; 0 otherwise
}

// stopped reports whether such requests ended because the run did. They are no failures, as in the results.
func (k Kind) stopped() bool {
	return k.Outcome == record.Cancelled || k.Outcome == record.NotSent
}

// NewMeter returns a meter of a run that follows plan.
func NewMeter(plan Plan) *Meter {
	m := &Meter{
		plan:    plan,
		waitsNS: -1,
		past:    make([]moment, 1, 2*moments),
		owned:   map[rows.Owner]*Owned{},
	}
	for i, l := range metrics.Latencies() {
		if l.LiveName != "" {
			m.windows[i] = newWindow()
			m.whole[i] = hdrhistogram.New(leastNS, mostNS, digits)
		}
	}
	for i, url := range plan.Targets {
		m.targets = append(m.targets, newTarget(url))
		if i < mostWindows {
			m.targets[i].ttft = newWindow()
		}
	}
	m.targets = append(m.targets, newTarget(""))
	return m
}

// Add counts a record that is complete at nowNS. Requests that the user left out do not count. to is the index of its
// target. A record that never had one counts for the run alone.
func (m *Meter) Add(nowNS int64, r *record.Record, to int) {
	if r.LeftOut() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.target(r.Target, to)
	own := m.owner(r)
	own.count(r)
	all := metrics.Latencies()
	for i, w := range m.windows {
		counts := all[i].OfSent || r.Outcome == record.OK
		if w == nil || !counts {
			continue
		}
		ns := all[i].Of(r)
		if ns == record.None {
			continue
		}
		m.now[sumNS+i] += ns
		m.now[number+i]++
		w.add(nowNS, ns)
		count(m.whole[i], ns)
		t.Histograms[i].add(ns)
		if i == metrics.TTFT && own != nil {
			own.TTFT.add(ns)
		}
		if i == metrics.TTFT && t.ttft != nil {
			t.ttft.add(nowNS, ns)
		}
	}
	if r.Outcome != record.OK {
		t.fail(nowNS, r)
		return
	}
	t.OK++
	t.failingNS = 0
	m.now[ended]++
	if r.CompletionTokens != record.None {
		m.now[tokens] += r.CompletionTokens
		t.Generated += r.CompletionTokens
	}
	if r.ToldUsage() && r.PromptTokens != record.None {
		t.Prompt += r.PromptTokens
		if r.CachedTokens != record.None {
			t.Cached += r.CachedTokens
			t.Reported = true
		}
	}
}

func (t *target) fail(nowNS int64, r *record.Record) {
	kind := Kind{Outcome: r.Outcome}
	if r.Outcome == record.HTTPError && r.Status != record.None {
		kind.Status = r.Status
	}
	t.Errors[kind]++
	if kind.stopped() {
		return
	}
	t.Failed++
	if t.failingNS == 0 {
		t.failingNS = max(1, nowNS)
	}
}

// Sample takes what a page of a server reported. Samples without a reading forget the one before. URLs that are no
// target's do not count.
func (m *Meter) Sample(page int, s *scrape.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.targets, func(t target) bool { return t.URL == s.Target && t.URL != "" })
	if i >= 0 {
		m.targets[i].pages[page] = s.Reading
	}
}

// Observe keeps what the run has counted. Rates come of it, so it is to be called about once a second.
func (m *Meter) Observe(c Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past = append(m.past, m.moment(c))
	forgotten := max(0, len(m.past)-moments)
	m.past = m.past[forgotten:]
}

// Tell takes how far the run is from what it goes on for.
func (m *Meter) Tell(goal string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goal = goal
}

// moment is what the meter and the run have counted.
func (m *Meter) moment(c Counts) moment {
	now := m.now
	now[atNS] = c.NowNS
	now[sent] = c.Sent
	now[inFlight] = c.InFlight
	planned := m.plan.ReleaseNS
	passed := sort.Search(len(planned), func(i int) bool {
		return planned[i] > c.NowNS
	})
	now[due] = int64(passed)
	allDue := m.plan.ByClock && passed == len(planned)
	sentAll := allDue || c.Left <= c.InFlight
	if c.Stopping != m.stopped || m.waitsNS < 0 && sentAll {
		m.waitsNS = c.NowNS
		m.stopped = c.Stopping
	}
	return now
}

// A window has the values of the last minute in six steps of 10 s: the current one and the five before it.
type window struct {
	*hdrhistogram.WindowedHistogram
	at int64 // number of the current step
}

// The size of a window. Values are within 0.8 %; those out of range count as its ends.
const (
	windowSteps = 6
	stepNS      = int64(10e9)
	leastNS     = 1_000
	mostNS      = 1_000_000_000_000
	digits      = 2
)

func newWindow() *window {
	return &window{WindowedHistogram: hdrhistogram.NewWindowed(windowSteps, leastNS, mostNS, digits)}
}

// turn forgets the steps that are older than the minute that ends at nowNS.
func (w *window) turn(nowNS int64) {
	now := nowNS / stepNS
	w.at = max(w.at, now-windowSteps)
	for w.at < now {
		w.Rotate()
		w.at++
	}
}

func (w *window) add(nowNS, ns int64) {
	w.turn(nowNS)
	count(w.Current, ns)
}

func (w *window) describe(nowNS int64) Series {
	w.turn(nowNS)
	all := w.Merge()
	return Series{
		P50: quantile(all, 50),
		P99: quantile(all, 99),
	}
}

// quantile returns a percentile in ns; NaN if there are no values.
func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	if h.TotalCount() == 0 {
		return math.NaN()
	}
	return float64(h.ValueAtQuantile(percent))
}

func count(h *hdrhistogram.Histogram, ns int64) {
	err := h.RecordValue(min(max(0, ns), mostNS))
	if err != nil {
		panic("BUG: live: " + err.Error())
	}
}
