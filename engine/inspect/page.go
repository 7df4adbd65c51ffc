package inspect

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

const labelWidth = 18

// Print writes the reports for people: one as a page, several side by side and then the plots of each. Width is that of
// the terminal in columns, 0 = 80; lines have at most 100 columns, and fit into 80.
func Print(w io.Writer, reports []*Report, width int) error {
	p := &page{format.NewPage(width, labelWidth)}
	if len(reports) == 1 {
		p.single(reports[0])
	} else {
		p.sideBySide(reports)
		for _, r := range reports {
			p.Line("")
			p.Line(shorten(r.Trace, p.Width))
			p.plots(r)
		}
	}
	for _, r := range reports {
		if !r.Replayable {
			p.Line("")
			p.Sentence("", "A replay would refuse "+r.Trace+".")
		}
	}
	_, err := w.Write(p.Bytes())
	return err
}

// page prints reports.
type page struct{ format.Page }

// beside prints two blocks of lines next to each other.
func (p *page) beside(left, right []string) {
	for i := range max(len(left), len(right)) {
		line := ""
		if i < len(left) {
			line = left[i]
		}
		if i < len(right) {
			line = format.Left(line, p.Width/2) + right[i]
		}
		p.Line(line)
	}
}

// shorten returns s with its beginning left out where it is longer than n: the end of a path is worth more.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}

// single prints one report.
func (p *page) single(r *Report) {
	all := sections(r, nil)
	p.Line(shorten(r.Trace, p.Width))
	p.Wrap("  ", "  ", format.Gap, whatWasRead(r))
	p.Line("")
	p.findings(r)
	if r.Amplify != nil {
		p.amplified(r.Amplify)
		p.Line("")
	}
	p.lines(all, "rows", "verbatim")
	if r.Untimed {
		p.Field("timestamps", "none: set when requests are sent, with --rate, --ramp or --concurrency")
	}
	p.lines(all, "span", "mean rate", "burstiness")
	p.Line("")
	p.distributions(all)
	p.Line("")
	p.lines(all, "tokens", "model context")
	p.types("type", r.Types)
	if s := r.Sessions; s != nil {
		p.Line("")
		p.lines(all, "sessions", "turns overlap")
		if s.OverlapShare != nil {
			p.Sentence(format.Left("", labelWidth), overlapDefinition(s))
		}
	}
	if r.Agents != nil {
		p.Line("")
		p.lines(all, "jobs", "agents", "sub-agents", "their times", "growth", "hits by job", "recorded hits")
		p.types("", r.Agents.Depths)
	}
	if r.Blocks != nil {
		p.Line("")
		p.lines(all, "blocks", "unlimited cache")
		p.lru(r.Cache)
		p.tiers(r.Tiers)
	}
	for _, o := range r.Routing {
		o.Print(&p.Page)
	}
	if len(r.Routing) > 0 {
		p.Line("")
		p.Sentence("  ", r.Routing[0].Definition)
	}
	p.Line("")
	needs := []int{10, 11, 16}
	p.Row("  to replay with", 24, needs, "prompts", "largest", "memory, about")
	for _, row := range r.Replay.rows() {
		p.Row("  "+row[0], 24, needs, row[1:]...)
	}
	p.plots(r)
}

// lines prints those lines of which the trace has something.
func (p *page) lines(all []section, labels ...string) {
	for _, label := range labels {
		p.Field(label, lineParts(all, label)...)
	}
}

// findings prints what is wrong; a blank line ends it.
func (p *page) findings(r *Report) {
	marks := map[Severity]string{
		Refusal: "  REFUSED: ",
		BadRow:  "    ",
		Note:    "  note: ",
	}
	for _, f := range r.Findings {
		p.Sentence(marks[f.Severity], f.Text)
	}
	if len(r.Findings) > 0 {
		p.Line("")
	}
}

// The table of distributions: labels, and numbers of 9 columns, so that it just fits into 80.
const (
	tableLabel = 17
	column     = 9
)

