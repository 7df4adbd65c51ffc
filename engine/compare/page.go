package compare

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// HTML writes comparisons as one page that needs nothing else: no other file, no network. What a terminal says comes
// first, then the changes as a picture and as a table, and what explains them.
func HTML(w io.Writer, results []*Result) error {
	d := chart.Document{}
	for i, r := range results {
		if i == 0 {
			side := func(id Identity) string {
				text := id.Name
				if dirs := strings.Join(id.Dirs, ", "); text != dirs {
					text += " in " + dirs
				}
				if id.Verdict != strings.ToUpper(string(metrics.Valid)) {
					text += " (" + id.Verdict + ")"
				}
				return text
			}
			d.Title = r.title("B")
			d.Under = []string{pairing(r), "A: " + side(r.A), "B: " + side(r.B)}
		}
		first := chart.Section{Findings: r.findings()}
		if len(results) > 1 {
			first.Title = r.title(r.B.Name)
		}
		bySize := r.bySize()
		if r.Scope == ScopeNone {
			bySize = shownOf(r.Metrics)
		}
		changes := chart.Section{
			Title:  "Changes",
			Graphs: forest(bySize),
			Tables: []chart.Table{r.table(bySize)},
			Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval " +
				"holds the true change in 95 % of repetitions: that of the servers if a side has several runs, else " +
				"that of these two runs. Pairs compare each request with itself. Grey is not sure, or the same.",
		}
		if r.Scope == ScopeNone {
			changes.Title = "Values of each side"
			changes.Note = ""
		}
		for _, c := range r.Explained {
			if len(c.Groups) > 0 {
				changes.Tables = append(changes.Tables, c.table())
			}
		}
		for _, part := range r.Owners {
			t := r.table(shownOf(part.Metrics))
			t.Title = part.Owner + ", " + format.Requests(part.Requests)
			changes.Tables = append(changes.Tables, t)
		}
		if first.Title != "" || len(first.Findings) > 0 {
			d.Sections = append(d.Sections, first)
		}
		d.Sections = append(d.Sections, changes, chart.Section{
			Title:  "All metrics",
			Folded: true,
			Tables: []chart.Table{r.table(r.Metrics)},
		})
	}
	return d.Write(w)
}

// findings are what changed, in the colour of the verdict, and how sure that is. Of one run a side nothing is red or
// green, since no verdict is on the servers.
func (r *Result) findings() (all []chart.Finding) {
	facts, doubts := r.said(false)
	found := chart.Finding{Lines: facts}
	told, _ := r.telling()
	told = weighty(told)
	for _, verdict := range []string{Differs, Better, Worse} { // the last one that a metric has decides
		if slices.ContainsFunc(told, func(m *Metric) bool { return m.Verdict == verdict }) {
			if found.Grade == chart.Good { // better, and worse
				verdict = Differs
			}
			found.Grade = grades()[verdict]
		}
	}
	switch {
	case r.Scope == ScopeNone:
		found.Grade = chart.Bad
		found.Word = "Different workloads: nothing below compares the servers"
	case found.Grade == "" && r.failed != [2]int64{}:
		found.Grade = chart.Warn
	}
	how := chart.Finding{Grade: chart.Warn, Word: "How sure this is"}
	if r.Scope == ScopePair {
		how.Word += ": one run a side, so other runs may differ"
	}
	for _, doubt := range doubts {
		how.Lines = append(how.Lines, format.Capitalised(strings.TrimPrefix(doubt, "note: ")))
	}
	if len(facts) > 0 {
		all = append(all, found)
	}
	if len(doubts) > 0 || r.Scope == ScopePair {
		all = append(all, how)
	}
	return all
}

