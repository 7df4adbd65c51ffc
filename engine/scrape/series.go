package scrape

import (
	"slices"
	"strings"
)

// Gauge is over the samples during a run: for several servers the sum of their means, and the largest of any.
type Gauge struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// Server is what a target, or all of them, said over a run. What was never said is null. Counts are increases between the
// samples before and after the run.
type Server struct {
	Target    string `json:"target,omitempty"`
	Addresses int    `json:"addresses"` // pages that were read
	Engine    string `json:"engine"`
	Engines   int    `json:"engines"`

	Samples    int64  `json:"samples"`
	Missed     int64  `json:"missed"` // samples that failed
	Error      string `json:"error,omitempty"`
	Restarts   int64  `json:"restarts"`   // counters fell: what they had counted since the sample before is lost
	Incomplete bool   `json:"incomplete"` // the sample after the run is missing, so counts end before it did

	RunningBefore *float64 `json:"running_before"`
	WaitingBefore *float64 `json:"waiting_before"`
	Running       *Gauge   `json:"running"`
	Waiting       *Gauge   `json:"waiting"`
	WaitingShare  *float64 `json:"waiting_share"` // of the samples during the run that found a queue
	KVUsage       *Gauge   `json:"kv_usage"`      // of several servers or engines the mean of all

	PrefixHitRatio   *float64 `json:"prefix_hit_ratio"` // hits / queries during the run
	PrefixHits       *float64 `json:"prefix_hits"`
	PrefixQueries    *float64 `json:"prefix_queries"`
	Preemptions      *float64 `json:"preemptions"`
	PromptTokens     *float64 `json:"prompt_tokens"`
	GenerationTokens *float64 `json:"generation_tokens"`
	Requests         *float64 `json:"requests"`
}

// counter is the place of what a counter has grown by.
func (s *Server) counter(q Quantity) **float64 {
	return [Quantities - int(firstCounter)]**float64{
		&s.PrefixHits, &s.PrefixQueries, &s.Preemptions, &s.PromptTokens, &s.GenerationTokens, &s.Requests,
	}[q-firstCounter]
}

// Series sums up the samples of one page. The zero value is ready.
type Series struct {
	server  Server
	last    Values // counters as last read
	grown   [Quantities]float64
	started [Quantities]bool // there was a reading to count from
	gauges  [firstCounter]level
	queued  int64 // samples during the run that found a queue
}

// level gathers a gauge.
type level struct {
	sum, most float64
	n         int64
}

func (l *level) add(mean, most *float64) {
	if mean == nil {
		return
	}
	l.sum += *mean
	if l.n == 0 || *most > l.most {
		l.most = *most
	}
	l.n++
}

func (l *level) gauge() *Gauge {
	if l.n == 0 {
		return nil
	}
	return &Gauge{Mean: l.sum / float64(l.n), Max: l.most}
}

// Add takes the next sample.
func (s *Series) Add(m *Sample) {
	s.server.Incomplete = m.Phase != After || m.Error != ""
	if m.Error != "" {
		s.server.Missed++
		s.server.Error = m.Error
		return
	}
	s.server.Samples++
	s.server.Engine = m.Engine
	s.server.Engines = max(s.server.Engines, m.Engines)
	s.count(&m.Values)
	switch m.Phase {
	case Before:
		s.server.RunningBefore, s.server.WaitingBefore = m.Running, m.Waiting
	case During:
		s.gauges[Running].add(m.Running, m.Running)
		s.gauges[Waiting].add(m.Waiting, m.Waiting)
		s.gauges[KVUsage].add(m.KVUsage, m.MostKVUsage)
		if m.Waiting != nil && *m.Waiting > 0 {
			s.queued++
		}
	}
}

// count adds what the counters have grown by. One that fell began again at 0, and with it all of the server's.
func (s *Series) count(now *Values) {
	restarted := false
	for q := firstCounter; q < Quantities; q++ {
		was, is := *s.last.at(q), *now.at(q)
		restarted = restarted || was != nil && is != nil && *is < *was
	}
	if restarted {
		s.server.Restarts++
	}
	for q := firstCounter; q < Quantities; q++ {
		was, is := *s.last.at(q), *now.at(q)
		switch {
		case is == nil:
			continue
		case restarted:
			s.grown[q] += *is
		case was != nil:
			s.grown[q] += *is - *was
		}
		s.started[q] = true
		*s.last.at(q) = is
	}
}