// distributions prints the distributions of tokens and times, one a line.
func (p *page) distributions(all []section) {
	var names []string
	for _, key := range percentiles() {
		names = append(names, percentileName(key))
	}
	width := []int{min(column+2, (p.Width-tableLabel)/len(names))}
	p.Row("", tableLabel, width, names...)
	for _, label := range []string{
		"input tokens", "output tokens", "together", "interarrival", "turns/session", "turn to turn", "think, tools",
		"rows/job", "sub-agents/job", "job span", "job idle", "took", "TTFT", "new tokens",
		"reused after", "other tokens",
	} {
		if cells := lineParts(all, label); len(cells) > 0 {
			p.Row("  "+label, tableLabel, width, cells...)
		}
	}
}

func (p *page) types(head string, types []Type) {
	if len(types) == 0 {
		return
	}
	p.Line("")
	widths := []int{column, column, column + 4, column + 5}
	p.Row("  "+head, labelWidth, widths, "rows", "share", "mean input", "mean output")
	for _, row := range typeRows(types) {
		label := "  " + shorten(row[0], labelWidth-3)
		p.Row(label, labelWidth, widths, row[1:]...)
	}
	if more := len(types) - maxTypesShown; more > 0 {
		p.Line(fmt.Sprintf("  … and %d more", more))
	}
}

const thinkDefinition = "Time for thinking and tools is from the last end that a turn waits for to the turn, " +
	"where they do not overlap."

// overlapDefinition describes how overlap and think time were computed.
func overlapDefinition(s *Sessions) string {
	if s.Recorded == s.Followups {
		return "A turn lasts as long as recorded. " + thinkDefinition
	}
	lead := "A turn is"
	if s.Recorded > 0 {
		all := format.Many(s.Followups, "previous turn")
		lead = format.Count(s.Recorded) + " of " + all + " lasted as long as recorded. Others are"
	}
	return lead + " assumed to last " + format.Span(s.TTFTS) + ", and " + format.Span(s.TPOTS) +
		" for each output token after the first (--assume-latency). " + thinkDefinition
}

// lru prints the table of capacities with a bar for the hits of each.
func (p *page) lru(c *Cache) {
	if c.SaturationTokens == 0 {
		p.Field("", "no block is used twice")
		return
	}
	widths := []int{10, 10, 12, 10, 0}
	p.Line("")
	p.Row("", 22, []int{8, 23}, "in order", "tail first")
	p.Row("  LRU of tokens", 16, widths, "blocks", "tokens", "blocks", "tokens")
	for _, at := range c.LRU {
		row := c.rows([]int64{at.Tokens})[0]
		label := strings.TrimSuffix(row[0], " tokens")
		bar := "  " + chart.Bar(at.TokenRatio, p.Width-60)
		p.Row(format.Right(label, 15), 16, widths, append(row[1:], bar)...)
	}
	p.Line("")
	p.Sentence("  ", c.Definition)
}

// tiers prints the table of what each tier would have served.
func (p *page) tiers(t *Tiers) {
	if t == nil {
		return
	}
	widths := []int{10, 10, 10, 10, 10}
	p.Line("")
	p.Row("", 18, widths, "", "mean", "busiest s", "mean", "busiest s")
	p.Row("  tier", 18, widths, "of tokens", "tokens/s", "tokens/s", "GB/s", "GB/s")
	for _, row := range t.rows() {
		p.Row("  "+row[0], 18, widths, row[1:]...)
	}
	p.Line("")
	p.Sentence("  ", t.Definition)
}

const (
	quantityWidth = 26 // of the labels
	reportWidth   = 18 // of a report's column: three fit into 80
)

