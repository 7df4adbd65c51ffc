package inspect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// quantity is a value of a report, in tables with a column for each report, on the page of one report, or in both.
type quantity struct {
	name    string // of its row in tables; "" = in none
	text    string // for people; absent where the trace does not have it
	line    string // of the page, by its label; "" = on none
	pattern string // how that line prints the text, which stands for %s; "" = the text alone
}

// section is a group of quantities.
type section struct {
	title      string // of the table; "" = not in tables
	quantities []quantity
}

// sections are all quantities of a report, of LRU caches those with the capacities. What a trace lacks has no title.
func sections(r *Report, capacities []int64) []section {
	return slices.Concat(
		[]section{
			fileSection(r), amplifySection(r.Amplify), arrivalSection(r),
			tokenSection(r), sessionSection(r.Sessions), agentSection(r.Agents), blockSection(r),
		},
		columns(typeRows(cmp.Or(r.Agents, &Agents{}).Depths), "rows at a depth", "", "mean input at a depth",
			"mean output at a depth"),
		columns(typeRows(r.Types), "", "rows of a type", "mean input of a type", "mean output of a type"),
		columns(r.Cache.rows(capacities), "LRU in order, of blocks", "LRU in order, of tokens",
			"LRU tail first, of blocks", "LRU tail first, of tokens"),
		routingSections(r), columns(r.Replay.rows(), "", "", "memory to replay, about"))
}

// columns makes a section of each column of a table of the page, whose rows begin with their names.
func columns(rows [][]string, titles ...string) (all []section) {
	for i, title := range titles {
		s := section{title: title}
		for _, row := range rows {
			s.quantities = append(s.quantities, quantity{name: row[0], text: row[1+i]})
		}
		all = append(all, s)
	}
	return all
}

// lineParts returns the parts of a line of the page: the quantities that have a value.
func lineParts(all []section, line string) (parts []string) {
	for _, s := range all {
		for _, q := range s.quantities {
			if q.line == line && q.text != "" && q.text != absent {
				parts = append(parts, strings.Replace(cmp.Or(q.pattern, "%s"), "%s", q.text, 1))
			}
		}
	}
	return parts
}

// table has a row for each quantity of a section: its name and a cell for each report.
type table struct {
	Title string
	Rows  [][]string
}

// tables are the sections of these reports. Rows that no report can fill are left out.
func tables(reports []*Report) (all []table) {
	capacities := capacities(reports)
	for i, r := range reports {
		next := 0 // where a table that no report before has is put
		for _, s := range sections(r, capacities) {
			if s.title == "" {
				continue
			}
			at := slices.IndexFunc(all, func(t table) bool {
				return t.Title == s.title
			})
			if at < 0 {
				at = next
				all = slices.Insert(all, next, table{Title: s.title})
			}
			all[at].fill(s.quantities, i, len(reports))
			next = at + 1
		}
	}
	for i := range all {
		all[i].Rows = slices.DeleteFunc(all[i].Rows, func(row []string) bool {
			return row[0] == "" || !slices.ContainsFunc(row[1:], func(cell string) bool {
				return cell != absent
			})
		})
	}
	return slices.DeleteFunc(all, func(t table) bool { return len(t.Rows) == 0 })
}

// fill writes the cells of report i of n. Where names are the same, each has a row.
func (t *table) fill(quantities []quantity, i, n int) {
	for _, q := range quantities {
		row := slices.IndexFunc(t.Rows, func(row []string) bool {
			return row[0] == q.name && row[1+i] == absent
		})
		if row < 0 {
			row = len(t.Rows)
			t.Rows = append(t.Rows, append([]string{q.name}, slices.Repeat([]string{absent}, n)...))
		}
		t.Rows[row][1+i] = q.text
	}
}

// percentiles are the columns that the page prints of a distribution.
func percentiles() []string {
	return []string{"mean", "p50", "p90", "p95", "p99", "p99.9", "max"}
}

// distribution is a line of the page. Tables have some of the percentiles, with a prefix.
func distribution(
	line string, d *stats.Percentiles, print func(float64) string, prefix string, some ...string,
) []quantity {
	var all []quantity
	if d == nil {
		d = &stats.Percentiles{}
		print = func(float64) string { return absent }
	}
	for i, v := range []float64{d.Mean, d.P50, d.P90, d.P95, d.P99, d.P999, d.Max} {
		q := quantity{line: line, text: print(v)}
		if name := percentiles()[i]; slices.Contains(some, name) {
			q.name = prefix + name
		}
		all = append(all, q)
	}
	return all
}

func fileSection(r *Report) section {
	unit := r.TimeUnit
	verdict := "take it"
	if r.Untimed {
		unit = absent
	}
	if !r.Replayable {
		verdict = "REFUSE it"
	}
	return section{"trace", []quantity{
		{name: "format", text: r.Format},
		{name: "timestamps", text: unit},
		{name: "tokens a block", text: format.Count(r.BlockTokens)},
		{name: "a replay would", text: verdict},
		{"rows", format.Count(r.Rows), "rows", ""},
		{"", r.ofFile(), "rows", ""},
		{name: "rows in the file", text: format.Count(r.FileRows)},
	}}
}

