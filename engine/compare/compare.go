package compare

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Schema is the version of a Result as JSON.
const Schema = 1

// estimated is where a floor is from if no pair of runs gives one.
const estimated = "estimated"

// Compare says what changed from a to b. If a side has a second run, the noise floor is from its runs, else it is
// estimated. It is an error if the workloads differ, unless distributions are to be compared anyway, without pairs.
//
// An interval is the 95 % reach (Student's t) by ten parts of the run, one after another, each of which gives a
// change, or by ten groups of whole conversations if that is wider. An estimated floor is that reach. It contains no
// noise that lasts as long as a run.
//
// A floor from runs of the same side is the 95 % reach of the mean square of their changes and of two more, which are
// as large as the noise within these runs. It is divided by the root of the runs that each of a and b has. Either
// floor reaches as far as lateness of the client may have moved the number in a or b, by the verdicts of their runs.
//
// The manual has what TestComparePower in bench measured of all this.
func Compare(a, b *Side, anyway bool) (*Result, error) {
	different, sure := differences(a.runs[0], b.runs[0])
	r := &Result{
		Schema:    Schema,
		A:         a.identity(b),
		B:         b.identity(a),
		Paired:    len(different) == 0,
		FloorFrom: estimated,
	}
	switch what := strings.Join(different, "; "); {
	case !r.Paired && !anyway:
		return nil, fmt.Errorf(
			"%s and %s were sent different workloads (%s); replay the same one, or compare distributions alone "+
				"with --anyway",
			strings.Join(r.A.Dirs, ", "), strings.Join(r.B.Dirs, ", "), what,
		)
	case !r.Paired:
		r.note("the workloads differ, so distributions alone are compared, and nobody knows what is noise: %s", what)
	case !sure:
		r.note("a run has no fingerprint, so its workload is taken to be the other's, since all that is known of " +
			"both agrees")
	}
	m := match(a.runs, b.runs, r.Paired)
	r.noteUnpaired(m)
	if len(m.good[0]) == 0 || len(m.good[1]) == 0 {
		return nil, fmt.Errorf("%s and %s have no request in common that ended ok in both", r.A.Name, r.B.Name)
	}
	r.Requests = int64(min(len(m.good[0]), len(m.good[1])))
	r.Metrics = m.measure()
	hideTwins(r.Metrics)
	var noise [][]Metric
	var from []string
	for _, s := range []*Side{a, b} {
		if len(s.runs) > 1 {
			noise = append(noise, match(s.runs[:1], s.runs[1:2], true).measure())
			from = append(from, s.runs[0].dir+" - "+s.runs[1].dir)
			r.FloorFrom = strings.Join(from, ", ")
		}
	}
	moved := map[string]float64{} // ms by which the client may have moved a number
	// those that are compared, without a run for the floor alone
	for _, run := range slices.Concat(m.runs[0], m.runs[1]) {
		for _, u := range run.summary.Verdict.Unsafe {
			name := u.Metric + "." + u.Percentile
			moved[name] = max(moved[name], u.EffectMS)
		}
	}
	for i, s := range specs() {
		metric := &r.Metrics[i]
		if len(noise) > 0 {
			metric.Floor = pooled(noise, i, min(len(a.runs), len(b.runs)))
		}
		of := metric
		if strings.HasSuffix(s.name, ".paired") { // of most pairs, the median says more than the tail
			of = &r.Metrics[i-kindsOf+1]
		}
		if most := moved[strings.Replace(of.Name, "_planned", "", 1)]; of.A != nil &&
			metric.Floor != nil && most / *of.A > *metric.Floor {
			metric.Floor = new(most / *of.A)
			metric.FloorFrom = "the client"
		}
		metric.judge(s, r.Paired)
	}
	if r.Paired {
		r.Explained = m.explain(r.Metrics)
	}
	return r, nil
}

// hideTwins leaves out of one screen what is as in the latency that another mostly equals, such as TTFO of answers
// without reasoning.
func hideTwins(all []Metric) {
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
		m.Main = twin < 0 ||
			!reflect.DeepEqual([]*float64{m.A, m.B, m.Change}, []*float64{all[twin].A, all[twin].B, all[twin].Change})
	}
}

func (r *Result) note(form string, parts ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(form, parts...))
}

// ownPairs is how many pairs of runs that differ by the noise within them alone the floor assumes, since one pair
// says little.
const ownPairs = 2

// pooled is the floor of a metric by pairs of runs without a change, for sides of so many runs; nil if no pair has
// the metric.
func pooled(noise [][]Metric, i, runs int) *float64 {
	squares := 0.0
	within := 0.0
	pairs := 0
	for _, metrics := range noise {
		if m := metrics[i]; m.Floor != nil {
			deviation := *m.Floor / student95(parts-2)
			squares += *m.Change * *m.Change
			within += deviation * deviation
			pairs++
		}
	}
	if pairs == 0 {
		return nil
	}
	all := float64(pairs + ownPairs)
	return new(student95(pairs+ownPairs) * math.Sqrt((ownPairs*within/float64(pairs)+squares)/all/float64(runs)))
}

// noteUnpaired says which requests latencies leave out, and whose runs cannot be used.
func (r *Result) noteUnpaired(m *matched) {
	for side, name := range []string{"A", "B"} {
		if n := m.onlyOne[side]; n > 0 {
			r.note("%s ended ok in %s alone: latencies leave them out, and error_rate counts them",
				format.Many(n, "request"), name)
		}
	}
	if m.lone > 0 {
		r.note(
			"%s were answered in one side alone, since a run was stopped: only what both sides have is compared",
			format.Many(m.lone, "request"),
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