// title says first what a reader would act on: failures, then a load that was too high, then the largest sure changes.
// What is large but not sure follows. What has no room is in the findings. name is that of side B.
func (r *Result) title(name string) string {
	if r.Scope == ScopeNone {
		return "A and " + name + " replayed different workloads, so nothing here compares their servers"
	}
	told, spared := r.telling()
	seen, survived := r.unsure()
	failures := r.failures(name)
	m := named(r.Metrics, errorRate)
	if failures != "" && !m.changed() {
		failures = strings.Join(format.Present(failures, m.doubted(r.outages)), ", ")
	}
	of := func(sides []string, one, both string) string {
		verb := [...]string{"", one, both}[len(sides)]
		return strings.Replace(strings.Join(sides, " and "), "B", name, 1) + verb
	}
	over := of(r.overloaded, " was overloaded", " were overloaded")
	clauses := format.Present(failures, of(r.outages, " had an outage", " had outages"), over)
	if spared = append(spared, survived...); len(spared) > 0 {
		clauses = append(clauses, inTitles(spared[:1])+" is of the requests that survived")
	}
	is := name + " is "
	if r.Scope == ScopePair {
		is = name + " was "
	}
	told = weighty(slices.DeleteFunc(told, func(t *Metric) bool { return t == m }))
	sure := len(told) > 0 || m.changed()
	say := func(how string, all []*Metric) {
		for len(all) > 0 {
			word := all[0].inWords()
			alike := func(m *Metric) bool { return m.inWords() == word }
			of := slices.DeleteFunc(slices.Clone(all), func(m *Metric) bool { return !alike(m) })
			clauses = append(clauses, is+how+word+": "+inTitles(of))
			is = ""
			all = slices.DeleteFunc(all, alike)
		}
	}
	unsure := len(seen) > 0
	say("", told)
	say("perhaps ", seen)
	if failures == "" && !sure && !unsure {
		clauses = append(clauses, format.Capitalised(r.unchanged(name)))
	} else if r.Scope == ScopePair && sure {
		clauses = append(clauses, "one run a side")
	}
	return format.Title(clauses...)
}

// weighty leaves out what is small beside the largest change, the first.
func weighty(told []*Metric) []*Metric {
	const least = 0.1
	return slices.DeleteFunc(told, func(m *Metric) bool { return m.size() < least*told[0].size() })
}

// doubted says how sure a difference of failures is that is no change; "" if the side that had more was down.
func (m *Metric) doubted(outages []string) string {
	more := "A"
	if *m.Change > 0 {
		more = "B"
	}
	switch {
	case m.Verdict == Same:
		return "the same within 1 point"
	case *m.Change == 0:
		return "no difference"
	case slices.Contains(outages, more):
		return ""
	}
	return "which may be chance"
}

// inWords is which way a number went, as a title has it.
func (m *Metric) inWords() string {
	if m.Unit != "ms" {
		return m.direction()
	}
	return map[string]string{Worse: "slower", Better: "faster"}[m.direction()]
}

// unchanged says of sides without a sure change how far the first latency that is known may differ all the same. name
// is that of side B.
func (r *Result) unchanged(name string) string {
	shown := shownOf(r.Metrics)
	same := 0
	for _, m := range shown {
		if m.Verdict == Same {
			same++
		}
	}
	alike := "A and " + name + " are the same, within " + format.Percent(r.Margin)
	if len(shown) > 0 && same == len(shown) {
		return alike
	}
	typical := func(m Metric) bool { return m.Low != nil && strings.HasSuffix(m.Name, ".paired") }
	i := slices.IndexFunc(shown, typical)
	if i < 0 {
		return format.Requests(r.Requests) + " in these runs do not tell whether " + name + " differs from A"
	}
	m := &shown[i]
	latency, _, _ := strings.Cut(Label(m.Name), " ")
	most := "up to " + m.amount(max(-*m.Low, *m.High), false)
	if *m.High > large {
		most = "an unknown amount"
	}
	words := "no difference between A and " + name + " is sure"
	if 2*same > len(shown) {
		words = fmt.Sprintf("%s, in %d of %d numbers", alike, same, len(shown))
	}
	return fmt.Sprintf("%s; a typical %s may differ by %s", words, latency, most)
}

// inTitles have changes with short names.
func inTitles(all []*Metric) string {
	var words []string
	for _, m := range all {
		latency, _, _ := strings.Cut(m.Name, ".paired")
		words = append(words, strings.TrimSpace(Label(latency))+" "+m.change())
	}
	return strings.Join(words, ", ")
}

// bySize are the main metrics: first those that changed, the largest change first, then those that did not, and at
// last what is not known.
func (r *Result) bySize() []Metric {
	out := shownOf(r.Metrics)
	slices.SortStableFunc(out, larger)
	return out
}

// shownOf are those that one screen has, too.
func shownOf(all []Metric) []Metric {
	return slices.DeleteFunc(slices.Clone(all), func(m Metric) bool { return !m.shown() })
}

// larger orders metrics by how sure a change is, and changes by their size. Failures stand before all, sure or not,
// since what fails has no latency and no tokens.
func larger(a, b Metric) int {
	rank := func(m Metric) int {
		switch {
		case m.Name == errorRate && m.Change != nil && *m.Change != 0:
			return -1
		case m.changed():
			return 0
		case m.seen():
			return 1
		}
		return 2 + slices.Index([]string{Same, Unclear, Unknown}, m.Verdict)
	}
	if order := cmp.Compare(rank(a), rank(b)); order != 0 || rank(a) > 1 {
		return order
	}
	return cmp.Compare(b.size(), a.size())
}

