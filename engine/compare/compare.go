package compare

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Schema is the version of a Result as JSON.
const Schema = 2

// sameWithin is the margin of the verdict same: 1 %, or 1 percentage point of a share.
const sameWithin = 0.01

// Compare says what changed from a to b. It is an error if the workloads differ, unless distributions are to be
// compared anyway, without pairs, or if a run is given twice.
//
// If a side has several runs, an interval is by Welch's t over the runs, so it contains what differs from run to run.
// If one side was run after the other, it allows for an even drift. Of one run a side it is that of within. If a side
// has one run, what is said holds for these runs alone. Either is wider by what lateness of the client may have moved
// the number in a or b, by the verdicts of their runs.
//
// The manual has what TestWorlds measured of all this.
func Compare(a, b *Side, anyway bool) (*Result, error) {
	like := slices.IndexFunc(b.runs, func(r *run) bool {
		return r.summary.Workload.Fingerprint == a.runs[0].summary.Workload.Fingerprint
	})
	different, sure := differences(a.runs[0], b.runs[max(0, like)])
	if len(different) == 0 && seedsDiffer(a, b) {
		different = []string{"--seed: one side has runs of seeds that the other has not"}
	}
	r := &Result{
		Schema: Schema,
		A:      a.identity(b),
		B:      b.identity(a),
		Paired: len(different) == 0,
		Scope:  ScopeServers,
		Margin: sameWithin,
		bounds: a.SLOs,
	}
	runs := slices.Concat(a.runs, b.runs)
	if len(a.runs) == 1 || len(b.runs) == 1 {
		r.Scope = ScopePair // a single run tells nothing of how far runs of its side differ
	}
	what := strings.Join(different, "; ")
	switch {
	case !r.Paired && !anyway:
		return nil, fmt.Errorf(
			"%s and %s were sent different workloads (%s); replay the same one, or compare distributions alone "+
				"with --anyway",
			strings.Join(r.A.Dirs, ", "), strings.Join(r.B.Dirs, ", "), what,
		)
	case !r.Paired:
		r.Scope = ScopeNone
		r.note("the workloads differ, so distributions alone are compared, and nobody knows what is noise: %s", what)
	case !sure:
		r.note("a run has no fingerprint, so its workload is taken to be the other's, since all that is known of " +
			"both agrees")
	}
	for i, run := range runs {
		for _, other := range runs[:i] {
			if run.same(other) {
				return nil, fmt.Errorf("%s and %s are the same run, which says nothing of how far runs differ; "+
					"give another run", other.dir, run.dir)
			}
		}
	}
	for _, slo := range a.SLOs {
		of := func(w *row) bool { return w.owner.Value().Value(slo.Field) == slo.Value }
		has := func(run *run) bool { return slices.ContainsFunc(run.rows, of) }
		if slo.Field != "" && !slices.ContainsFunc(runs, has) {
			return nil, fmt.Errorf("--goodput %q: no request of any run is of that %s", slo.Name(), slo.Field)
		}
	}
	r.pairParts(a, b)
	m := match(a.runs, b.runs, r.Paired)
	r.noteUnpaired(m)
	r.noteMixed("A", a)
	r.noteMixed("B", b)
	r.noteOverload("A", a)
	r.noteOverload("B", b)
	if r.Paired && !r.ofRecord() {
		r.noteFlags(runs)
	}
	starts := m.starts()
	if r.Scope == ScopeServers && isSeparate(starts) {
		r.separate = true
		how := "the sides were run one behind the other"
		if !m.dated() {
			how = "a run does not say when it began, so the sides count as run one behind the other"
		}
		r.note("%s: whatever changed meanwhile looks like a change of the server. Intervals of four runs or more "+
			"allow for an even drift from run to run, and for nothing else: runs by turns (--interleave) would "+
			"tell", how)
	}
	r.Requests = math.MaxInt64
	for _, s := range m.samples {
		r.Requests = min(r.Requests, int64(len(s.good)))
	}
	if r.Requests == 0 {
		return nil, fmt.Errorf("no request of %s and %s ended ok in both: %d in A alone, %d in B alone, of %d",
			r.A.Name, r.B.Name, m.onlyOne[0], m.onlyOne[1], len(m.samples[0].all))
	}
	r.Metrics = m.metrics(r)
	ofStreams := func(m Metric) bool { return strings.HasPrefix(m.Name, "ttft.") && m.Change != nil }
	if !r.ofRecord() && !slices.ContainsFunc(r.Metrics, ofStreams) {
		r.note("the answers of a side came whole, not as streams, so there is no TTFT, TPOT or ITL to compare")
	}
	if lengths := otherLengths(r.Metrics); lengths != "" {
		named(r.Metrics, outputTokens).Main = true
		r.note("%s: E2E and NTPOT are of other work, and decide no gate", lengths)
	}
	r.compareOwners(a, b)
	r.compareActions(a, b)
	if r.Paired {
		r.Explained = m.explain(r.Metrics)
	}
	return r, nil
}

