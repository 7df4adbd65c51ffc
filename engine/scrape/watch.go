package scrape

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// Watch sums up the samples of all pages as they come. Make it with NewWatch.
type Watch struct {
	pages  []counters
	latest []Reading // during the run
	groups []group   // all pages, and those of each target
	events []Event
}

// Event is what became of a server during the run.
type Event struct {
	AtS    float64 `json:"at_s"`   // when it was seen, since the start
	Target string  `json:"target"` // URL, or the page of --scrape-url
	// restarted, silent (it did not answer any more) or answered (it did again). Of a target: wanted (it is named, and
	// accepts no connection yet), joined or left
	What   string `json:"what"`
	Wanted int    `json:"wanted,omitempty"` // of targets alone: how many were named then
	Had    int    `json:"had,omitempty"`    // likewise: how many took part
	// likewise: how many requests had left when the others had new places, or could go to a server that joined
	Released int64  `json:"released,omitempty"`
	Error    string `json:"error,omitempty"` // why it was silent
	page     int
}

// The values of Event.What, and how many events are kept.
const (
	Restarted  = "restarted"
	Silent     = "silent"
	Answered   = "answered"
	Wanted     = "wanted" // the targets, whose file says so
	Joined     = "joined" // likewise
	Left       = "left"   // likewise
	mostEvents = 1000
)

// note keeps what a sample during the run tells of a page, whose state before it is given.
func (w *Watch) note(page int, m *Sample, before counters) {
	e := Event{AtS: float64(m.AtNS) / 1e9, Target: cmp.Or(m.Target, m.URL), Error: m.Error, page: page}
	switch {
	case m.Phase != During || len(w.events) == mostEvents:
		return
	case m.Error != "" && !before.silent:
		e.What = Silent
	case w.pages[page].server.Restarts > before.server.Restarts:
		e.What = Restarted
	case m.Error == "" && before.silent:
		e.What = Answered
	default:
		return
	}
	w.events = append(w.events, e)
}

// group is several pages, whose gauges are one.
type group struct {
	target string
	pages  []int
	levels [firstCounter]level
	queued int64 // samples that found a queue
	loaded map[string]bool
}

// mostAdapters bounds the names of adapters that are kept of a target.
const mostAdapters = 1024

// level gathers a gauge.
type level struct {
	sum, most float64
	n         int64
}

func (l *level) gauge() *Gauge {
	if l.n == 0 {
		return nil
	}
	return &Gauge{Mean: l.sum / float64(l.n), Max: l.most}
}

// NewWatch watches pages, given by the targets that they belong to.
func NewWatch(targets []string) *Watch {
	w := &Watch{groups: make([]group, 1)}
	for _, target := range targets {
		w.Join(target)
	}
	return w
}

// Join adds a page of a target.
func (w *Watch) Join(target string) {
	page := len(w.pages)
	w.pages, w.latest = append(w.pages, counters{}), append(w.latest, Reading{})
	w.groups[0].pages = append(w.groups[0].pages, page)
	at := slices.IndexFunc(w.groups, func(g group) bool { return g.target == target && target != "" })
	if at < 0 {
		at = len(w.groups)
		w.groups = append(w.groups, group{target: target})
	}
	w.groups[at].pages = append(w.groups[at].pages, page)
}

// Add takes the next sample of a page.
func (w *Watch) Add(page int, m *Sample) {
	before := w.pages[page]
	w.pages[page].add(m)
	w.note(page, m, before)
	if m.Phase == After {
		return
	}
	w.latest[page] = m.Reading
	if m.Phase == Before {
		return
	}
	for i := range w.groups {
		if g := &w.groups[i]; slices.Contains(g.pages, page) {
			g.add(w.latest)
			g.addAdapters(m.Adapters)
		}
	}
}

// addAdapters keeps the names of a list.
func (g *group) addAdapters(list string) {
	for name := range strings.SplitSeq(list, ",") {
		if name == "" || len(g.loaded) == mostAdapters {
			continue
		}
		if g.loaded == nil {
			g.loaded = map[string]bool{}
		}
		g.loaded[name] = true
	}
}

