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
		title := r.title(r.B.Name)
		said := chart.Finding{Lines: r.said(false)}
		if i == 0 {
			side := func(id Identity) string {
				names := append([]string{id.Name}, id.Dirs...) // a single run may have its directory's
				name := strings.Join(slices.Compact(names), ", ")
				if id.Verdict == strings.ToUpper(string(metrics.Valid)) {
					return name
				}
				return name + " (" + id.Verdict + ")"
			}
			d.Title = strings.NewReplacer(" %", "\u00a0%", " ×", "\u00a0×").Replace(r.title("B")) // in one line
			d.Under = []string{pairing(r), "A: " + side(r.A), "B: " + side(r.B)}
		}
		if len(results) == 1 {
			title = ""
		}
		told, _ := r.telling()
		for _, verdict := range []string{Differs, Better, Worse} { // the last one that a metric has decides
			if slices.ContainsFunc(told, func(m *Metric) bool { return m.Verdict == verdict }) {
				if said.Grade == chart.Good { // better, and worse
					verdict = Differs
				}
				said.Grade = grades()[verdict]
			}
		}
		switch {
		case r.Scope == ScopeNone:
			said.Grade = chart.Bad
			said.Word = "Different workloads: nothing below compares the servers"
		case named(r.Metrics, errorRate).Verdict == Differs && r.failed[1] > r.failed[0]:
			said.Grade = chart.Bad
		case said.Grade == "" && r.failed != [2]int64{}:
			said.Grade = chart.Warn
		}
		bySize := r.bySize()
		changes := chart.Section{
			Title:  "Changes",
			Graphs: forest(bySize),
			Tables: []chart.Table{metricTable(bySize)},
			Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval " +
				"holds the true change in 95 % of repetitions: that of the servers if a side has several runs, else " +
				"that of these two runs. The floor is how far two single runs of one side may differ: several " +
				"runs a side tell smaller changes. " +
				"Pairs compare each request with itself. What is grey is not sure.",
		}
		for _, c := range r.Explained {
			if len(c.Groups) > 0 {
				changes.Tables = append(changes.Tables, c.table())
			}
		}
		for _, part := range r.Owners {
			t := metricTable(shownOf(part.Metrics))
			t.Title = part.Owner + ", " + format.Requests(part.Requests)
			changes.Tables = append(changes.Tables, t)
		}
		first := chart.Section{Title: title}
		if len(said.Lines) > 0 {
			first.Findings = []chart.Finding{said}
		}
		if title != "" || len(first.Findings) > 0 {
			d.Sections = append(d.Sections, first)
		}
		d.Sections = append(d.Sections, changes, chart.Section{
			Title:  "All metrics",
			Folded: true,
			Tables: []chart.Table{metricTable(r.Metrics)},
		})
	}
	return d.Write(w)
}

// title says what changed: a load that was too high and failures first, then the largest sure change; better and worse
// stand apart. What is large but not sure stands behind. name is that of side B.
func (r *Result) title(name string) string {
	if r.Scope == ScopeNone {
		return name + " and A were sent different workloads, so their servers cannot be compared"
	}
	told, _ := r.telling()
	changes := map[string][]string{}
	var groups []string
	for _, m := range told {
		what := m.inTitle()
		if m.Name == errorRate {
			what = fmt.Sprintf("%s failed, %s in A", r.failedOf(1), r.failedOf(0))
		}
		word := m.direction()
		if m.Unit == "ms" {
			word = map[string]string{Worse: "slower", Better: "faster"}[word]
		}
		if changes[word] == nil {
			groups = append(groups, word)
		}
		changes[word] = append(changes[word], what)
	}
	for i, word := range groups {
		groups[i] = word + ": " + strings.Join(changes[word], "; ")
	}
	is := " is "
	if r.Scope == ScopePair {
		is = " was "
	}
	title := name + is + strings.Join(groups, " · ")
	failures := r.failures(name)
	m := named(r.Metrics, errorRate)
	switch {
	case len(told) == 0 && failures == "":
		short, _, _ := strings.Cut(r.unchanged(), ";")
		title = short
		if len(r.overloaded) == 0 {
			title = name + " against A: " + short
		}
	case failures == "" || m.changed():
	case len(told) == 0:
		title = failures + ": " + m.doubted()
	default:
		title = failures + ": " + m.doubted() + " · " + title
	}
	if len(r.overloaded) > 0 {
		title = "The load was too high for " + strings.Join(r.overloaded, " and ") + " · " + title
	}
	if seen := r.unsure(); len(seen) > 0 {
		title += " · seen but not sure: " + inTitles(seen)
	}
	if r.Scope == ScopePair && len(told) > 0 {
		title += " · one run a side, so other runs may differ"
	}
	return title
}

