package live

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Wide is how many columns the tables of the screen need.
const Wide = 120

// A part of a line. Where the line is too narrow, the parts with the highest rank are left out first; rank 0 is cut, never left out.
type part struct {
	text  string
	style string // an SGR parameter; "" = none
	rank  int
}

// The styles of parts, as SGR parameters (ECMA-48, 8.3.117).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// canvas gathers lines.
type canvas struct {
	width  int
	colour bool
	lines  []string
}

// line adds the parts that fit, with gaps between them, and returns how many columns they take.
func (c *canvas) line(parts ...part) { c.lines = append(c.lines, c.fit(c.width, parts)) }

// fit returns a line of at most width columns.
func (c *canvas) fit(width int, parts []part) string {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.text == "" })
	columns := func() (n int) {
		for _, p := range parts {
			n += uniseg.StringWidth(p.text) + 3
		}
		return n - 3
	}
	for columns() > width {
		last := 0
		for i := range parts {
			if parts[i].rank >= parts[last].rank {
				last = i
			}
		}
		if parts[last].rank == 0 {
			break
		}
		parts = slices.Delete(parts, last, last+1)
	}
	var line strings.Builder
	for i, p := range parts {
		text := p.text
		if i > 0 {
			text = "   " + text
		}
		text = Cut(text, width)
		width -= uniseg.StringWidth(text)
		line.WriteString(c.paint(p.style, text))
	}
	return line.String()
}

func (c *canvas) paint(style, text string) string {
	if !c.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// Cut returns at most width columns of text; the last is … if something is missing.
func Cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	used, end := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next() && used+g.Width() < width; used += g.Width() {
		_, end = g.Positions()
	}
	return text[:end] + "…"
}

// Screen returns the run as lines of at most width columns: four, and one of errors if there are any. From Wide columns on there are
// tables, of at most height lines in all. Nothing that came from outside can move the cursor.
func Screen(s *Snapshot, width, height int, colour bool) string {
	c := &canvas{width: width, colour: colour}
	s.headline(c)
	s.bar(c)
	if width >= Wide {
		s.tables(c, height-len(c.lines)-1)
	} else {
		s.counts(c)
		s.latencies(c)
		s.errors(c)
	}
	return strings.Join(c.lines, "\n")
}

// headline has how long the run still takes, first.
func (s *Snapshot) headline(c *canvas) {
	left := clock(s.LeftNS) + " left"
	style := bold
	switch {
	case s.Stopping && s.Left > 0:
		left, style = "stopping: waiting for "+format.Many(s.InFlight, "request"), yellow
	case s.LeftNS < 0:
		left = "running"
	case s.Sent >= s.Requests || s.LeftNS == 0:
		left = "draining: waiting for " + format.Many(s.InFlight, "request")
	}
	passed := minutes(s.NowNS)
	if n := len(s.ReleaseNS); n > 0 {
		passed += " of " + minutes(max(s.NowNS, s.ReleaseNS[n-1]))
	}
	title := format.Visible(s.Title)
	room := c.width - uniseg.StringWidth(left) - uniseg.StringWidth(passed) - 6
	c.line(part{left, style, 0}, part{text: passed, rank: 1}, part{Cut(title, max(10, room)), dim, 2})
}

func (s *Snapshot) bar(c *canvas) {
	share := fmt.Sprintf("%3.0f %%", math.Floor(100*s.Share))
	done := format.Count(s.Requests-s.Left) + " of " + format.Count(s.Requests)
	rate := ""
	if !math.IsNaN(s.SentPerS) {
		rate = format.Rate(s.SentPerS) + "/s"
		if !math.IsNaN(s.DuePerS) {
			rate += " of " + format.Rate(s.DuePerS) + " planned"
		}
	}
	rest := []part{{text: share, rank: 1}, {text: done, rank: 2}, {text: rate, rank: 3}, {spark(s.Past.SentPerS, 8), dim, 4}}
	cells := min(44, max(10, c.width/2-10))
	full := int(math.Round(s.Share * float64(cells)))
	bar := strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	c.lines = append(c.lines, c.paint(green, bar)+"   "+c.fit(c.width-cells-3, rest))
}

func (s *Snapshot) counts(c *canvas) {
	failed := part{text: format.Counted(s.Failed, "failed"), rank: 1}
	if s.Failed > 0 {
		failed.style = red
	}
	c.line(part{format.Counted(s.OK, "ok"), green, 0}, failed, part{text: format.Counted(s.InFlight, "in flight"), rank: 1},
		part{text: known(s.TokensPerS, "%s tok/s"), rank: 2}, part{spark(s.Past.TokensPerS, 8), dim, 6},
		part{text: percent("KV ", s.All.KVUsage), rank: 4}, part{text: number("queue ", s.All.Waiting), rank: 3})
}