// sideBySide prints the findings of each report, then a column for each, as many beside each other as fit.
func (p *page) sideBySide(reports []*Report) {
	all := tables(reports)
	for _, r := range reports {
		if len(r.Findings) > 0 {
			p.Line(shorten(r.Trace, p.Width))
			p.findings(r)
		}
	}
	perBand := (p.Width - quantityWidth) / reportWidth
	var names []string
	for _, name := range shortNames(reports) {
		names = append(names, shorten(name, reportWidth-2))
	}
	for from := 0; from < len(reports); from += perBand {
		to := min(len(reports), from+perBand)
		heads := names[from:to]
		for i, t := range all {
			if i > 0 || from > 0 {
				p.Line("")
			}
			p.report(t.Title, heads)
			heads = nil
			for _, row := range t.Rows {
				p.report("  "+row[0], row[1+from:1+to])
			}
		}
	}
}

// report prints a row with a column for each report.
func (p *page) report(label string, cells []string) {
	p.Row(label, quantityWidth, []int{reportWidth}, cells...)
}

// shortNames are the files' names without their folders, if that distinguishes them.
func shortNames(reports []*Report) []string {
	var full, short []string
	seen := map[string]bool{}
	for _, r := range reports {
		name := filepath.Base(r.Trace)
		full = append(full, r.Trace)
		short = append(short, name)
		seen[name] = true
	}
	if len(seen) < len(reports) {
		return full
	}
	return short
}

// plots prints what is better seen than read.
func (p *page) plots(r *Report) {
	p.timeline(r)
	p.Line("")
	p.beside(p.histogram("input tokens", r.InputTokens.Histogram, lengthRange),
		p.histogram("output tokens", r.OutputTokens.Histogram, lengthRange))
	if u := r.Reuse; u != nil && u.References > 0 {
		p.Line("")
		p.beside(p.histogram("block reused after", u.TimeHistogram, timeRange),
			p.histogram("other tokens used since", u.TokensHistogram, func(b Bin) string {
				return format.Short(b.From) + "–" + format.Short(b.To)
			}))
	}
}

// timelineLines is the height of the plot of arrivals.
const timelineLines = 4

func (p *page) timeline(r *Report) {
	a := &r.Arrivals
	if a.Timeline == nil {
		return
	}
	p.Line("")
	p.Line("  rows by time, each column " + format.Span(a.BinS))
	labels := make([]string, timelineLines)
	labels[0] = format.Count(slices.Max(a.Timeline))
	labels[timelineLines-1] = "0"
	for i, line := range chart.Skyline(a.Timeline, timelineLines) {
		p.Line(format.Right(labels[i], 9) + " ┤" + line)
	}
	end := format.Span(a.SpanS)
	gap := timelineBins - format.Columns(end)
	p.Line(format.Left("", 11) + format.Left("0", gap) + end)
}

// histogram draws bins as lines of half a page.
func (p *page) histogram(title string, bins []Bin, name func(Bin) string) []string {
	const label = 17
	const number = 9
	cells := p.Width/2 - label - number - 2
	most := int64(1)
	for _, b := range bins {
		most = max(most, b.Count)
	}
	lines := []string{"  " + title}
	for _, b := range bins {
		bar := chart.Bar(float64(b.Count)/float64(most), cells)
		count := format.Right(format.Count(b.Count), number)
		lines = append(lines, format.Right(name(b), label)+" "+format.Left(bar, cells)+count)
	}
	return lines
}

// lengthRange prints a bin of whole numbers, both ends included.
func lengthRange(b Bin) string {
	if b.To == b.From+1 {
		return whole(b.From)
	}
	return whole(b.From) + "–" + whole(b.To-1)
}

// timeRange names a bin of timeEdges.
func timeRange(b Bin) string {
	return [...]string{
		"at once", "below 1 s", "1–3 s", "3–10 s", "10–30 s", "30 s–1 min", "1–3 min", "3–10 min", "10–30 min",
		"30 min–1 h", "1–3 h", "3–12 h", "12 h–1 d",
		"1–7 d", "above 7 d",
	}[slices.Index(timeEdges(), b.From)]
}
