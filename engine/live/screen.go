package live

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Wide is how many columns the tables of the screen need.
const Wide = 120

// A part of a line.
type part struct{ text, style string }

// The styles of parts, as SGR parameters (ECMA-48, 8.3.117).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p part) paint() string {
	if p.style == "" || p.text == "" {
		return p.text
	}
	return "\x1b[" + p.style + "m" + p.text + "\x1b[0m"
}

// fit returns a line of the first parts, as many as fit into width columns, with gaps between them. The very first is
// cut if need be.
func fit(width int, parts ...part) string {
	var line []string
	for _, p := range parts {
		if len(line) == 0 {
			p.text = format.Cut(p.text, width)
		}
		n := format.Columns(p.text)
		if n > width {
			break
		}
		if n > 0 {
			line = append(line, p.paint())
			width = width - n - 3
		}
	}
	return strings.Join(line, "   ")
}

// Screen returns the run as lines of at most width columns: four, and one of errors if there are any. From Wide
// columns on there are tables, too, of at most height lines in all. It has colours. Nothing that came from outside
// can move the cursor.
func Screen(s *Snapshot, width, height int) string {
	sparks := 8 * min(1, width/80)
	failed := part{text: format.Counted(s.Failed, "failed")}
	if s.Failed > 0 {
		failed.style = red
	}
	counts := []part{
		{format.Counted(s.OK, "ok"), green},
		failed,
		{text: format.Counted(s.InFlight, "in flight")},
		with("%s tok/s", s.TokensPerS.Now, format.Rate),
		spark(s.TokensPerS.Past, sparks),
		with("KV %s", s.All.KVUsage, percent),
		with("queue %s", s.All.Waiting, format.Short),
	}
	lines := []string{
		s.headline(width),
		s.bar(width, sparks),
	}
	if width < Wide {
		ttft := s.Latencies[metrics.TTFT].part("TTFT")
		tpot := s.Latencies[metrics.TPOT].part("TPOT")
		lines = append(lines, fit(width, counts...))
		lines = append(lines, fit(width, ttft, s.late(), tpot))
	} else {
		counts = append(counts, s.late())
		lines = append(lines, fit(width, counts...))
	}
	if s.Goal != "" {
		lines = append(lines, fit(width, part{text: format.Visible(s.Goal)}))
	}
	if failures := s.failures(); len(failures) > 0 {
		lines = append(lines, fit(width, failures...))
	}
	if width >= Wide {
		room := height - len(lines) - 2
		lines = append(lines, "")
		lines = append(lines, s.tables(width, room)...)
	}
	return strings.Join(lines, "\n")
}

// headline has how long the run still takes, first.
func (s *Snapshot) headline(width int) string {
	left := part{clock(s.LeftNS) + " left", bold}
	passed := clock(s.NowNS)
	keys := part{"", dim}
	if s.Quits {
		keys.text = "q stops"
	}
	waits := format.Counted(s.InFlight, "in flight") + ", " + clock(s.WaitedNS) + " of at most "
	switch {
	case s.Stopping:
		left = part{"stopping: " + waits + clock(s.DrainNS), yellow}
		keys.text = "Ctrl-C cancels"
	case s.WaitedNS >= 0:
		left.text = "all sent: " + waits + clock(s.TimeoutNS)
	case s.LeftNS < 0:
		left.text = "running"
	}
	if n := len(s.ReleaseNS); n > 0 {
		passed += " of " + clock(max(s.NowNS, s.ReleaseNS[n-1]))
	}
	room := width - format.Columns(left.text+passed+keys.text) - 9
	title := format.Cut(format.Visible(s.Title), max(10, room))
	return fit(width, left, part{text: passed}, keys, part{title, dim})
}

func (s *Snapshot) bar(width, sparks int) string {
	cells := max(10, width/2-10)
	cells = min(44, cells)
	full := int(math.Round(s.Share * float64(cells)))
	bar := strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	percent := math.Floor(100 * s.Share)
	ended := format.Count(s.OK + s.Failed)
	rate := with("%s/s", s.SentPerS.Now, format.Rate)
	if rate.text != "" {
		rate.text += with(" of %s planned", s.DuePerS, format.Rate).text
	}
	return fit(
		width,
		part{bar, green},
		part{text: fmt.Sprintf("%3.0f %%", percent)},
		part{text: ended + " of " + format.Count(s.Requests)},
		rate,
		spark(s.SentPerS.Past, sparks),
	)
}