func (s *Snapshot) latencies(c *canvas) {
	text := func(name string, q Quantiles) string {
		if q.Count == 0 {
			return ""
		}
		return fmt.Sprintf("%s %s p99 %s", name, format.Duration(float64(q.P50), 3), format.Duration(float64(q.P99), 3))
	}
	late := s.onTime()
	late.rank = 0
	c.line(part{text: text("TTFT", s.TTFT), rank: 1}, part{spark(s.Past.TTFT, 8), dim, 3}, part{text: text("TPOT", s.TPOT), rank: 2}, late)
}

// onTime says how late requests leave: whether the measurement is sound so far.
func (s *Snapshot) onTime() part {
	if s.LateP99NS == 0 {
		return part{}
	}
	p99 := format.Duration(float64(s.LateP99NS), 3)
	if s.LimitNS > 0 && s.LateP99NS > s.LimitNS {
		return part{text: fmt.Sprintf("late: p99 %s (limit %s)", p99, format.Duration(float64(s.LimitNS), 3)), style: yellow}
	}
	return part{text: "on time (p99 " + p99 + " late)", style: green}
}

// errors lists failures by kind, and the targets of which every request fails.
func (s *Snapshot) errors(c *canvas) {
	parts := s.kinds()
	for i, t := range s.failingFirst() {
		if down := t.down(); down != "" {
			parts = append(parts, part{format.Visible(host(t.URL)) + " " + down, red, i + 1})
		}
	}
	if len(parts) > 0 {
		c.line(parts...)
	}
}

// Kind names a kind of failure.
func Kind(e ErrorCount) string {
	if e.Outcome == record.HTTPError && e.Status > 0 {
		return fmt.Sprintf("HTTP %d", e.Status)
	}
	return strings.ReplaceAll(e.Outcome.String(), "_", " ")
}

// downAfterNS is for how long every request of a target must have failed before the screen says so.
const downAfterNS = 2e9

func (t *Target) down() string {
	switch {
	case t.FailingNS < downAfterNS:
		return ""
	case t.Refused:
		return "DOWN " + clock(t.FailingNS)
	}
	return "FAILS " + clock(t.FailingNS)
}

// tables puts the table of the last minute beside that of targets.
func (s *Snapshot) tables(c *canvas, height int) {
	sparks := min(20, 6+(c.width-Wide)/3)
	columns := labelColumns + 3*valueColumns + 2 + sparks
	left, right := s.minute(c, sparks), s.fleet(c, c.width-columns-3, height)
	c.lines = append(c.lines, "")
	for i := range max(len(left), len(right)) {
		line := ""
		if i < len(left) {
			line = left[i]
		}
		if i < len(right) {
			line += strings.Repeat(" ", columns+3-ansi.StringWidth(line)) + right[i]
		}
		c.lines = append(c.lines, line)
	}
}

// The columns of the table of the last minute.
const (
	labelColumns = 13
	valueColumns = 10
)

// minute has the percentiles of the last 60 s.
func (s *Snapshot) minute(c *canvas, sparks int) (lines []string) {
	row := func(style, label string, past []float64, values ...string) {
		text := format.Left(label, labelColumns)
		for _, v := range values {
			text += format.Right(v, valueColumns)
		}
		if drawn := spark(past, sparks); drawn != "" {
			lines = append(lines, c.paint(style, text)+"  "+c.paint(dim, drawn))
			return
		}
		lines = append(lines, c.paint(style, text))
	}
	ns := func(v float64) string {
		if math.IsNaN(v) || v == 0 {
			return "–"
		}
		return format.Duration(v, 3)
	}
	row(dim, "last 60 s", nil, "now", "p50", "p99")
	row("", "TTFT", s.Past.TTFT, ns(s.TTFT.NowNS), ns(float64(s.TTFT.P50)), ns(float64(s.TTFT.P99)))
	row("", "TPOT", s.Past.TPOT, ns(s.TPOT.NowNS), ns(float64(s.TPOT.P50)), ns(float64(s.TPOT.P99)))
	row("", "output tok/s", s.Past.TokensPerS, known(s.TokensPerS, "%s"), whole(nearest(s.Past.TokensPerS, 0.5)), whole(nearest(s.Past.TokensPerS, 0.99)))
	row("", "in flight", s.Past.InFlight, format.Count(s.InFlight), whole(nearest(s.Past.InFlight, 0.5)), whole(nearest(s.Past.InFlight, 0.99)))
	style := ""
	if s.LimitNS > 0 && s.LateP99NS > s.LimitNS {
		style = yellow
	}
	row(style, "late", nil, "", ns(float64(s.Late.P50)), ns(float64(s.Late.P99)))
	return lines
}

// whole prints v without decimals.
func whole(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return format.Fixed(v, 0)
}

// The columns of the table of targets: those of numbers, and the last of them, in place of which a failure stands.
const (
	numberColumns = 8 + 7 + 10 + 6 + queueColumns
	queueColumns  = 10 + 6
)

