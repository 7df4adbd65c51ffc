package inspect

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// single prints one report.
func (p *page) single(r *Report) {
	all := sections(r, nil)
	p.Line(shorten(r.Trace, p.Width))
	read := []string{r.Format}
	if !r.Untimed {
		read = append(read, "timestamps in "+r.TimeUnit)
	}
	if r.Blocks != nil {
		read = append(read, count(int64(r.BlockTokens))+" tokens a block")
	}
	p.Wrap("  ", "  ", format.Gap, read)
	p.Line("")
	p.findings(r)
	if r.Amplify != nil {
		p.amplified(r.Amplify)
		p.Line("")
	}
	p.lines(all, "rows", "word for word")
	if r.Untimed {
		p.Field("timestamps", "none: say when requests leave, with --rate, --ramp or --concurrency")
	}
	p.lines(all, "span", "mean rate", "burstiness")
	p.Line("")
	p.distributions(all)
	p.Line("")
	p.lines(all, "tokens", "model context")
	p.types(r.Types)
	if s := r.Sessions; s != nil {
		p.Line("")
		p.lines(all, "sessions", "turns overlap")
		if s.OverlapShare != nil {
			p.Sentence(format.Left("", labelWidth), overlapDefinition(s))
		}
	}
	if r.Blocks != nil {
		p.Line("")
		p.lines(all, "blocks", "unlimited cache")
		p.lru(r.Cache)
	}
	p.routing(r)
	p.Line("")
	needs := []int{10, 11, 16}
	p.row("  to replay with", 24, needs, "prompts", "largest", "memory, about")
	for _, row := range r.Replay.rows() {
		p.row("  "+row[0], 24, needs, row[1:]...)
	}
	p.plots(r)
}

// lines prints those lines of which the trace has something.
func (p *page) lines(all []section, labels ...string) {
	for _, label := range labels {
		p.Field(label, said(all, label)...)
	}
}

// findings prints what is wrong; a blank line ends it.
func (p *page) findings(r *Report) {
	marks := map[Severity]string{Refusal: "  REFUSED: ", BadRow: "    ", Note: "  note: "}
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
	width := []int{min(column+2, (p.Width-tableLabel)/len(percentiles()))}
	p.row("", tableLabel, width, percentiles()...)
	for _, label := range []string{
		"input tokens", "output tokens", "together", "interarrival", "turns/session", "turn to turn", "think time",
		"reused after", "other tokens",
	} {
		if cells := said(all, label); len(cells) > 0 {
			p.row("  "+label, tableLabel, width, cells...)
		}
	}
}

func (p *page) types(types []Type) {
	if len(types) == 0 {
		return
	}
	p.Line("")
	widths := []int{column, column, column + 4, column + 5}
	p.row("  type", labelWidth, widths, "rows", "share", "mean input", "mean output")
	for _, row := range typeRows(types) {
		p.row("  "+shorten(row[0], labelWidth-3), labelWidth, widths, row[1:]...)
	}
	if more := len(types) - maxTypesShown; more > 0 {
		p.Line(fmt.Sprintf("  … and %d more", more))
	}
}

// overlapDefinition says what overlap and think time were computed with.
func overlapDefinition(s *Sessions) string {
	return fmt.Sprintf("A turn is taken to last %s, and %s for each output token after the first (--assume-ttft, --assume-tpot). "+
		"Think time is from that end to the next turn, where they do not overlap.", duration(s.TTFTS), duration(s.TPOTS))
}

// lru prints the table of capacities with a bar for the hits of each.
func (p *page) lru(c *Cache) {
	if c.SaturationTokens == 0 {
		p.Field("", "no block is used twice")
		return
	}
	widths := []int{10, 10, 12, 10, 0}
	p.Line("")
	p.row("", 22, []int{8, 23}, "in order", "tail first")
	p.row("  LRU of tokens", 16, widths, "blocks", "tokens", "blocks", "tokens")
	for _, at := range c.LRU {
		row := append(c.rows([]int64{at.Tokens})[0], "  "+chart.Bar(at.TokenRatio, p.Width-60))
		p.row(format.Right(strings.TrimSuffix(row[0], " tokens"), 15), 16, widths, row[1:]...)
	}
	p.Line("")
	p.Sentence("  ", c.Definition)
}