func (l *Series) part(name string) part {
	if math.IsNaN(l.P50) {
		return part{}
	}
	return part{text: name + " " + duration(l.P50) + " p99 " + duration(l.P99)}
}

// late says how late requests leave.
func (s *Snapshot) late() part {
	late := with("late p99 %s", s.LateP99NS, duration)
	late.style = green
	if s.Invalid != "" {
		late.style = red
	}
	return late
}

// failures says what is wrong so far: with the measurement, with targets of which every request fails, and with
// requests by kind.
func (s *Snapshot) failures() (parts []part) {
	if s.Invalid != "" {
		parts = append(parts, part{"INVALID so far: " + format.Visible(s.Invalid), red})
	}
	for _, t := range s.Targets {
		if down := t.down(); down != "" && len(parts) < 2 {
			parts = append(parts, part{t.name() + " " + down, red})
		}
	}
	for _, k := range s.All.failures() {
		parts = append(parts, part{format.Count(s.All.Errors[k]) + " × " + k.String(), red})
	}
	return parts
}

// failures are the kinds without those that the end of the run stopped.
func (t *Target) failures() []Kind { return slices.DeleteFunc(t.kinds(), Kind.stopped) }

// kinds are those of failures, the most frequent first.
func (t *Target) kinds() []Kind {
	return slices.SortedFunc(maps.Keys(t.Errors), func(a, b Kind) int {
		more := cmp.Compare(t.Errors[b], t.Errors[a])
		return cmp.Or(more, cmp.Compare(a.String(), b.String()))
	})
}

// String names the kind as results do.
func (k Kind) String() string {
	if k.Outcome == record.HTTPError && k.Status > 0 {
		return "HTTP " + strconv.FormatInt(k.Status, 10)
	}
	return strings.ReplaceAll(k.Outcome.String(), "_", " ")
}

// down says that every request of the target has failed for a while; "" if not.
func (t *Target) down() string {
	if t.FailingNS < 2e9 {
		return ""
	}
	return "DOWN " + clock(t.FailingNS)
}

// name is the URL without what all URLs have in common.
func (t *Target) name() string {
	name := strings.TrimPrefix(t.URL, "http://")
	name = strings.TrimPrefix(name, "https://")
	return format.Visible(name)
}

// tables puts the table of the last minute beside that of targets.
func (s *Snapshot) tables(width, height int) []string {
	sparks := min(20, 6+(width-Wide)/3)
	left := s.minute(sparks)
	column := format.Columns(left[0][0].text) + sparks + 5
	room := max(1, min(8, height-2))
	right := s.fleet(width-column, room)
	lines := make([]string, max(len(left), len(right)))
	for i := range lines {
		gap := column
		if i < len(left) {
			for _, p := range left[i] {
				lines[i] += p.paint()
				gap -= format.Columns(p.text)
			}
		}
		if i < len(right) {
			lines[i] += strings.Repeat(" ", gap) + right[i]
		}
	}
	return lines
}

// tableRow aligns the cells of a row: the first to the left, others to the right.
func tableRow(widths []int, cells ...string) string {
	row := format.Left(cells[0], widths[0])
	for i, cell := range cells[1:] {
		row += format.Right(cell, widths[1+i])
	}
	return row
}

// minute has the percentiles of the last 60 s: in each line numbers, and then a graph.
func (s *Snapshot) minute(sparks int) [][2]part {
	widths := []int{13, 10, 10, 10}
	head := part{tableRow(widths, "last 60 s", "now", "p50", "p99"), dim}
	lines := [][2]part{{head}}
	row := func(name string, of *Series, print func(float64) string) {
		past := spark(of.Past, sparks)
		past.text = strings.TrimRight("  "+past.text, " ")
		numbers := tableRow(
			widths,
			name,
			known(of.Now, print),
			known(of.P50, print),
			known(of.P99, print),
		)
		lines = append(lines, [2]part{{text: numbers}, past})
	}
	for i, l := range metrics.Latencies() {
		if l.LiveName != "" && i != metrics.Drift {
			row(l.Label, &s.Latencies[i], duration)
		}
	}
	row("late", &s.Latencies[metrics.Drift], duration)
	row("output tok/s", &s.TokensPerS, whole)
	row("in flight", &s.Flying, whole)
	return lines
}

