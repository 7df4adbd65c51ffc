package inspect

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// single prints one report.
func (p *page) single(r *Report) {
	p.Line(shorten(r.Trace, p.Width))
	read := []string{r.Format}
	if !r.Untimed {
		read = append(read, "timestamps in "+r.TimeUnit)
	}
	if r.Blocks != nil {
		read = append(read, count(int64(r.BlockTokens))+" tokens a block")
	}
	p.Wrap("  ", "  ", human.Gap, read)
	p.Line("")
	p.findings(r)
	if r.Amplify != nil {
		p.amplified(r.Amplify)
		p.Line("")
	}
	p.arrivals(r)
	p.tables(r)
	p.types(r.Types)
	p.sessions(r.Sessions)
	p.blocks(r)
	p.routing(r)
	p.needs(r)
	p.plots(r)
}

// findings prints what is wrong; a blank line ends it.
func (p *page) findings(r *Report) {
	for _, f := range r.Findings {
		switch f.Severity {
		case Refusal:
			p.Sentence("  REFUSED: ", f.Text)
		case BadRow:
			p.Sentence("    ", f.Text)
		default:
			p.Sentence("  note: ", f.Text)
		}
	}
	if len(r.Findings) > 0 {
		p.Line("")
	}
}

func (p *page) arrivals(r *Report) {
	a := &r.Arrivals
	p.Field("rows", count(r.Rows), r.ofFile())
	if l := r.Literal; l != nil {
		p.Field("word for word", l.words(), human.Bytes(l.Bytes))
	}
	if r.Untimed {
		p.Field("timestamps", "none: say when requests leave, with --rate, --ramp or --concurrency")
		p.Line("")
		return
	}
	p.Field("span", duration(a.SpanS), "last row at "+inUnit(a.SpanS, r.TimeUnit))
	if a.RowsPerS != nil {
		p.Field("mean rate", rate(*a.RowsPerS), human.Rate(*a.InputTokensPerS)+" input tok/s", human.Rate(*a.OutputTokensPerS)+" output tok/s")
	}
	p.Field("burstiness", count(a.Instants)+" distinct instants", "up to "+human.Many(a.LargestBurst, "row")+" at one", "up to "+count(a.PeakRows)+" within 1 s",
		"interarrival CV "+optional(a.GapCV, func(v float64) string { return human.Number(v, 3) }))
	p.Line("")
}

// ofFile says which part of the file the rows are.
func (r *Report) ofFile() string {
	file := count(r.FileRows) + " in the file"
	switch a := r.Amplify; {
	case a != nil && a.Before.Requests == r.FileRows:
		return "copies of " + file
	case a != nil:
		return fmt.Sprintf("copies of %s of %s", count(a.Before.Requests), file)
	case r.Rows != r.FileRows:
		return "of " + file
	}
	return ""
}

// The table of distributions: labels, and numbers of 9 columns, so that it just fits into 80.
const (
	tableLabel = 17
	column     = 9
)

// tables prints the distributions of tokens and times, one a line.
func (p *page) tables(r *Report) {
	names := []string{"mean", "p50", "p90", "p95", "p99", "p99.9", "max"}
	width := min(column+2, (p.Width-tableLabel)/len(names))
	head := human.Left("", tableLabel)
	for _, n := range names {
		head += human.Right(n, width)
	}
	p.Line(head)
	row := func(label string, d *Distribution, print func(float64) string) {
		if d == nil {
			return
		}
		line := human.Left("  "+label, tableLabel)
		for _, n := range names {
			line += human.Right(print(named(d, n)), width)
		}
		p.Line(line)
	}
	row("input tokens", r.InputTokens.known(), tokens)
	row("output tokens", r.OutputTokens.known(), tokens)
	row("together", r.TotalTokens, tokens)
	if !r.Untimed {
		row("interarrival", r.Arrivals.GapS, duration)
	}
	if s := r.Sessions; s != nil {
		row("turns/session", s.Turns, tokens)
		row("turn to turn", s.GapS, duration)
		row("think time", s.ThinkS, duration)
	}
	if u := r.Reuse; u != nil {
		row("reused after", u.TimeS, duration)
		row("other tokens", u.Tokens, human.Short)
	}
	p.Line("")
	p.Field("tokens", r.InputTokens.total()+" input", r.OutputTokens.total()+" output")
	if c := r.Context; c != nil {
		p.Field("model context", fmt.Sprintf("%s rows (%s) above %s tokens", count(c.RowsOver), human.Share(c.Share), count(c.MaxModelLen)))
	}
}

// known is the distribution; nil where no row says its length.
func (l *Lengths) known() *Distribution {
	if len(l.Histogram) == 0 {
		return nil
	}
	return &l.Distribution
}

// total is all tokens that rows say; absent where none does.
func (l *Lengths) total() string {
	if l.known() == nil {
		return absent
	}
	return count(l.Total)
}

// words names the kinds that there are.
func (l *Literal) words() string {
	var kinds []string
	for _, k := range []struct {
		n    int64
		what string
	}{{l.Texts, "prompt"}, {l.Messages, "chat"}, {l.Payloads, "whole body"}} {
		if k.n == 1 || k.n > 0 && k.what != "whole body" {
			kinds = append(kinds, human.Many(k.n, k.what))
		} else if k.n > 0 {
			kinds = append(kinds, count(k.n)+" whole bodies")
		}
	}
	return strings.Join(kinds, ", ")
}