// Server is what the samples so far say.
func (s *Series) Server() Server {
	out := s.server
	out.Addresses = 1
	for q := firstCounter; q < Quantities; q++ {
		if grown := s.grown[q]; s.started[q] {
			*out.counter(q) = &grown
		}
	}
	out.Running, out.Waiting, out.KVUsage = s.gauges[Running].gauge(), s.gauges[Waiting].gauge(), s.gauges[KVUsage].gauge()
	if n := s.gauges[Waiting].n; n > 0 {
		out.WaitingShare = pointer(float64(s.queued) / float64(n))
	}
	out.setRatio()
	return out
}

// setRatio divides what was found by what was looked for.
func (s *Server) setRatio() {
	s.PrefixHitRatio = nil
	if s.PrefixHits != nil && s.PrefixQueries != nil && *s.PrefixQueries > 0 {
		s.PrefixHitRatio = pointer(*s.PrefixHits / *s.PrefixQueries)
	}
}

// Sum is several servers as one, without a name.
func Sum(servers []Server) Server {
	var out Server
	var kv, queue float64
	var kvs, queues int
	for i := range servers {
		s := &servers[i]
		out.Addresses += s.Addresses
		out.Engines += s.Engines
		out.Samples += s.Samples
		out.Missed += s.Missed
		out.Restarts += s.Restarts
		out.Incomplete = out.Incomplete || s.Incomplete
		if out.Error == "" {
			out.Error = s.Error
		}
		out.Engine = joined(out.Engine, s.Engine)
		addTo(&out.RunningBefore, s.RunningBefore)
		addTo(&out.WaitingBefore, s.WaitingBefore)
		addGauge(&out.Running, s.Running)
		addGauge(&out.Waiting, s.Waiting)
		addGauge(&out.KVUsage, s.KVUsage)
		if s.KVUsage != nil {
			kv, kvs = kv+s.KVUsage.Mean, kvs+1
		}
		if s.WaitingShare != nil {
			queue, queues = queue+*s.WaitingShare, queues+1
		}
		for q := firstCounter; q < Quantities; q++ {
			addTo(out.counter(q), *s.counter(q))
		}
	}
	if kvs > 0 {
		out.KVUsage.Mean = kv / float64(kvs)
	}
	if queues > 0 {
		out.WaitingShare = pointer(queue / float64(queues))
	}
	out.setRatio()
	return out
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

func pointer(v float64) *float64 { return &v }

// addTo adds v, if there is one, to a sum that may not have begun.
func addTo(sum **float64, v *float64) {
	if v == nil {
		return
	}
	if *sum == nil {
		*sum = pointer(0)
	}
	**sum += *v
}

func addGauge(sum **Gauge, g *Gauge) {
	if g == nil {
		return
	}
	if *sum == nil {
		*sum = &Gauge{Max: g.Max}
	}
	(*sum).Mean += g.Mean
	(*sum).Max = max((*sum).Max, g.Max)
}

// Servers is what all pages said over a run.
type Servers struct {
	IntervalS float64  `json:"interval_s"` // from one sample of a page to the next
	All       Server   `json:"all"`
	Targets   []Server `json:"targets"`
}

// Gather sums up by target, in the order of first mention, and over all.
func Gather(intervalS float64, names []string, series []*Series) *Servers {
	out := &Servers{IntervalS: intervalS}
	var order []string
	by := map[string][]Server{}
	for i, s := range series {
		if !slices.Contains(order, names[i]) {
			order = append(order, names[i])
		}
		by[names[i]] = append(by[names[i]], s.Server())
	}
	for _, name := range order {
		target := Sum(by[name])
		target.Target = name
		out.Targets = append(out.Targets, target)
	}
	out.All = Sum(out.Targets)
	return out
}