// metrics are all numbers of what matches, by the scope of r. A record has answers alone, and no failures.
func (m *matched) metrics(r *Result) (all []Metric) {
	moved := [2]map[string]float64{{}, {}} // ms by which the client may have moved a number of a side
	for side, samples := range m.sides {
		for _, s := range samples {
			for _, u := range s.summary.Verdict.Unsafe {
				name := u.Metric + "." + u.Percentile
				moved[side][name] = max(moved[side][name], u.EffectMS)
			}
			r.counted[side] += int64(len(s.all))
			r.failed[side] += int64(len(keep(s.all, func(w *row) bool { return !w.ok })))
		}
	}
	estimates := m.estimates()
	for i, s := range specs() {
		of := i
		if strings.HasSuffix(s.name, ".paired") { // of most pairs, the median says more than the tail
			of = i - kindsOf + 1
		}
		e := estimates[i]
		if r.ofRecord() {
			e.why = strings.TrimSuffix(e.why, orRuns)
		}
		late := false
		for side := range moved {
			most := moved[side][strings.Replace(specs()[of].name, "_planned", "", 1)]
			value := s.mean(m.sides[side], of)
			switch {
			case most == 0 || !finite(value):
				continue
			case most >= value:
				e = e.unknown("client was late", "lateness of the client may have made all of it")
			default:
				e.reach -= math.Log1p(-most / value)
			}
			late = true
		}
		b := s.mean(m.sides[1], i)
		metric := s.metric(e, s.mean(m.sides[0], i), b)
		if s.all && r.ofRecord() && finite(b) { // what failed that day is not known
			metric = Metric{Name: s.name, Unit: s.unit, Main: s.main, B: &b}
		}
		metric.Client = late
		atLeast := 1 - s.quantile // of so few requests a percentile is their largest
		metric.Main = s.main && float64(r.Requests)*atLeast >= 1
		metric.judge(s, r)
		if metric.Name == errorRate && metric.A != nil && r.failed != [2]int64{} {
			metric.Sentence = r.failures("B") + "; " + metric.Sentence
		}
		all = append(all, metric)
	}
	hideTwins(all)
	return all
}

// scaled are the numbers of several runs on the scale.
func (s *spec) scaled(runs []*sample, at int) (all []float64) {
	for _, run := range runs {
		all = append(all, s.scale(run.numbers[at]))
	}
	return all
}

// mean is the number of several runs.
func (s *spec) mean(runs []*sample, at int) float64 {
	mean, _ := stats.Moments(s.scaled(runs, at))
	return s.value(mean)
}

// metric is an estimate as a result has it.
func (s *spec) metric(e estimate, a, b float64) Metric {
	m := Metric{
		Name: s.name,
		Unit: s.unit,
		Main: s.main,

		why:   e.why,
		brief: e.brief,
	}
	change := s.changeOf(e.distance)
	known := finite(e.distance) && finite(change)
	if (known || a == 0 || b == 0) && finite(a) && finite(b) && !strings.HasSuffix(s.name, ".paired") {
		m.A = &a
		m.B = &b
	}
	if !known {
		return m
	}
	m.Change = &change
	if finite(e.reach) {
		m.Low = new(s.changeOf(e.distance - e.reach))
		m.High = new(s.changeOf(e.distance + e.reach))
		if s.unit == "share" { // which is from 0 to 1
			m.Low = new(max(-1, *m.Low))
			m.High = new(min(1, *m.High))
		}
	}
	if finite(e.floor) {
		m.Floor = new(s.changeOf(e.floor))
	}
	return m
}

// hideTwins leaves out of one screen what is as in the latency that another mostly equals, such as TTFO of answers
// without reasoning.
func hideTwins(all []Metric) {
	numbers := func(m *Metric) []*float64 {
		return []*float64{m.A, m.B, m.Change}
	}
	for i := range all {
		m := &all[i]
		key, number, _ := strings.Cut(m.Name, ".")
		of := metrics.FindLatency(key)
		if !m.Main || of < 0 {
			continue
		}
		twin := slices.IndexFunc(all, func(t Metric) bool {
			return t.Name == metrics.Latencies()[of].Twin+"."+number
		})
		m.Main = twin < 0 || !reflect.DeepEqual(numbers(m), numbers(&all[twin]))
	}
}

