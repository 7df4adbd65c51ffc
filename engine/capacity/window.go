package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Which part of a trace probes measure, if they cannot measure all of it.
const (
	FromBusiest = "busiest" // where most requests come
	FromSpread  = "spread"  // stretches that are evenly spread over the trace, one behind the other
	FromStart   = "start"
)

// Timeline has when the requests of a trace arrive, ascending, in ns since the first. If a load ignores those times, it
// has the places of requests instead, from 0, as if one came each ns.
type Timeline []int64

// Places is the timeline of so many requests by their places.
func Places(requests int) Timeline {
	t := make(Timeline, requests)
	for i := range t {
		t[i] = int64(i)
	}
	return t
}

// Stretch is a piece of a trace, from one trace time up to another, in ns.
type Stretch struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
}

// Part is what probes measure of a trace. Times are trace times, rates those of the recorded load.
type Part struct {
	// the stretches are of places of requests, as the load ignores the trace's times
	Places     bool      `json:"places"`
	Stretches  []Stretch `json:"stretches"`
	TraceNS    int64     `json:"trace_ns"`     // duration of the whole trace
	OfMeanRate float64   `json:"of_mean_rate"` // rate of the part over the mean rate of the trace
	OfPeakRate float64   `json:"of_peak_rate"` // the same over the highest rate of a minute
	Whole      bool      `json:"whole"`        // all that stands behind the warm-in
	Even       bool      `json:"even"`         // chance explains how the rate of the trace varies
	// the shortest burst of the trace that no stretch has anything like; absent if there is none
	Missed *Burst `json:"missed_burst,omitempty"`
}

// Burst is when most requests of a trace arrive.
type Burst struct {
	LastsNS  int64 `json:"lasts_ns"`
	Requests int   `json:"requests"`
	// as many at most arrive in as long a time of what was measured
	Measured int `json:"measured"`
}

// spreadOver is of how many stretches a spread part is.
const spreadOver = 5

// Choose returns the part of a trace that a probe measures, forNS long. Before its first stretch leadNS of the trace
// are for the warm-in.
//
// If the rate of a trace varies by no more than chance, its busiest part is so by chance, too. Then each probe, by its
// number, measures another one: together they tell more of such traffic.
func (t Timeline) Choose(from string, probe int, forNS, leadNS int64) Part {
	end := t[len(t)-1] + 1
	p := Part{TraceNS: end, Even: t.even(forNS)}
	forNS = min(forNS, end-leadNS)
	switch {
	case forNS == end-leadNS:
		p.Whole = true
		p.Stretches = []Stretch{{leadNS, end}}
	case from == FromSpread && forNS >= spreadOver:
		stratum := (end - leadNS) / spreadOver
		for i := range int64(spreadOver) {
			begin := leadNS + i*stratum + (stratum-forNS/spreadOver)/2
			p.Stretches = append(p.Stretches, Stretch{begin, begin + forNS/spreadOver})
		}
	case from == FromStart, from == FromSpread:
		p.Stretches = []Stretch{{leadNS, leadNS + forNS}}
	case p.Even:
		_, place := math.Modf(float64(probe) * (math.Phi - 1))
		begin := leadNS + int64(place*float64(end-leadNS-forNS))
		p.Stretches = []Stretch{{begin, begin + forNS}}
	default:
		p.Stretches = []Stretch{t.busiest(forNS, leadNS)}
	}
	requests := 0
	var lasts int64
	for _, s := range p.Stretches {
		requests += t.count(s)
		lasts += s.ToNS - s.FromNS
	}
	rate := float64(requests) / float64(lasts)
	p.OfMeanRate = rate / (float64(len(t)) / float64(end))
	p.Missed = t.missed(p.Stretches)
	minute := min(int64(time.Minute), end)
	p.OfPeakRate = rate / (float64(t.count(t.busiest(minute, 0))) / float64(minute))
	return p
}

// count is how many requests arrive in a stretch.
func (t Timeline) count(s Stretch) int {
	return t.before(s.ToNS) - t.before(s.FromNS)
}

// before is how many requests arrive before an instant.
func (t Timeline) before(ns int64) int {
	return sort.Search(len(t), func(i int) bool {
		return t[i] >= ns
	})
}

// busiest is the stretch behind leadNS in which most requests arrive.
func (t Timeline) busiest(forNS, leadNS int64) (best Stretch) {
	end := t[len(t)-1] + 1
	most := -1
	last := t.before(leadNS)
	for i := last; i < len(t); i++ {
		from := min(t[i], end-forNS)
		s := Stretch{from, from + forNS}
		for last < len(t) && t[last] < s.ToNS {
			last++
		}
		if last-i > most {
			most = last - i
			best = s
		}
	}
	return best
}

