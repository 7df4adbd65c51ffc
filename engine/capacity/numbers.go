package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// The numbers of an outcome, besides the latencies of its objectives, such as ttft.p95 in ms.
const (
	GoodputPerS = "goodput_per_s" // ok requests within every limit that ended in the window, per second
	Goodput     = "goodput"       // their share of the requests
	PrefixHits  = "prefix_hits"   // share of the prompt tokens
	ErrorRate   = "error_rate"    // share of the requests
)

// failures are what limits a load if most requests beyond an objective failed.
const failures = "failures"

// Quantity is the name of the number that the objective bounds, such as ttft.p95.
func (o *Objective) Quantity() string {
	_, _, text := rows.CutOwner(o.Text)
	name, _, _, _ := verdict.ParseRequirement(text) // "" of ok>=99.9%
	return o.owner() + cmp.Or(name, ErrorRate)
}

// owner stands before words about whose requests alone the objective is about, such as "class=gold "; "" if it is about
// all.
func (o *Objective) owner() string {
	if o.Field == "" {
		return ""
	}
	return o.Field + "=" + o.Value + " "
}

// Label is what the objective is about, such as TTFT.
func (o *Objective) Label() string {
	label := failures
	if of := metrics.FindLatency(o.Metric); of >= 0 {
		label = metrics.Latencies()[of].Label
	} else if o.Metric == goodput {
		label = goodput
	}
	return o.owner() + label
}

// plain is the objective as one says it, such as: TTFT p95 < 300 ms.
func (o *Objective) plain() string {
	if o.LimitNS == 0 {
		return spaced.ReplaceAllString(o.Text, " $1 ")
	}
	name := o.Quantity()
	below := " < "
	if strings.Contains(o.Text, "<=") {
		below = " ≤ "
	}
	return o.Label() + " " + name[strings.LastIndex(name, ".")+1:] + below + o.bound()
}

// bound is the limit of a latency.
func (o *Objective) bound() string {
	ms := o.limit()
	if ms < 1000 {
		return strconv.FormatFloat(ms, 'g', 4, 64) + " ms"
	}
	return strconv.FormatFloat(ms/1000, 'g', 4, 64) + " s"
}

// part is what one instance, or one target, shows of each objective.
type part []shown

// shown are requests that an objective is about.
type shown struct {
	requests int64
	beyond   []int64 // planned instants of those beyond the limit, ns
	failed   int64   // of these, how many failed
}

// Measure reads the records of a probe that are in the window, and sets the numbers of its outcome. urls are its
// targets, as its records have them. If an objective is broken, Limiter says where that began. It names the objective
// that is the furthest from its share, or failures, if these are most of what is beyond it. It also names the first
// instance with more requests beyond the limit than its share of the whole window allows. An objective that held when
// the search looked, and is broken with what was in flight then, is unsure.
func (out *Outcome) Measure(dir string, urls []string, objectives []Objective, w Span) error {
	c := collect.NewCollector(urls)
	var n, good int64
	parts := map[string]part{}
	// in the time of the window, whenever they had been sent
	var ended, endedGood, tokens int64
	err := report.EachRecord(dir, func(r *record.Record) {
		if r.Outcome == record.OK && w.Has(r.DoneNS) {
			ended++
			tokens += r.CompletionTokens
			if isGood(r, objectives) {
				endedGood++
			}
		}
		cut := w.Has(r.PlannedNS) && r.Outcome == record.Cancelled
		if !cut && !w.Counts(r) {
			return
		}
		target := slices.Index(urls, r.Target)
		name := cmp.Or(r.Instance, fmt.Sprint("instance ", target+1))
		if parts[name] == nil {
			parts[name] = make(part, len(objectives))
		}
		if cut {
			r = undecided(metrics.OwnerOf(r), r.PlannedNS, r.SentNS, r.FirstTokenNS, r.DoneNS)
		} else {
			n++
			c.Add(r, target)
		}
		parts[name].add(r, objectives)
		if !cut && isGood(r, objectives) {
			good++
		}
	})
	if err != nil {
		return err
	}
	out.Numbers = map[string]float64{}
	if w.ForNS <= 0 { // nothing was measured: a throughput of 0 would be another thing
		return nil
	}
	seconds := float64(w.ForNS) / 1e9
	s := c.Summary(
		metrics.Summary{
			Requests: metrics.Requests{Planned: n},
			Run:      metrics.Run{DurationS: seconds},
		},
		collect.Probed{},
	)
	out.Numbers[GoodputPerS] = float64(endedGood) / seconds
	out.Numbers[requestsPerS] = float64(ended) / seconds
	out.Numbers[tokensPerS] = float64(tokens) / seconds
	if n > 0 {
		out.Numbers[Goodput] = float64(good) / float64(n)
	}
	out.setLimiter(parts, objectives)
	out.Owners = owners(s.Owners)
	out.setQuantities(s, quantities(objectives, out.Owners...))
	for name := range out.Numbers {
		_, perMille := metrics.PercentileOf(name)
		if perMille > 0 && stats.Rank(n, perMille) == n { // the largest of so few tells nothing of the server
			delete(out.Numbers, name)
		}
	}
	return nil
}