// noteMixed names a side whose runs went to different servers, such as one that got a run of the other side. It also
// names a run that several models answered, or another than was asked for, or whose tokens nobody knows.
func (r *Result) noteMixed(name string, s *Side) {
	mixed := func(of *run) bool {
		return len(of.summary.AnswerModels) > 0
	}
	if slices.ContainsFunc(s.runs, mixed) {
		r.note("%s has a run in which answers name several models, so its numbers mix them", name)
	}
	for _, run := range s.runs {
		notes := run.summary.Notes
		i := slices.Index(run.summary.NoteCodes, "other_model")
		if i >= 0 && i < len(notes) {
			r.note("%s has a run in which %s", name, notes[i])
			break
		}
	}
	for _, run := range s.runs {
		reasons := run.summary.Verdict.Reasons
		i := slices.IndexFunc(reasons, func(reason metrics.Reason) bool { return reason.Code.Shifts("tpot") != 0 })
		if i >= 0 {
			r.shift = &reasons[i]
			r.note("%s has a run in which %s", name, r.shift.What)
			break
		}
	}
	first := strings.Join(s.runs[0].summary.Run.Targets, ", ")
	for _, other := range s.runs[1:] {
		if urls := strings.Join(other.summary.Run.Targets, ", "); urls != first {
			r.note("the runs of %s went to different servers, %s and %s: is each directory on its side of --?",
				name, first, urls)
			return
		}
	}
}

// noteOverload names a side whose servers could not carry the load: its latencies are those of a queue that grows. It
// names one that had an outage, too.
func (r *Result) noteOverload(name string, s *Side) {
	for _, run := range s.runs {
		if len(run.summary.Outages) > 0 {
			if !slices.Contains(r.outages, name) {
				r.outages = append(r.outages, name)
			}
			r.note("%s has a run in which %s", name, run.summary.Outages[0].Words())
		}
		i := slices.IndexFunc(run.summary.Trends, func(t metrics.Trend) bool { return t.Overload })
		if i >= 0 {
			r.overloaded = append(r.overloaded, name)
			r.note("%s has a run in which %s", name, run.summary.Trends[i].Words())
			return
		}
	}
}

// noteFlags names a run whose flags may be what changed, though they do not change what is sent and when. No gate is
// decided between caches that were emptied or warmed in different ways: a warm one makes a worse server look better.
func (r *Result) noteFlags(runs []*run) {
	for _, flag := range strings.Fields("cold warmup route timeout idle-timeout resend") {
		given := func(of *run) any {
			return cmp.Or(of.summary.Run.Options[flag], any("not given"))
		}
		first := given(runs[0])
		for _, other := range runs[1:] {
			if second := given(other); second != first {
				r.note("--%s is %v in %s, and %v in %s, which may be what changed, and not the server",
					flag, first, runs[0].dir, second, other.dir)
				if flag == "cold" || flag == "warmup" {
					r.unlikeCaches = "--" + flag
				}
				break
			}
		}
	}
}

func (r *Result) note(form string, parts ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(form, parts...))
}

// pairParts pairs the requests of a side that left some out with those of the other.
func (r *Result) pairParts(a, b *Side) {
	for name, sides := range map[string][2]*Side{"A": {a, b}, "B": {b, a}} {
		part := sides[0]
		whole := sides[1]
		left := part.runs[0].without()
		if left == "" || whole.runs[0].without() != "" || !r.Paired {
			continue
		}
		for _, run := range part.runs {
			run.pairWith(whole.runs[0])
		}
		costs := ": the difference of the others is what " + left + " costs them"
		if r.otherwise = differOtherwise(a, b); r.otherwise != "" {
			costs = ", and what that costs the others is not known: " + r.otherwise
		}
		r.note("%s was sent without %s%s", name, left, costs)
	}
}

// noteUnpaired says which requests latencies leave out, and whose runs cannot be used.
func (r *Result) noteUnpaired(m *matched) {
	for side, other := range []string{"B", "A"} {
		n := m.onlyOne[side]
		where := other + " alone"
		if r.Scope == ScopeServers {
			where = "a run of " + other + ", and in none of the other side"
		}
		if n > 0 {
			r.note("%s failed in %s: latencies leave them out, and the error rate counts them",
				format.Requests(n), where)
		}
	}
	if m.lone > 0 {
		r.note(
			"%s were not answered in all runs, or not recorded: only what all have is compared",
			format.Requests(m.lone),
		)
	}
	for _, id := range []Identity{r.A, r.B} {
		if id.Verdict == strings.ToUpper(string(metrics.Invalid)) {
			r.note(
				"%s has a run whose measurement is INVALID: its own report says why, and how far this comparison "+
					"can be used",
				id.Name,
			)
		}
	}
}