// add takes the latest readings of the group's pages.
func (g *group) add(latest []Reading) {
	for q := Quantity(0); q < firstCounter; q++ {
		sum := 0.0
		most := 0.0
		n := 0
		for _, page := range g.pages {
			r := &latest[page]
			v := *r.at(q)
			if v == nil {
				continue
			}
			sum += *v
			n++
			if q == KVUsage {
				most = max(most, *r.MostKVUsage)
			}
		}
		switch {
		case n == 0:
			continue
		case q == KVUsage:
			sum /= float64(n)
		default:
			most = sum
		}
		l := &g.levels[q]
		l.sum, l.most, l.n = l.sum+sum, max(l.most, most), l.n+1
		if q == Waiting && sum > 0 {
			g.queued++
		}
	}
}

// server is what the group's pages report together.
func (g *group) server(pages []counters) Server {
	out := Server{Target: g.target}
	for _, page := range g.pages {
		pages[page].addTo(&out)
	}
	if out.Alternates {
		out.Restarts = 0
		out.RunningBefore = nil
		out.WaitingBefore = nil
		out.Counts = Counts{}
		return out
	}
	out.Running, out.Waiting, out.KVUsage, out.PowerW = g.levels[Running].gauge(), g.levels[Waiting].gauge(),
		g.levels[KVUsage].gauge(), g.levels[GPUPower].gauge()
	out.Adapters = slices.Sorted(maps.Keys(g.loaded))
	if n := g.levels[Waiting].n; n > 0 {
		out.WaitingShare = new(float64(g.queued) / float64(n))
	}
	if out.PrefixHits != nil && out.PrefixQueries != nil && *out.PrefixQueries > 0 {
		out.PrefixHitRatio = new(*out.PrefixHits / *out.PrefixQueries)
	}
	return out
}

// Servers is what all samples so far report, targets in the order of NewWatch. intervalS is for the record.
func (w *Watch) Servers(intervalS float64) *Servers {
	out := &Servers{
		IntervalS: intervalS,
		All:       w.groups[0].server(w.pages),
		Targets:   []Server{},
	}
	for i := range w.groups[1:] {
		out.Targets = append(out.Targets, w.groups[i+1].server(w.pages))
	}
	for _, e := range w.events {
		if !w.pages[e.page].server.Alternates {
			out.Events = append(out.Events, e)
		}
	}
	return out
}

// Gauge is over the samples during a run. For several pages it is over their sum: each sample of one page is added to
// the latest of the others. A page that does not answer adds nothing. For the KV cache's use it is over their mean, and
// max is that of an engine.
type Gauge struct {
	Mean float64 `json:"mean"` // over the samples during the run
	Max  float64 `json:"max"`  // of the samples during the run
}

// Server is what a target, or all of them, reported over a run. What was never reported is null. Counts are increases
// between the samples before and after the run.
type Server struct {
	Target    string `json:"target,omitempty"` // URL; absent for all together
	Addresses int    `json:"addresses"`        // pages that were read
	Engine    string `json:"engine"`           // what serves there
	Engines   int    `json:"engines"`          // how many engines the pages describe

	Samples int64  `json:"samples"`         // readings
	Missed  int64  `json:"missed"`          // readings that failed
	Error   string `json:"error,omitempty"` // why the last of them did; absent if none failed
	// how often counters fell, since a server was restarted; what they had counted since the sample before is lost
	Restarts int64 `json:"restarts"`
	// each reading is another server's, as behind a load balancer; then there are no counts or gauges
	Alternates bool `json:"alternates"`
	Incomplete bool `json:"incomplete"` // there is no reading after the run, so counts end before it did

	// requests that ran just before the first one left, without those of servers that joined later
	RunningBefore *float64 `json:"running_before"`
	WaitingBefore *float64 `json:"waiting_before"` // requests that waited then, likewise
	Running       *Gauge   `json:"running"`        // requests that ran
	Waiting       *Gauge   `json:"waiting"`        // requests that waited
	WaitingShare  *float64 `json:"waiting_share"`  // share of the samples during the run that found a queue
	KVUsage       *Gauge   `json:"kv_usage"`       // share of the KV cache in use, 0 to 1

	// LoRA adapters that requests ran with, as the samples saw it; absent if none
	Adapters []string `json:"adapters,omitempty"`

	GPUs   int    `json:"gpus,omitempty"`    // how many GPUs the pages have the power of
	PowerW *Gauge `json:"power_w,omitempty"` // power of all of them, in W; absent if no page has it

	PrefixHitRatio *float64 `json:"prefix_hit_ratio"` // prefix_hits / prefix_queries during the run
	// what they have grown by; of vLLM's instances to which NIXL brought blocks, no hits: others computed those
	Counts
}