// missed is the shortest burst that has twice as many requests as any in the stretches, and more than chance explains.
func (t Timeline) missed(stretches []Stretch) *Burst {
	const surely = 4 // standard deviations
	end := t[len(t)-1] + 1
	for _, lasts := range []time.Duration{time.Second, 10 * time.Second} {
		b := Burst{LastsNS: min(int64(lasts), end)}
		b.Requests = t.count(t.busiest(b.LastsNS, 0))
		for _, s := range stretches {
			measured := t[t.before(s.FromNS):t.before(s.ToNS)]
			if len(measured) > 0 {
				b.Measured = max(b.Measured, measured.count(measured.busiest(b.LastsNS, 0)))
			}
		}
		more := float64(b.Requests - b.Measured)
		if b.Requests >= 2*b.Measured && more > surely*math.Sqrt(float64(b.Requests)) {
			return &b
		}
	}
	return nil
}

// even reports whether the rate over stretches of forNS varies by no more than chance. How much chance varies it,
// bursts included, shows in how pieces that follow each other differ (von Neumann, 1941): slow changes do not.
func (t Timeline) even(forNS int64) bool {
	const pieces, surely = 8, 4 // of a stretch; standard deviations
	end := t[len(t)-1] + 1
	piece := max(1, forNS/pieces)
	n := int(end / piece)
	if n < pieces/2 {
		return true
	}
	differ := 0.0
	before := 0
	for i := range n {
		now := t.count(Stretch{int64(i) * piece, int64(i+1) * piece})
		if i > 0 {
			differ += float64((now - before) * (now - before))
		}
		before = now
	}
	ofPiece := differ / float64(2*(n-1)) // variance
	mean := float64(len(t)) * float64(forNS) / float64(end)
	most := float64(t.count(t.busiest(forNS, 0)))
	return most-mean <= surely*math.Sqrt(pieces*ofPiece)
}

// covered is how long the stretches of these parts are together, each instant counted once, in ns.
func covered(parts []*Part) (ns int64) {
	var all []Stretch
	for _, p := range parts {
		all = append(all, p.Stretches...)
	}
	slices.SortFunc(all, func(a, b Stretch) int {
		return cmp.Compare(a.FromNS, b.FromNS)
	})
	var end int64
	for _, s := range all {
		ns += max(0, s.ToNS-max(end, s.FromNS))
		end = max(end, s.ToNS)
	}
	return ns
}

// Take returns the requests of a probe of this part, by their places in the trace, and when each arrives in the probe.
// First come those of leadNS before the first stretch, then one stretch behind the other.
func (t Timeline) Take(p Part, leadNS int64) (source []int32, atNS []int64) {
	at := int64(0) // in the probe
	for i, s := range p.Stretches {
		if i == 0 {
			s.FromNS = max(0, s.FromNS-leadNS)
		}
		for k := t.before(s.FromNS); k < t.before(s.ToNS); k++ {
			source = append(source, int32(k))
			atNS = append(atNS, at+t[k]-s.FromNS)
		}
		at += s.ToNS - s.FromNS
	}
	return source, atNS
}

// missedWords say what of the trace was not measured that may matter; "" if nothing is known to. A part that is nil has
// none.
func (p *Part) missedWords() string {
	if p == nil || p.Missed == nil || p.Places {
		return ""
	}
	b := p.Missed
	return fmt.Sprintf("In %s of the trace %s arrive, and in no such time of the confirmation more than %s: whether "+
		"such bursts keep the objectives is not known. A larger --budget lets it measure more of the trace.",
		format.Span(float64(b.LastsNS)/1e9), format.Requests(b.Requests), format.Count(b.Measured))
}

// Words say what was measured, and what the interval stands for. A part that is nil has none.
func (p *Part) Words() string {
	switch measured := p.MeasuredWords(); {
	case p == nil:
		return ""
	case p.Places:
		return measured + " The answer is about requests like these."
	case p.Whole:
		return measured + " The answer is about this trace, and traffic like it."
	case p.Even:
		return measured +
			" The rate varies by no more than chance; the answer is about traffic like that of the trace."
	case len(p.Stretches) > 1:
		return measured + " The answer is about the trace as a whole; its busiest part may carry less."
	default:
		return measured + " The answer is about traffic like that part, not about the rest of the trace."
	}
}

// MeasuredWords say which part was measured; "" of a part that is nil.
func (p *Part) MeasuredWords() string {
	if p == nil {
		return ""
	}
	clock := func(ns int64) string {
		if p.TraceNS < int64(time.Minute) {
			return fmt.Sprintf("%.1f s", float64(ns)/1e9)
		}
		s := int64(time.Duration(ns).Round(time.Second) / time.Second)
		if p.TraceNS >= int64(time.Hour) {
			return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
		}
		return fmt.Sprintf("%d:%02d", s/60%60, s%60)
	}
	var where []string
	for _, s := range p.Stretches {
		from := clock(s.FromNS)
		to := clock(s.ToNS)
		if p.Places {
			from = format.Count(s.FromNS + 1)
			to = format.Count(s.ToNS)
		}
		if to != from {
			from += "–" + to
		}
		where = append(where, from)
	}
	if p.Places {
		return fmt.Sprintf("Measured on requests %s of %s.", strings.Join(where, ", "), format.Count(p.TraceNS))
	}
	return fmt.Sprintf("Measured on %s of %s, at %s × the mean and %s × the peak rate.", strings.Join(where, ", "),
		clock(p.TraceNS), format.Number(p.OfMeanRate, 2), format.Number(p.OfPeakRate, 2))
}
