package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Part is what changed of the requests of one tenant, model, class or priority.
type Part struct {
	Owner    string   `json:"owner"`    // such as class=gold
	Requests int64    `json:"requests"` // that are ok in all runs
	Metrics  []Metric `json:"metrics"`  // as those of all requests
	// what those that a side was sent without cost these, or that nobody knows; absent if both sides have all requests
	Cost string `json:"cost,omitempty"`
}

// mostParts bounds those of each field, which take as long together as all requests.
const mostParts = 32

// compareOwners adds what changed of each owner's requests. If all are one owner's by a field, it adds nothing, since
// what changed of all is that owner's. The exception is a side that was sent without others of that field.
func (r *Result) compareOwners(a, b *Side) {
	left := a.runs[0].without()
	ofA := true
	if left == "" {
		left = b.runs[0].without()
		ofA = false
	}
	if a.runs[0].without() == b.runs[0].without() {
		left = ""
	}
	leftField, leftValue, _ := strings.Cut(left, "=")
	for _, field := range rows.OwnerFields() {
		names := owners(a.runs[0].rows, field)
		others := func(run *run) bool {
			return slices.ContainsFunc(run.rows, func(w *row) bool { return w.owner.Value().Value(field) != names[0] })
		}
		switch {
		case len(names) == 0:
			continue
		case len(names) == 1 && field != leftField && !slices.ContainsFunc(slices.Concat(a.runs, b.runs), others):
			r.ofAll = append(r.ofAll, field+"="+names[0])
			continue
		}
		if len(names) > mostParts {
			r.note("of %d values of %s the %d with the most requests are compared", len(names), field, mostParts)
			for _, name := range names[mostParts:] {
				r.leftOut = append(r.leftOut, field+"="+name)
			}
		}
		for _, name := range names[:min(len(names), mostParts)] {
			of := func(side *Side) (runs []*run) {
				for _, run := range side.runs {
					part := *run
					part.rows = keep(run.rows, func(w *row) bool { return w.owner.Value().Value(field) == name })
					runs = append(runs, &part)
				}
				return runs
			}
			m := match(of(a), of(b), r.Paired)
			part := &Result{Scope: r.Scope, A: r.A, B: r.B, Margin: r.Margin, separate: r.separate,
				Requests: int64(len(m.samples[0].good))}
			part.Metrics = m.metrics(part)
			p := Part{Owner: field + "=" + name, Requests: part.Requests, Metrics: part.Metrics}
			if field == leftField && name != leftValue {
				p.Cost = part.cost(leftValue, name, ofA, r.otherwise)
			}
			r.Owners = append(r.Owners, p)
		}
	}
}

// owners are the values of a field, those with the most requests first.
func owners(all []*row, field string) (names []string) {
	requests := map[string]int{}
	for _, w := range all {
		if name := w.owner.Value().Value(field); name != "" {
			if requests[name]++; requests[name] == 1 {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(requests[y], requests[x]), cmp.Compare(x, y))
	})
	return names
}

// costed is the latency by which people say what some requests cost others.
const costed = "ttft.p95"

// cost says what requests that one side was sent without cost those of an owner. r is the comparison of these. A single
// run of a side does not tell, nor do latencies that failed requests may have had. Nor do sides that differ otherwise.
func (r *Result) cost(others, name string, ofA bool, otherwise string) string {
	m := named(r.Metrics, costed)
	failed := moreFailed(r.Metrics) // of those that had the others beside them
	if !ofA {
		m = m.inverse(r)
		failed = -failed
	}
	unknown := fmt.Sprintf("what %s cost %s in %s is not known: ", others, name, Label(costed))
	switch {
	case otherwise != "":
		return unknown + otherwise
	case m.Low == nil:
		return unknown + cmp.Or(m.why, m.Sentence)
	case m.Verdict == Unknown:
		return unknown + m.Sentence
	}
	changed := m.change() + " " + m.ends()
	switch {
	case r.Scope != ScopeServers:
		return unknown + "it changed by " + changed + " from one run to the other" + r.unknownSpread()
	case r.separate && m.Verdict != Unclear:
		return unknown + "it changed by " + changed + ", and the sides were run one behind the other; runs by turns " +
			"would tell"
	case m.Verdict == Worse && verdict.FailuresHide(m.Name, -failed),
		m.Verdict != Worse && verdict.FailuresHide(m.Name, failed):
		return unknown + changed + ", and more of its requests failed in one side (error_rate)"
	case m.Verdict == Same:
		return fmt.Sprintf("%s costs %s no %s: within ±%g %% %s", others, name, Label(costed), 100*r.Margin, m.ends())
	case m.Verdict == Unclear:
		return fmt.Sprintf("no cost of %s to %s is seen in %s: %s %s",
			others, name, Label(costed), m.ends(), m.sign(m.times()))
	}
	return fmt.Sprintf("%s costs %s %s %s %s", others, name, m.change(), Label(costed), m.ends())
}

// differOtherwise says in what sides differ of which one was sent without some requests, but for these.
func differOtherwise(a, b *Side) string {
	var servers []string
	for _, run := range slices.Concat(a.runs, b.runs) {
		made := &run.summary.Run
		servers = append(servers, strings.Join(made.Targets, ", "))
		switch last := servers[len(servers)-1]; {
		case last != servers[0]:
			return fmt.Sprintf("the runs went to different servers, %s and %s", servers[0], last)
		case made.Concurrency+made.Lanes > 0:
			return "in a closed loop those that remain take the places of the others; the trace's times would tell"
		}
	}
	return ""
}

// inverse is the change from B to A.
func (m *Metric) inverse(r *Result) *Metric {
	of := func(change *float64) *float64 {
		if change == nil {
			return nil
		}
		return new(1/(1+*change) - 1)
	}
	out := &Metric{Name: m.Name, Unit: m.Unit, A: m.B, B: m.A, Change: of(m.Change), Low: of(m.High), High: of(m.Low),
		why: m.why}
	out.judge(spec{label: Label(m.Name)}, r)
	return out
}

// ofOwner are the metrics of one owner, or of all for "". They are nil if it was not compared.
func (r *Result) ofOwner(owner string) []Metric {
	if owner == "" || slices.Contains(r.ofAll, owner) {
		return r.Metrics
	}
	for _, part := range r.Owners {
		if part.Owner == owner {
			return part.Metrics
		}
	}
	return nil
}

// cutOwner takes the owner off the name of a metric, such as "class=gold ttft.p95"; "" if it is of all requests.
func cutOwner(text string) (owner, name string) {
	field, value, name := rows.CutOwner(text)
	if field == "" {
		return "", text
	}
	return field + "=" + value, name
}
