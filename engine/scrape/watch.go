package scrape

import "slices"

// Watch sums up the samples of all pages as they come. Make it with NewWatch.
type Watch struct {
	pages  []counters
	latest []Reading // during the run
	groups []group   // all pages, and those of each target
}

// group is several pages, whose gauges are one.
type group struct {
	target string
	pages  []int
	levels [firstCounter]level
	queued int64 // samples that found a queue
}

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
	w := &Watch{pages: make([]counters, len(targets)), latest: make([]Reading, len(targets)), groups: make([]group, 1)}
	for page, target := range targets {
		w.groups[0].pages = append(w.groups[0].pages, page)
		at := slices.IndexFunc(w.groups, func(g group) bool { return g.target == target && target != "" })
		if at < 0 {
			at = len(w.groups)
			w.groups = append(w.groups, group{target: target})
		}
		w.groups[at].pages = append(w.groups[at].pages, page)
	}
	return w
}

// Add takes the next sample of a page.
func (w *Watch) Add(page int, m *Sample) {
	w.pages[page].add(m)
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
		}
	}
}

// add takes the latest readings of the group's pages.
func (g *group) add(latest []Reading) {
	for q := Quantity(0); q < firstCounter; q++ {
		sum, most, n := 0.0, 0.0, 0
		for _, page := range g.pages {
			r := &latest[page]
			v := *r.at(q)
			if v == nil {
				continue
			}
			sum, n = sum+*v, n+1
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
		out.Restarts, out.RunningBefore, out.WaitingBefore, out.Counts = 0, nil, nil, Counts{}
		return out
	}
	out.Running, out.Waiting, out.KVUsage, out.PowerW = g.levels[Running].gauge(), g.levels[Waiting].gauge(), g.levels[KVUsage].gauge(), g.levels[GPUPower].gauge()
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
	out := &Servers{IntervalS: intervalS, All: w.groups[0].server(w.pages), Targets: []Server{}}
	for i := range w.groups[1:] {
		out.Targets = append(out.Targets, w.groups[i+1].server(w.pages))
	}
	return out
}