// NoteFailures takes how requests of the run failed. If none fell into the window, it says so in place of a window that
// would tell more.
func (out *Outcome) NoteFailures(s *metrics.Summary) {
	failed := s.Requests.Failures
	switch {
	case len(failed) == 0:
		return
	case len(failed) == 1:
		out.FailedBy = "all by " + failed[0].Words()
	case 2*failed[0].Count > s.Requests.Failed:
		out.FailedBy = "most by " + failed[0].Words()
	}
	if out.Measured() {
		return
	}
	ran := s.Requests.Planned - s.Requests.Stopped
	if ran == 0 || 2*s.Requests.Failed < ran {
		return
	}
	out.Client = "" // which is late where all answers come at once
	out.Limiter = failures
	if out.Verdict == Unsure && float64(s.Requests.Failed) >= nearlyAll*float64(ran) {
		out.Verdict = Breaks
	}
	out.Numbers = map[string]float64{ErrorRate: float64(s.Requests.Failed) / float64(ran)}
	said := format.Present(s.Failed(), out.FailedBy)
	out.Why = strings.Join(said, ", ") + ", and none was left for the window: see what the servers answer, in " +
		out.Directory + "."
}

// isGood reports whether a request is within every limit.
func isGood(r *record.Record, objectives []Objective) bool {
	return !slices.ContainsFunc(objectives, func(o Objective) bool { return o.Beyond(r) })
}

// add counts a request.
func (p part) add(r *record.Record, objectives []Objective) {
	for i := range objectives {
		if objectives[i].concerns(metrics.OwnerOf(r)) {
			p[i].requests++
		}
		if objectives[i].Beyond(r) {
			p[i].beyond = append(p[i].beyond, r.PlannedNS)
			if r.Outcome != record.OK {
				p[i].failed++
			}
		}
	}
}

// setLimiter sets what broke first, and the goodput of owners, which is what is not beyond.
func (out *Outcome) setLimiter(parts map[string]part, objectives []Objective) {
	most := 1.0
	all := ""    // failed
	blamed := "" // a latency, for failures
	for i, o := range objectives {
		var beyond, failed, about int64
		for _, p := range parts {
			beyond += int64(len(p[i].beyond))
			failed += p[i].failed
			about += p[i].requests
		}
		share := float64(beyond) / float64(max(1, about))
		if o.Metric == goodput && o.Field != "" {
			out.Numbers[o.Quantity()] = 1 - share
		}
		over := share / o.Allowed
		if over > most {
			most = over
			what := o.Label()
			if 2*failed > beyond {
				what = o.owner() + failures
			}
			blamed = ""
			switch {
			case failed > 0 && 100*failed >= 99*about:
				all = format.Count(failed) + " of " + format.Many(about, "request") + " failed. "
			case 2*failed > beyond && o.Metric != ok:
				blamed = " Most of those failed."
			}
			out.Limiter = what + first(parts, i, o.Allowed)
		}
	}
	out.Why = all + out.Why + blamed
	if out.Verdict == Holds && out.Limiter != "" {
		out.Verdict = Unsure
		out.Why += " What was in flight then broke it."
	}
}

// setQuantities sets those numbers that a summary has, and their intervals.
func (out *Outcome) setQuantities(s *metrics.Summary, names []string) {
	out.Intervals = map[string][2]float64{}
	for _, name := range names {
		if _, known := out.Numbers[name]; known {
			continue
		}
		if v := verdict.Value(s, name); v != nil {
			out.Numbers[name] = *v
		}
		if ms, _ := s.Interval(metrics.PercentileOf(name)); ms != nil {
			out.Intervals[name] = *ms
		}
	}
}

// mostOwners is of how many owners a probe has numbers.
const mostOwners = 8

// owners are the names of the largest parts by the most telling field that rows have.
func owners(all *metrics.Owners) (names []string) {
	for field, by := range all.Each {
		parts := slices.Clone(by.Parts)
		slices.SortStableFunc(parts, func(a, b metrics.Part) int { return cmp.Compare(b.Requests, a.Requests) })
		for _, part := range parts[:min(len(parts), mostOwners)] {
			names = append(names, field+"="+part.Name)
		}
		break
	}
	return names
}

// ownedMeasures are the numbers of each owner, in the order of a table.
func ownedMeasures() []string {
	return []string{"ttft.p95", "tpot.p95", "e2e.p95", ErrorRate, PrefixHits}
}

// quantities are the names of the numbers that every probe has, of those that objectives bound, and of the owners'.
func quantities(objectives []Objective, owners ...string) []string {
	names := []string{GoodputPerS, Goodput}
	for _, m := range measures() {
		names = append(names, m.name)
	}
	for i := range objectives {
		name := objectives[i].Quantity()
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, owner := range owners {
		for _, name := range ownedMeasures() {
			if name = owner + " " + name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// first names the part that is the first to have more requests beyond objective i than are allowed; "" if there is one
// part.
func first(parts map[string]part, i int, allowed float64) (which string) {
	earliest := int64(math.MaxInt64)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name][i]
		slices.Sort(p.beyond)
		most := int(allowed * float64(p.requests))
		if len(parts) > 1 && most < len(p.beyond) && p.beyond[most] < earliest {
			earliest = p.beyond[most]
			which = " on " + name
		}
	}
	return which
}