// counters sums up the counters of one page. The zero value is ready.
type counters struct {
	server Server   // but for the gauges
	last   Counts   // as last read
	grown  Counts   // nil before there is a reading to count from
	began  *float64 // as last read
	falls  int      // of the counters since a sample failed
	silent bool     // the last sample failed
}

func (c *counters) add(m *Sample) {
	c.server.Incomplete = m.Phase != After || m.Error != ""
	c.silent = m.Error != ""
	if m.Error != "" {
		c.server.Missed++
		c.server.Error = m.Error
		c.falls = 0
		return
	}
	c.server.Samples++
	c.server.Engine = m.Engine
	c.server.Engines, c.server.GPUs = max(c.server.Engines, m.Engines), max(c.server.GPUs, m.GPUs)
	if m.Phase == Before && m.AtNS < 0 { // not of a server that joined later
		c.server.RunningBefore = m.Running
		c.server.WaitingBefore = m.Waiting
	}
	c.count(&m.Counts, m.BeganS)
}

// count adds what the counters have grown by. If a counter fell, the server was restarted, and all its counters began
// again at 0. But no server is restarted twice between samples that all succeed, nor does an older process replace a
// younger one. In both cases several servers answer in turn.
func (c *counters) count(now *Counts, began *float64) {
	restarted := began != nil && c.began != nil && *began > *c.began
	c.server.Alternates = c.server.Alternates || began != nil && c.began != nil && *began < *c.began
	c.began = began
	for q := firstCounter; q < Quantities; q++ {
		was := *c.last.at(q)
		is := *now.at(q)
		restarted = restarted || was != nil && is != nil && *is < *was
	}
	if restarted {
		c.server.Restarts++
		c.falls++
		c.server.Alternates = c.server.Alternates || c.falls > 1
	}
	for q := firstCounter; q < Quantities; q++ {
		was := *c.last.at(q)
		is := *now.at(q)
		more := 0.0
		switch {
		case is == nil:
			continue
		case restarted:
			more = *is
		case was != nil:
			more = *is - *was
		}
		addTo(c.grown.at(q), &more)
		*c.last.at(q) = is
	}
}

// addTo adds what the page reported to a server of several pages.
func (c *counters) addTo(out *Server) {
	s := &c.server
	out.Addresses++
	out.Engines += s.Engines
	out.GPUs += s.GPUs
	out.Samples += s.Samples
	out.Missed += s.Missed
	out.Restarts += s.Restarts
	out.Alternates = out.Alternates || s.Alternates
	out.Incomplete = out.Incomplete || s.Incomplete
	out.Error = cmp.Or(out.Error, s.Error)
	out.Engine = joined(out.Engine, s.Engine)
	addTo(&out.RunningBefore, s.RunningBefore)
	addTo(&out.WaitingBefore, s.WaitingBefore)
	grown := c.grown
	switch {
	case s.Engine != "vllm":
	case stats.OrZero(grown.Transfers) > 0: // it decodes what others have prefilled
		grown.PrefixHits = nil
		grown.PrefixQueries = nil
		grown.HostHits = nil
		grown.ExternalHits = nil
	case grown.ExternalHits != nil: // among which vLLM has those of the host
		grown.ExternalHits = new(max(0, *grown.ExternalHits-stats.OrZero(grown.HostHits)))
	}
	for q := firstCounter; q < Quantities; q++ {
		addTo(out.at(q), *grown.at(q))
	}
}

// joined names engines, each once.
func joined(names, name string) string {
	switch {
	case names == "":
		return name
	case name == "" || slices.Contains(strings.Split(names, "+"), name):
		return names
	}
	return names + "+" + name
}

// addTo adds v, if there is one, to a sum that may not have begun.
func addTo(sum **float64, v *float64) {
	if v == nil {
		return
	}
	if *sum == nil {
		*sum = new(float64)
	}
	**sum += *v
}

// Servers is what all pages reported over a run.
type Servers struct {
	IntervalS float64  `json:"interval_s"` // from one reading of a page to the next (--scrape-interval)
	All       Server   `json:"all"`        // all servers together: gauges and counts are summed, KV use is averaged
	Targets   []Server `json:"targets"`    // each target, or each page of --scrape-url
	// servers that were restarted, fell silent or answered again, the first 1,000; absent without any
	Events []Event `json:"events,omitempty"`
}