// fleet has the targets, those that fail first, and what holds for all of them.
func (s *Snapshot) fleet(c *canvas, width, height int) (lines []string) {
	name := max(16, min(34, width-numberColumns))
	row := func(style, url, ok, failed, p99, hit, queue string) {
		text := format.Left(Cut(url, name), name) + format.Right(ok, 8) + format.Right(failed, 7) + format.Right(p99, 10) + format.Right(hit, 6) +
			format.Right(queue, queueColumns)
		lines = append(lines, c.paint(style, Cut(text, width)))
	}
	row(dim, "target", "ok", "failed", "TTFT p99", "hit", "run/wait    KV")
	room, left := max(1, min(8, height-4)), int64(0)
	for i, t := range s.failingFirst() {
		if i >= room {
			left++
			continue
		}
		p99, style, queue := "–", "", number("", t.Server.Running)+"/"+number("", t.Server.Waiting)+format.Right(percent("", t.Server.KVUsage), 6)
		if t.TTFTP99NS > 0 {
			p99 = format.Duration(float64(t.TTFTP99NS), 3)
		}
		if down := t.down(); down != "" {
			style, queue = red, down
		}
		row(style, format.Visible(host(t.URL)), format.Count(t.OK), format.Count(t.Failed), p99, ratio(t.hits()), queue)
	}
	if left > 0 {
		lines = append(lines, c.paint(dim, "and "+format.Many(left, "more target")))
	}
	lines = append(lines, c.fit(width, []part{{text: format.Counted(s.OK, "ok"), style: green}, {text: format.Some(s.Failed, "failed"), style: red, rank: 1}, s.onTime()}))
	if len(s.Errors) > 0 {
		lines = append(lines, c.fit(width, s.kinds()))
	}
	return lines
}

// kinds are the failures by kind, the most frequent first.
func (s *Snapshot) kinds() (parts []part) {
	for i, e := range s.Errors {
		parts = append(parts, part{format.Count(e.Count) + " × " + Kind(e), red, i})
	}
	return parts
}

// hits is the share of prompt tokens from the cache as answers report it, or else as the servers' counters do.
func (t *Target) hits() float64 {
	if v := t.Server; math.IsNaN(t.Cached) && v.PrefixHits != nil && v.PrefixQueries != nil && *v.PrefixQueries > 0 {
		return *v.PrefixHits / *v.PrefixQueries
	}
	return t.Cached
}

// host is a URL without what all URLs have in common.
func host(url string) string {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		return url
	}
	return rest
}

func known(v float64, text string) string {
	if math.IsNaN(v) {
		return strings.Replace(text, "%s", "–", 1)
	}
	return fmt.Sprintf(text, format.Rate(v))
}

func number(before string, v *float64) string {
	if v == nil {
		if before == "" {
			return "–"
		}
		return ""
	}
	return before + format.Short(*v)
}

func percent(before string, v *float64) string {
	if v == nil {
		if before == "" {
			return "–"
		}
		return ""
	}
	return before + ratio(*v)
}

func ratio(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return format.Fixed(100*v, 0) + " %"
}

// clock prints whole seconds: 1h2m3s.
func clock(ns int64) string { return time.Duration(max(0, ns)).Round(time.Second).String() }

// minutes prints minutes and seconds as a player does: 1:05, 1:02:05.
func minutes(ns int64) string {
	s := max(0, ns) / 1e9
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// nearest is the nearest rank of the values that are numbers; NaN if there are none.
func nearest(values []float64, share float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(sorted) == 0 {
		return math.NaN()
	}
	slices.Sort(sorted)
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// spark draws the last values as columns of one line, from 0 to the highest; a value that is not there is a space.
func spark(values []float64, cells int) string {
	values = values[max(0, len(values)-cells):]
	most := 0.0
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	var out strings.Builder
	for _, v := range values {
		level := 0
		if most > 0 && !math.IsNaN(v) {
			level = 1 + int(math.Round(7*max(0, v)/most))
		}
		out.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[level])
	}
	return strings.TrimSpace(out.String())
}

// Line returns the run as key=value pairs for a log.
func Line(s *Snapshot) string {
	pairs := []string{fmt.Sprintf("t=%s sent=%d/%d ok=%d failed=%d", clock(s.NowNS), s.Sent, s.Requests, s.OK, s.Failed)}
	var kinds []string
	for _, e := range s.Errors {
		kinds = append(kinds, strings.ReplaceAll(strings.ToLower(Kind(e)), " ", "_")+":"+strconv.FormatInt(e.Count, 10))
	}
	if len(kinds) > 0 {
		pairs = append(pairs, "errors="+strings.Join(kinds, ","))
	}
	for _, l := range []struct {
		key string
		ns  int64
	}{{"ttft_p99", s.TTFT.P99}, {"late_p99", s.LateP99NS}} {
		if l.ns > 0 {
			pairs = append(pairs, l.key+"="+strings.NewReplacer(" ", "", "µ", "u", ",", "").Replace(format.Duration(float64(l.ns), 3)))
		}
	}
	if !math.IsNaN(s.TokensPerS) {
		pairs = append(pairs, fmt.Sprintf("tok_s=%.0f", s.TokensPerS))
	}
	if s.LeftNS >= 0 {
		pairs = append(pairs, "left="+clock(s.LeftNS))
	}
	return strings.Join(pairs, " ")
}
