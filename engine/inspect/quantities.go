package inspect

import (
	"cmp"
	_ "embed"
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
	text    string // for people; "" where the trace does not have it
	line    string // of the page, by its label; "" = on none
	pattern string // how that line prints the text, which stands for %s; "" = the text alone
}

// section is a group of quantities, and a table.
type section struct {
	title      string
	quantities []quantity
}

// sections are all quantities of a report, of LRU caches those with the capacities.
func sections(r *Report, capacities []int64) []section {
	return slices.Concat(
		declared(fillerOf(r)),
		columns(typeRows(cmp.Or(r.Agents, &Agents{}).Depths), "rows at a depth", "", "mean input at a depth",
			"mean output at a depth"),
		columns(typeRows(r.Types), "", "rows of a type", "mean input of a type", "mean output of a type"),
		columns(r.Cache.rows(capacities), "LRU in order, of blocks", "LRU in order, of tokens",
			"LRU tail first, of blocks", "LRU tail first, of tokens"),
		columns(r.Tiers.rows(), "tiers, of tokens", "tiers, mean tokens/s", "tiers, tokens in the busiest second",
			"tiers, mean GB/s", "tiers, GB in the busiest second"),
		routingSections(r),
		columns(r.Replay.rows(), "", "", "memory to replay, about"))
}

// fillerOf has the values of a report, and what is computed of them for people under a key that is empty.
func fillerOf(r *Report) *format.Filler {
	fill, err := format.NewFiller(r)
	if err != nil {
		panic("BUG: inspect: a report with numbers that are not finite: " + err.Error())
	}
	fill.Printers["rows/s"] = rate
	fill.Printers["tokens"] = tokens
	fill.Values[""] = computed(r)
	if r.Untimed {
		delete(fill.Values, "arrivals")
	}
	if r.InputTokens.known() == nil {
		delete(fill.Values, "input_tokens")
	}
	if r.OutputTokens.known() == nil {
		delete(fill.Values, "output_tokens")
	}
	return fill
}

// computed are the texts with keys that begin with a point.
func computed(r *Report) map[string]any {
	texts := map[string]any{
		"of_file": r.ofFile(),
		"verdict": "take it",
		"input":   r.InputTokens.total(),
		"output":  r.OutputTokens.total(),
	}
	if !r.Replayable {
		texts["verdict"] = "REFUSE it"
	}
	if !r.Untimed {
		texts["time_unit"] = r.TimeUnit
		texts["last_row"] = inUnit(r.Arrivals.SpanS, r.TimeUnit)
	}
	if r.Arrivals.RowsPerS == nil {
		texts["rows_without_times"] = format.Many(r.Rows, "row")
	}
	if r.Verbatim != nil {
		texts["verbatim"] = r.Verbatim.kinds()
	}
	if a := r.Agents; a != nil {
		texts["deepest"] = format.Count(len(a.Depths) - 1)
		texts["instants"] = a.instants()
		texts["basis"] = a.basis()
		texts["jobs"] = a.inWords()
	}
	if c := r.Cache; c != nil {
		c.compute(r.Blocks, texts)
	}
	return texts
}

// compute adds what is computed of caches.
func (c *Cache) compute(b *Blocks, texts map[string]any) {
	if b.DistinctAll != b.Distinct {
		texts["distinct_prefixes"] = format.Count(b.DistinctAll)
	}
	if c.Infinite.IDs != c.Infinite.Blocks {
		texts["id_ratio"] = format.Share(c.Infinite.IDs)
	}
	if c.SaturationTokens > 0 {
		half := slices.IndexFunc(c.Curve, func(at Capacity) bool {
			return at.TokenRatio >= c.Infinite.Tokens/2
		})
		texts["half_of_hits"] = format.Short(float64(c.Curve[max(0, half)].Tokens))
	}
}

//go:embed quantities.txt
var quantities string

