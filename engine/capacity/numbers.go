package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// The numbers of an outcome, besides the latencies of its objectives, such as ttft.p95 in ms.
const (
	GoodputPerS = "goodput_per_s" // ok requests within every limit, per second
	Goodput     = "goodput"       // their share of the requests
	PrefixHits  = "prefix_hits"   // share of the prompt tokens
	ErrorRate   = "error_rate"    // share of the requests
)

// Quantity is the name of the number that the objective bounds, such as ttft.p95.
func (o *Objective) Quantity() string {
	if o.Metric == ok {
		return ErrorRate
	}
	percentile := map[float64]string{0.5: "p50", 0.1: "p90", 0.05: "p95", 0.01: "p99", 0.001: "p999"}[o.Allowed]
	return o.Metric + "." + percentile
}

// Label is what the objective is about, such as TTFT.
func (o *Objective) Label() string {
	for _, l := range metrics.Latencies() {
		if l.Name == o.Metric {
			return l.Label
		}
	}
	return "failures"
}

// part is what one instance, or one target, shows of an objective.
type part struct {
	name     string
	requests int64
	beyond   []int64 // planned instants of requests beyond the limit, ns
}

// Numbers reads the records of a probe that are in the window, and returns the numbers of its outcome. urls are its targets. If an
// objective is broken, limiter says where that began: which objective is the furthest from its share, and which instance is the first
// to have more requests beyond the limit than its share of the whole window allows.
func Numbers(dir string, urls []string, objectives []Objective, w Span) (numbers map[string]float64, limiter string, err error) {
	c, n, good := metrics.NewCollector(urls), int64(0), int64(0)
	beyond, parts := make([]int64, len(objectives)), make([]map[string]*part, len(objectives))
	for i := range parts {
		parts[i] = map[string]*part{}
	}
	_, err = report.EachRecord(dir, func(r *record.Record) {
		cut := r.Outcome == record.Cancelled
		if !w.Has(r.PlannedNS) || !cut && !w.Counts(r) {
			return
		}
		if !cut {
			n++
			c.Add(r, slices.Index(urls, r.Target))
		}
		within := !cut
		for i := range objectives {
			o := &objectives[i]
			name := cmp.Or(r.Instance, fmt.Sprint("instance ", slices.Index(urls, r.Target)+1))
			p := parts[i][name]
			if p == nil {
				p = &part{name: name}
				parts[i][name] = p
			}
			p.requests++
			if cut && o.late(Ongoing{r.PlannedNS, r.SentNS, r.FirstTokenNS}, r.DoneNS) || !cut && o.Beyond(r) {
				p.beyond, within = append(p.beyond, r.PlannedNS), false
				beyond[i]++
			}
		}
		if within {
			good++
		}
	})
	if err != nil {
		return nil, "", err
	}
	seconds := float64(w.ForNS) / 1e9
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: n}, Run: metrics.Run{DurationS: seconds}}, metrics.Probed{})
	numbers = map[string]float64{GoodputPerS: float64(good) / seconds}
	if n > 0 {
		numbers[Goodput] = float64(good) / float64(n)
	}
	for _, name := range append([]string{PrefixHits, ErrorRate}, quantitiesOf(objectives)...) {
		if v := metrics.Value(s, name); v != nil {
			numbers[name] = *v
		}
	}
	worst, most := -1, 1.0
	for i := range objectives {
		if over := float64(beyond[i]) / float64(max(1, n)) / objectives[i].Allowed; over > most {
			worst, most = i, over
		}
	}
	if worst >= 0 {
		limiter = objectives[worst].Label() + first(parts[worst], objectives[worst].Allowed)
	}
	return numbers, limiter, nil
}

func quantitiesOf(objectives []Objective) (names []string) {
	for i := range objectives {
		names = append(names, objectives[i].Quantity())
	}
	return names
}

// first names the part that is the first to have more requests beyond the limit than are allowed; "" if there is one part.
func first(parts map[string]*part, allowed float64) string {
	if len(parts) < 2 {
		return ""
	}
	var all []*part
	at := func(p *part) int64 {
		slices.Sort(p.beyond)
		if most := int(allowed * float64(p.requests)); most < len(p.beyond) {
			return p.beyond[most]
		}
		return int64(1) << 62
	}
	for _, p := range parts {
		all = append(all, p)
	}
	p := slices.MinFunc(all, func(a, b *part) int { return cmp.Or(cmp.Compare(at(a), at(b)), strings.Compare(a.name, b.name)) })
	return " on " + p.name
}