// seen reports whether a latency or rate at least doubled or halved without being a sure change.
func (m *Metric) seen() bool {
	few := m.brief == fewRequests && !strings.HasSuffix(m.Name, ".paired") // the largest of them decide
	return m.Unit != "share" && m.Change != nil && !m.changed() && m.size() >= math.Ln2 && !few
}

// size is how large a change is, whatever its direction: a tenth is as large as ten times as much.
func (m *Metric) size() float64 {
	if m.Unit == "share" {
		return math.Abs(*m.Change)
	}
	return math.Abs(math.Log1p(*m.Change))
}

func grades() map[string]string {
	return map[string]string{
		Worse:   chart.Bad,
		Better:  chart.Good,
		Differs: chart.Warn,
	}
}

// table has metrics. Different workloads have no change.
func (r *Result) table(shown []Metric) chart.Table {
	t := chart.Table{Head: []string{"", "A", "B", "change", "95 % interval", ""}}
	if r.Scope == ScopeNone {
		t.Head = t.Head[:3]
	}
	for _, m := range shown {
		row := chart.Texts(append(append([]string{Label(m.Name)}, m.cells()...), m.word())...)[:len(t.Head)]
		last := len(row) - 1
		row[last-1].Text = strings.ReplaceAll(row[last-1].Text, " ", "\u00a0") // an interval stays on one line
		row[last].Hint = m.Sentence
		if m.changed() && !m.ofSurvivors(shown) {
			row[last].Mark = grades()[m.Verdict]
		} else {
			for c := range row {
				row[c].Mark = chart.Quiet
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// table has the groups of requests that account for a change.
func (c *Culprits) table() chart.Table {
	t := chart.Table{
		Title: Label(c.Metric) + " by " + c.By,
		Head:  []string{c.By, "requests", "share of the change", "A", "B"},
		Note: "The share of a group is its part of the whole change; below 0 it changed the other way. A and B " +
			"are means of the group.",
	}
	for _, g := range c.Groups {
		t.Rows = append(t.Rows, chart.Texts(g.Name, format.Count(g.Requests), format.Percent(g.Share),
			format.Milliseconds(g.A), format.Milliseconds(g.B)))
	}
	return t
}

// forest draws the interval of each main metric. The axis has room for all that changed. It has room for
// twice what half of the intervals take, unless that is far beyond all changes. What is wider is cut off.
func forest(bySize []Metric) []chart.Graph {
	g := chart.Graph{
		Title: "Change of B against A, with its 95 % interval", Wide: true,
		X: chart.Axis{Unit: "ratio"},
	}
	kind := func(name, colour string) int {
		if !slices.Contains(g.Kinds, name) {
			g.Kinds = append(g.Kinds, name)
			g.Colours = append(g.Colours, colour)
		}
		return slices.Index(g.Kinds, name)
	}
	change := kind("change", "text")
	certain := func(m *Metric) int {
		switch {
		case !m.changed():
			return kind("same or not sure", "unsure")
		case m.ofSurvivors(bySize):
			return kind("sooner, but fewer were answered", "c0")
		case m.Verdict == Differs:
			return kind("worse or better (one run)", "c1")
		case m.Verdict == Better:
			return kind(Better, "good")
		}
		return kind(Worse, "bad")
	}
	drawn := slices.DeleteFunc(slices.Clone(bySize), func(m Metric) bool { return m.Low == nil })
	if len(drawn) == 0 {
		return nil
	}
	changed := 0.001
	all := []float64(nil)
	least := 0.0
	most := 0.0
	farthest := 0.5
	for _, m := range drawn {
		farthest = max(farthest, math.Abs(*m.Change))
		all = append(all, max(-*m.Low, *m.High))
		least = min(least, *m.Low)
		most = max(most, *m.High)
		if m.changed() {
			changed = max(changed, all[len(all)-1])
		}
	}
	slices.Sort(all)
	width := max(1.1*changed, 2*min(all[len(all)/2], farthest))
	g.X.From = new(max(-width, 1.05*least))
	g.X.To = new(min(width, 1.05*most))
	for _, m := range drawn {
		lane := []chart.Piece{
			{From: *m.Low, To: *m.High, Kind: certain(&m), Text: m.Sentence},
			// a point, as wide as it can be seen
			{From: *m.Change - width/500, To: *m.Change + width/500, Kind: change, Text: m.Sentence},
		}
		g.Rows = append(g.Rows, Label(m.Name)+"  "+strings.Replace(m.change(), " points", " pp", 1))
		g.Lanes = append(g.Lanes, lane)
	}
	return []chart.Graph{g}
}