// fleet has the targets, at most as many as there is room for, and those that fail first.
func (s *Snapshot) fleet(width, room int) (lines []string) {
	const queueColumns = 16 // in place of which a failure stands
	widths := []int{0, 8, 7, 10, 6, queueColumns}
	widths[0] = max(16, min(34, width-8-7-10-6-queueColumns))
	row := func(style, name string, cells ...string) {
		cells = slices.Insert(cells, 0, format.Cut(name, widths[0]))
		text := format.Cut(tableRow(widths, cells...), width)
		lines = append(lines, part{text, style}.paint())
	}
	row(dim, "target", "ok", "failed", "TTFT p99", "hit", "run/wait    KV")
	targets := slices.Clone(s.Targets)
	slices.SortStableFunc(targets, func(a, b Target) int {
		return strings.Compare(b.down(), a.down())
	})
	for _, t := range targets[:min(room, len(targets))] {
		style := ""
		running := known(t.Running, format.Short)
		waiting := known(t.Waiting, format.Short)
		queue := running + "/" + waiting + format.Right(known(t.KVUsage, percent), 6)
		if t.down() != "" {
			style = red
			queue = t.down()
		}
		row(
			style,
			t.name(),
			format.Count(t.OK),
			format.Count(t.Failed),
			known(t.TTFTP99NS, duration),
			known(t.Hits, percent),
			queue,
		)
	}
	if more := len(targets) - room; more > 0 {
		rest := part{"and " + format.Many(more, "more target"), dim}
		lines = append(lines, rest.paint())
	}
	return lines
}

// with is a part of a number; empty if it is unknown.
func with(words string, v float64, print func(float64) string) part {
	if math.IsNaN(v) {
		return part{}
	}
	return part{text: fmt.Sprintf(words, print(v))}
}

func known(v float64, print func(float64) string) string {
	if math.IsNaN(v) {
		return "–"
	}
	return print(v)
}

func whole(v float64) string { return format.Fixed(v, 0) }
func percent(v float64) string {
	return format.Fixed(100*v, 0) + " %"
}
func duration(ns float64) string { return format.Duration(ns, 3) }

// clock prints whole seconds: 1h2m3s.
func clock(ns int64) string {
	return time.Duration(max(0, ns)).Round(time.Second).String()
}

// spark draws the last values as columns, from 0 to the highest.
func spark(values []float64, cells int) part {
	counts := []int64{0}
	left := max(0, len(values)-cells)
	for _, v := range values[left:] {
		if !(v > 0) { // or unknown
			v = 0
		}
		counts = append(counts, int64(1000*v))
	}
	return part{strings.TrimSpace(chart.Skyline(counts, 1)[0]), dim}
}

// Line returns the run as key=value pairs for a log.
func Line(s *Snapshot) string {
	line := fmt.Sprintf(
		"t=%s sent=%d/%d ok=%d failed=%d",
		clock(s.NowNS),
		s.Sent,
		s.Requests,
		s.OK,
		s.Failed,
	)
	var kinds []string
	for _, k := range s.All.failures() {
		name := strings.ToLower(k.String())
		name = strings.ReplaceAll(name, " ", "_")
		kinds = append(kinds, fmt.Sprintf("%s:%d", name, s.All.Errors[k]))
	}
	if len(kinds) > 0 {
		line += " errors=" + strings.Join(kinds, ",")
	}
	ascii := strings.NewReplacer(" ", "", "µ", "u", ",", "")
	for _, p := range []part{
		with("ttft_p99=%s", s.Latencies[metrics.TTFT].P99, duration),
		with("late_p99=%s", s.LateP99NS, duration),
		with("tok_s=%s", s.TokensPerS.Now, whole),
	} {
		if p.text != "" {
			line += " " + ascii.Replace(p.text)
		}
	}
	if s.Goal != "" {
		line += fmt.Sprintf(" goal=%q", format.Visible(s.Goal))
	}
	switch most := s.TimeoutNS; {
	case s.WaitedNS >= 0:
		if s.Stopping {
			most = s.DrainNS
		}
		waited := clock(s.WaitedNS)
		line += fmt.Sprintf(" in_flight=%d waited=%s most=%s", s.InFlight, waited, clock(most))
	case s.LeftNS >= 0:
		line += " left=" + clock(s.LeftNS)
	}
	return line
}