// ofFile describes which part of the file the rows are.
func (r *Report) ofFile() string {
	file := format.Count(r.FileRows) + " in the file"
	switch a := r.Amplify; {
	case a != nil && a.Before.Requests == r.FileRows:
		return "copies of " + file
	case a != nil:
		return fmt.Sprintf("copies of %s of %s", format.Count(a.Before.Requests), file)
	case r.Rows != r.FileRows:
		return "of " + file
	}
	return ""
}

func arrivalSection(r *Report) section {
	if r.Untimed {
		return section{}
	}
	a := &r.Arrivals
	return section{"arrivals", append([]quantity{
		{"span", format.Span(a.SpanS), "span", ""},
		{"last row at", inUnit(a.SpanS, r.TimeUnit), "span", "last row at %s"},
		{"mean rate", optional(a.RowsPerS, rate), "mean rate", ""},
		{"input tok/s", optional(a.InputTokensPerS, format.Rate), "mean rate", "%s input tok/s"},
		{"output tok/s", optional(a.OutputTokensPerS, format.Rate), "mean rate", "%s output tok/s"},
		{"distinct instants", format.Count(a.Instants), "burstiness", "%s distinct instants"},
		{name: "most rows at one", text: format.Count(a.LargestBurst)},
		{"", format.Many(a.LargestBurst, "row"), "burstiness", "up to %s at one"},
		{"most rows within 1 s", format.Count(a.PeakRows), "burstiness", "up to %s within 1 s"},
		{"interarrival CV", optional(a.GapCV, variation), "burstiness", "interarrival CV %s"},
	}, distribution("interarrival", a.GapS, format.Span, "")...)}
}

func tokenSection(r *Report) section {
	input := &r.InputTokens
	output := &r.OutputTokens
	return section{"tokens", slices.Concat(
		distribution("input tokens", input.known(), tokens, "input ", percentiles()...),
		distribution("output tokens", output.known(), tokens, "output ", percentiles()...),
		distribution("together", r.TotalTokens, tokens, "together ", "p99", "max"),
		[]quantity{
			{name: "input total", text: input.total()},
			{name: "output total", text: output.total()},
			{"", input.total() + " input", "tokens", ""},
			{"", output.total() + " output", "tokens", ""},
			{"", optional(r.Verbatim, Verbatim.kinds), "verbatim", ""},
			{"verbatim", optional(r.Verbatim, Verbatim.size), "verbatim", ""},
			{name: "rows over the context", text: optional(r.Context, Context.over)},
			{"", optional(r.Context, Context.rows), "model context", ""},
		})}
}

func (c Context) over() string { return format.Count(c.RowsOver) }

// rows describes how many rows the context cannot hold.
func (c Context) rows() string {
	return fmt.Sprintf("%s rows (%s) above %s tokens", c.over(), format.Share(c.Share), format.Count(c.MaxModelLen))
}

// known is the distribution; nil if no row has its length.
func (l *Lengths) known() *stats.Percentiles {
	if len(l.Histogram) == 0 {
		return nil
	}
	return &l.Percentiles
}

// total is the tokens of all rows that have them; absent if none does.
func (l *Lengths) total() string {
	if l.known() == nil {
		return absent
	}
	return format.Count(l.Total)
}

func (l Verbatim) size() string { return format.Bytes(l.Bytes) }

// kinds names the kinds that there are.
func (l Verbatim) kinds() string {
	var kinds []string
	for i, n := range []int64{l.Texts, l.Messages, l.Payloads} {
		if n > 0 {
			kinds = append(kinds, format.Many(n, []string{"prompt", "chat", "whole body"}[i]))
		}
	}
	return strings.Join(kinds, ", ")
}

func sessionSection(s *Sessions) section {
	if s == nil {
		return section{}
	}
	return section{"sessions", slices.Concat(
		[]quantity{
			{"sessions", format.Count(s.Sessions), "sessions", ""},
			{"of several turns", format.Count(s.MultiTurn), "sessions", "%s of several turns"},
			{"", format.Many(s.Followups, "follow-up turn"), "sessions", ""},
			{"", format.Some(s.Orphans, "without their parent here"), "sessions", ""},
		},
		distribution("turns/session", s.Turns, tokens, "turns a session, ", "mean", "max"),
		distribution("turn to turn", s.GapS, format.Span, "turn to turn ", "p50", "p99"),
		distribution("think, tools", s.ThinkS, format.Span, "thinking and tools ", "p50"),
		[]quantity{
			{"overlapping turns", optional(s.OverlapShare, format.Share), "turns overlap",
				format.Count(s.Overlaps) + " (%s) begin before the previous turn has ended"},
			{"", format.Some(s.AtOnce, "not after it began"), "turns overlap", ""},
		})}
}