// declared are the sections of quantities.txt.
func declared(fill *format.Filler) (all []section) {
	for line := range strings.Lines(quantities) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			all = append(all, section{title: strings.Trim(line, "[]")})
		}
		cells := strings.Split(line, "|")
		if len(cells) != 4 || line[0] == '#' {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		last := &all[len(all)-1]
		last.quantities = append(last.quantities, quantitiesOf(fill, cells)...)
	}
	return all
}

// percentiles are the keys of what the page prints of a distribution.
func percentiles() []string {
	return []string{"mean", "p50", "p90", "p95", "p99", "p999", "max"}
}

// quantitiesOf are those of a line of quantities.txt.
func quantitiesOf(fill *format.Filler, cells []string) (all []quantity) {
	text := cells[0]
	name := cells[1]
	line := cells[2]
	pattern := cells[3]
	if !strings.Contains(text, "*") {
		return []quantity{{name, fill.Fill(text), line, pattern}}
	}
	prefix, inTables, _ := strings.Cut(name, ":")
	for _, key := range percentiles() {
		q := quantity{
			text: fill.Fill(strings.Replace(text, "*", key, 1)),
			line: line,
		}
		if slices.Contains(strings.Fields(inTables), key) {
			q.name = prefix + percentileName(key)
		}
		all = append(all, q)
	}
	return all
}

// percentileName is what people call a percentile.
func percentileName(key string) string {
	return strings.Replace(key, "p999", "p99.9", 1)
}

//go:embed words.txt
var words string

// inWords are a trace's main numbers as sentences: the lines of words.txt.
func inWords(r *Report) (out []string) {
	fill := fillerOf(r)
	for line := range strings.Lines(words) {
		var sentences []string
		for sentence := range strings.SplitSeq(strings.TrimSpace(line), " | ") {
			sentences = append(sentences, fill.Fill(sentence))
		}
		out = append(out, strings.Join(format.Present(sentences...), " "))
	}
	return format.Present(out...)
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
			if q.line == line && q.text != "" {
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
	return slices.DeleteFunc(all, func(t table) bool {
		return len(t.Rows) == 0
	})
}

// fill writes the cells of report i of n. Where names are the same, each has a row.
func (t *table) fill(quantities []quantity, i, n int) {
	for _, q := range quantities {
		row := slices.IndexFunc(t.Rows, func(row []string) bool {
			return row[0] == q.name && row[1+i] == absent
		})
		if row < 0 {
			row = len(t.Rows)
			cells := slices.Repeat([]string{absent}, 1+n)
			cells[0] = q.name
			t.Rows = append(t.Rows, cells)
		}
		t.Rows[row][1+i] = cmp.Or(q.text, absent)
	}
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

// some is format.Many, or "" for none.
func some(n int64, noun string) string {
	if n == 0 {
		return ""
	}
	return format.Many(n, noun)
}

// kinds names the kinds that there are.
func (l Verbatim) kinds() string {
	kinds := format.Present(
		some(l.Texts, "prompt"),
		some(l.Messages, "chat"),
		some(l.Payloads, "whole body"),
	)
	return strings.Join(kinds, ", ")
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
			name,
			format.Count(t.Rows),
			format.Share(t.Share),
			meanInput,
			format.Fixed(t.MeanOutput, 2),
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
			format.Short(float64(tokens)) + " tokens",
			format.Share(at.BlockRatio),
			format.Share(at.TokenRatio),
			format.Share(at.TailFirstBlocks),
			format.Share(at.TailFirstTokens),
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
			name,
			format.Bytes(v.PromptBytes),
			format.Bytes(v.LargestBytes),
			format.Bytes(v.MemoryBytes),
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
	return strings.TrimSuffix(strings.TrimRight(format.Fixed(s*scale, 3), "0"), ".") + " " + unit
}

// rate prints rows per second, or per hour where those are few.
func rate(perSecond float64) string {
	if perSecond < 0.01 {
		return format.Number(3600*perSecond, 3) + " rows/h"
	}
	return format.Rate(perSecond) + " rows/s"
}