// doubted says how sure a difference is that is no change.
func (m *Metric) doubted() string {
	switch {
	case m.Verdict == Same:
		return "the same within 1 point"
	case *m.Change == 0:
		return "no difference"
	case m.Verdict == Unclear:
		return "that may be chance"
	}
	return "whether that is chance is not known"
}

// inTitles have changes with short names.
func inTitles(all []*Metric) string {
	var words []string
	for _, m := range all {
		words = append(words, m.inTitle())
	}
	return strings.Join(words, ", ")
}

// inTitle has a change with a short name.
func (m *Metric) inTitle() string {
	latency, _, _ := strings.Cut(m.Name, ".paired")
	return strings.TrimSpace(Label(latency)) + " " + m.change()
}

// unchanged says how large a change the noise may hide if none is sure. It says so of the number that is known best,
// and of the one that is known worst.
func (r *Result) unchanged() string {
	shown := r.bySize()
	open := 0
	unknown := 0
	var least, most *Metric
	hidden := func(m *Metric) float64 { return max(-*m.Low, *m.High) }
	for i := range shown {
		m := &shown[i]
		switch {
		case m.Verdict == Same:
			continue
		case m.Verdict == Unknown:
			unknown++
		case least == nil:
			least = m
			most = m
		case hidden(m) < hidden(least):
			least = m
		case hidden(m) > hidden(most):
			most = m
		}
		open++
	}
	words := "no change is sure"
	switch {
	case open == 0:
		return "all numbers are the same, within their margins"
	case unknown == len(shown):
		return format.Requests(r.Requests) + " in these runs do not tell whether any number changed"
	case least != nil:
		words += "; noise may hide one of up to " + least.amount(hidden(least), false) + " (" + Label(least.Name) + ")"
		if most != least {
			words += " or even " + most.amount(hidden(most), false) + " (" + Label(most.Name) + ")"
		}
	}
	if unknown > 0 {
		words += fmt.Sprintf("; nothing is known of %d of %d numbers", unknown, len(shown))
	}
	return words
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

// larger orders metrics by how sure a change is, and changes by their size. Failures stand before all, since what
// fails has no latency and no tokens.
func larger(a, b Metric) int {
	rank := func(m Metric) int {
		switch {
		case m.changed() && m.Name == errorRate:
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
	return m.Unit != "share" && m.Change != nil && !m.changed() && m.size() >= math.Ln2
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

func metricTable(shown []Metric) chart.Table {
	t := chart.Table{Head: []string{"", "A", "B", "change", "95 % interval", "floor", ""}}
	for _, m := range shown {
		row := chart.Texts(append(append([]string{Label(m.Name)}, m.cells()...), m.word())...)
		last := len(row) - 1
		row[last-2].Text = strings.ReplaceAll(row[last-2].Text, ", ", ",\u00a0") // an interval stays on one line
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

// forest draws the interval of each main metric over its floor. The axis has room for all that changed. It has room for
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
			return kind("worse or better in these runs", "c1")
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
		floor := 0.0
		if m.Floor != nil {
			floor = *m.Floor
		}
		least = min(least, *m.Low, -floor)
		most = max(most, *m.High, floor)
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
		if m.Floor != nil {
			lane = slices.Insert(lane, 0, chart.Piece{From: -*m.Floor, To: *m.Floor, Kind: kind("noise floor", "line")})
		}
		g.Rows = append(g.Rows, Label(m.Name)+"  "+strings.Replace(m.change(), " points", " pp", 1))
		g.Lanes = append(g.Lanes, lane)
	}
	return []chart.Graph{g}
}