func blockSection(r *Report) section {
	if r.Blocks == nil {
		return section{}
	}
	b := r.Blocks
	i := &r.Cache.Infinite
	u := r.Reuse
	others, ids := "", ""
	if b.DistinctAll != b.Distinct {
		others = format.Count(b.DistinctAll) + " distinct with all before them"
	}
	if i.IDs != i.Blocks {
		ids = format.Share(i.IDs) + " of blocks whatever precedes them"
	}
	return section{"blocks, unlimited cache", slices.Concat(
		[]quantity{
			{"references", format.Count(b.References), "blocks", "%s references"},
			{"distinct ids", format.Count(b.Distinct), "blocks", "%s distinct ids"},
			{"", others, "blocks", ""},
			{"", format.Some(b.WithoutID, "without id"), "blocks", ""},
			{"", format.Some(b.BareRows, "rows without any"), "blocks", ""},
			{"ids name", b.Names, "blocks", "ids name %s"},
			{"hits, of blocks", format.Share(i.Blocks), "unlimited cache", "%s of blocks"},
			{"hits, of tokens", format.Share(i.Tokens), "unlimited cache", "%s of tokens"},
			{"hits, of full blocks", format.Share(i.FullBlocks), "unlimited cache", "%s of full blocks"},
			{"hits, mean per request", format.Share(i.MeanRequest), "unlimited cache", "%s mean per request"},
			{name: "blocks seen, by id alone", text: format.Share(i.IDs)},
			{"", ids, "unlimited cache", ""},
		},
		distribution("reused after", u.TimeS, format.Span, "reused after, ", "p50"),
		distribution("other tokens", u.Tokens, format.Short, "other tokens since, ", "p50"))}
}

// maxTypesShown bounds the kinds of requests on a page; the JSON has them all.
const maxTypesShown = 12

// typeRows are the table of the page of the most frequent types.
func typeRows(types []Type) (rows [][]string) {
	for _, t := range types[:min(len(types), maxTypesShown)] {
		name := shorten(typeName(t.Name), quantityWidth-3)
		meanInput := format.Fixed(t.MeanInput, 2)
		if t.MeanInput == 0 { // verbatim prompts
			meanInput = absent
		}
		rows = append(rows, []string{
			name, format.Count(t.Rows), format.Share(t.Share), meanInput, format.Fixed(t.MeanOutput, 2),
		})
	}
	return rows
}

// typeName is the name of a kind of requests for people: also where there is none, or one that would upset a terminal.
func typeName(name string) string {
	switch {
	case name == "":
		return "(none)"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r)
	}):
		return strconv.Quote(name)
	}
	return name
}

// capacities are those of the LRU caches of all reports.
func capacities(reports []*Report) (all []int64) {
	for _, r := range reports {
		for _, at := range cmp.Or(r.Cache, &Cache{}).LRU {
			all = append(all, at.Tokens)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rows are the table of the page of LRU caches with these capacities; nil for a trace without blocks.
func (c *Cache) rows(capacities []int64) (rows [][]string) {
	if c == nil {
		return nil
	}
	for _, tokens := range capacities {
		at := c.at(tokens)
		rows = append(rows, []string{
			format.Short(float64(tokens)) + " tokens", format.Share(at.BlockRatio), format.Share(at.TokenRatio),
			format.Share(at.TailFirstBlocks), format.Share(at.TailFirstTokens),
		})
	}
	return rows
}

// routingSections have the hits of every router, by the size of the caches.
func routingSections(r *Report) (all []section) {
	for _, o := range r.Routing {
		s := section{"hits " + o.Heading(), []quantity{{
			name: route.OneCacheLabel,
			text: format.Share(o.OneCacheRatio),
		}}}
		for _, routed := range o.Routers {
			q := quantity{name: o.Label(routed.Router), text: format.Share(routed.HitRatio)}
			s.quantities = append(s.quantities, q)
		}
		all = append(all, s)
	}
	return all
}

// rows are the table of the page of what a replay needs.
func (r *Replay) rows() (rows [][]string) {
	for i, v := range []Volume{r.TokenIDs, r.Text} {
		name := []string{"--prompt token-ids", "--prompt text"}[i]
		rows = append(rows, []string{
			name, format.Bytes(v.PromptBytes), format.Bytes(v.LargestBytes), format.Bytes(v.MemoryBytes),
		})
	}
	return rows
}

// absent stands where a trace does not have what a number is about.
const absent = "–"

func whole(v float64) string { return format.Fixed(v, 0) }

// tokens prints a number of tokens: whole numbers whole, means with two decimals.
func tokens(v float64) string {
	if v == math.Trunc(v) {
		return whole(v)
	}
	return format.Fixed(v, 2)
}

// inUnit prints seconds in the unit of the trace's timestamps, to the last digit that it can have.
func inUnit(s float64, unit string) string {
	scale := map[string]float64{"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1}[unit]
	text := format.Fixed(s*scale, 3)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " " + unit
}

// rate prints rows per second, or per hour where those are few.
func rate(perSecond float64) string {
	if perSecond < 0.01 {
		return format.Number(3600*perSecond, 3) + " rows/h"
	}
	return format.Rate(perSecond) + " rows/s"
}

// variation prints a coefficient of variation.
func variation(v float64) string { return format.Number(v, 3) }

// optional prints what may not be there.
func optional[T any](v *T, print func(T) string) string {
	if v == nil {
		return absent
	}
	return print(*v)
}