// named is a value of a distribution by its name on the page.
func named(d *Distribution, name string) float64 {
	switch name {
	case "mean":
		return d.Mean
	case "p50":
		return d.P50
	case "p90":
		return d.P90
	case "p95":
		return d.P95
	case "p99":
		return d.P99
	case "p99.9":
		return d.P999
	case "max":
		return d.Max
	}
	panic("BUG: inspect: no percentile " + name)
}

// maxTypesShown bounds the kinds of requests on a page; the JSON has them all.
const maxTypesShown = 12

func (p *page) types(types []Type) {
	if len(types) == 0 {
		return
	}
	p.Line("")
	p.Line(human.Left("  type", labelWidth) + human.Right("rows", column) + human.Right("share", column) + human.Right("mean input", column+4) + human.Right("mean output", column+5))
	for i, t := range types {
		if i == maxTypesShown {
			p.Line(fmt.Sprintf("  … and %d more", len(types)-i))
			return
		}
		p.Line(human.Left("  "+shorten(typeName(t.Name), labelWidth-3), labelWidth) + human.Right(count(t.Rows), column) + human.Right(human.Share(t.Share), column) +
			human.Right(human.Fixed(t.MeanInput, 2), column+4) + human.Right(human.Fixed(t.MeanOutput, 2), column+5))
	}
}

func (p *page) sessions(s *Sessions) {
	if s == nil {
		return
	}
	p.Line("")
	p.Field("sessions", count(s.Sessions), count(s.MultiTurn)+" of several turns", human.Many(s.Followups, "follow-up turn"), some(s.Orphans, "without their parent here"))
	if s.OverlapShare == nil {
		return
	}
	p.Field("turns overlap", fmt.Sprintf("%s (%s) begin before the turn before has ended", count(s.Overlaps), human.Share(*s.OverlapShare)), some(s.AtOnce, "not after it began"))
	p.Sentence(human.Left("", labelWidth), overlapDefinition(s))
}

// overlapDefinition says what overlap and think time were computed with.
func overlapDefinition(s *Sessions) string {
	return fmt.Sprintf("A turn is taken to last %s, and %s for each output token after the first (--assume-ttft, --assume-tpot). "+
		"Think time is from that end to the next turn, where they do not overlap.", duration(s.TTFTS), duration(s.TPOTS))
}

// some is a part of a field about n things, empty for none.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return count(n) + " " + what
}

func (p *page) blocks(r *Report) {
	b, c := r.Blocks, r.Cache
	if b == nil {
		return
	}
	p.Line("")
	others := ""
	if b.DistinctAll != b.Distinct {
		others = count(b.DistinctAll) + " distinct with all before them"
	}
	p.Field("blocks", count(b.References)+" references", count(b.Distinct)+" distinct ids", others, some(b.WithoutID, "without id"), some(b.BareRows, "rows without any"), "ids name "+b.Names)
	i := c.Infinite
	ids := ""
	if i.IDs != i.Blocks {
		ids = human.Share(i.IDs) + " of blocks whatever precedes them"
	}
	p.Field("unlimited cache", human.Share(i.Blocks)+" of blocks", human.Share(i.Tokens)+" of tokens", human.Share(i.FullBlocks)+" of full blocks", human.Share(i.MeanRequest)+" mean per request", ids)
	p.lru(c)
}

// lru prints the table of capacities with a bar for the hits of each.
func (p *page) lru(c *Cache) {
	if c.SaturationTokens == 0 {
		p.Field("", "no block is used twice")
		return
	}
	p.Line("")
	p.Line(human.Left("", 16) + human.Left("      in order", 22) + human.Left("     tail first", 22))
	p.Line(human.Left("  LRU of tokens", 16) + human.Right("blocks", 10) + human.Right("tokens", 10) + human.Right("blocks", 12) + human.Right("tokens", 10))
	for _, at := range c.LRU {
		p.Line(human.Right(human.Short(float64(at.Tokens)), 15) + " " + human.Right(human.Share(at.BlockRatio), 10) + human.Right(human.Share(at.TokenRatio), 10) +
			human.Right(human.Share(at.TailFirstBlocks), 12) + human.Right(human.Share(at.TailFirstTokens), 10) + "  " + chart.Bar(at.TokenRatio, p.Width-60))
	}
	p.Line("")
	p.Sentence("  ", c.Definition)
}

func (p *page) needs(r *Report) {
	p.Line("")
	p.Line(human.Left("  to replay with", 24) + human.Right("prompts", 10) + human.Right("largest", 11) + human.Right("memory, about", 16))
	for _, m := range []struct {
		name string
		v    Volume
	}{{"token-ids", r.Replay.TokenIDs}, {"text", r.Replay.Text}} {
		p.Line(human.Left("  --prompt "+m.name, 24) + human.Right(human.Bytes(m.v.PromptBytes), 10) + human.Right(human.Bytes(m.v.LargestBytes), 11) + human.Right(human.Bytes(m.v.MemoryBytes), 16))
	}
}
