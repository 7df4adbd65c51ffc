package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/tty"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// terminal is where people read: lines, and on a real terminal a screen of some lines that changes below them.
type terminal struct {
	mu      sync.Mutex
	w       io.Writer
	width   int    // columns; 0 where w is no terminal
	height  int    // lines
	shown   string // the screen as it was drawn: the lines that change, below all others
	mode    string // of progress
	quiet   bool   // only what is asked for, and errors
	last    string // the line printed last
	verbose bool   // details are printed
}

func newTerminal(w io.Writer) *terminal {
	t := &terminal{w: w, mode: progressAuto}
	t.measure()
	return t
}

func (t *terminal) measure() {
	if f, ok := t.w.(*os.File); ok {
		if width, height := tty.Size(f); width > 0 {
			t.width = max(40, width)
			t.height = height
		}
	}
}

// line prints a line of its own, unless only errors are wanted.
func (t *terminal) line(format string, args ...any) {
	if !t.quiet {
		t.alert(format, args...)
	}
}

// alert is line for what goes wrong, and for answers to what the user does.
func (t *terminal) alert(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print(fmt.Sprintf(format, args...))
}

// annotate prints lines for GitHub, in a job of which they are shown beside it.
func (t *terminal) annotate(lines ...string) {
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		for _, line := range lines {
			_, _ = fmt.Fprintln(t.w, line)
		}
	}
}

// detail prints a line that --verbose asks for.
func (t *terminal) detail(format string, args ...any) {
	if t.verbose {
		t.line(format, args...)
	}
}

// note prints what is worth knowing.
func (t *terminal) note(format string, args ...any) { t.line("note: "+format, args...) }

// Note implements setup.Observer.
func (t *terminal) Note(n setup.Note) {
	switch {
	case n.Level == setup.Detail && !t.verbose || n.Level == setup.Brief && t.verbose:
	case n.Level == setup.Keep:
		t.note("%s", n.Text)
	default:
		t.line("%s", n.Text)
	}
}

// Alert implements replay.Observer.
func (t *terminal) Alert(text string) { t.alert("%s", text) }

// print prints a line above the screen, if there is one.
func (t *terminal) print(text string) {
	t.last = text
	text = visible(text)
	if t.width > 0 && uniseg.StringWidth(text) > t.width && !strings.Contains(text, "\n") {
		text = strings.Join(format.Fill(text, t.width), "\n")
	}
	screen := t.shown
	t.replace("")
	_, _ = fmt.Fprintln(t.w, text)
	t.replace(screen)
}

// replace draws text in place of the screen, with the cursor behind it. A line that is too long is cut, not wrapped
// (DECAWM).
func (t *terminal) replace(text string) {
	var b strings.Builder
	if t.shown != "" {
		b.WriteString("\r" + strings.Repeat("\x1b[A", strings.Count(t.shown, "\n")) + "\x1b[J")
	}
	if text != "" {
		b.WriteString("\x1b[?7l" + text + "\x1b[?7h")
	}
	if b.Len() > 0 {
		_, _ = io.WriteString(t.w, b.String())
	}
	t.shown = text
}

// Waiting implements setup.Observer. It prints what is waited for, unless that is the line printed last: many requests
// of a warm-up may wait for the same.
func (t *terminal) Waiting(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := "waiting for " + what; text != t.last && !t.quiet {
		t.print(text)
	}
}

// visible returns text as a terminal may have it: format.Visible line by line. All lines but the first are indented, so
// that no text from outside looks like a line of ours.
func visible(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = format.Visible(lines[i])
	}
	return strings.Join(lines, "\n  ")
}

// coloured reports whether this is a terminal whose user has nothing against colours (https://no-color.org).
func (t *terminal) coloured() bool {
	return t.width > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// summary prints the result of a run, on one screen or in full.
func (t *terminal) summary(s *metrics.Summary, full bool, o report.PrintOptions) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Width = t.width
	o.Height = t.height
	o.Colour = t.coloured()
	o.Quiet = t.quiet
	if full {
		return report.Print(t.w, s, o)
	}
	return report.Screen(t.w, s, o)
}

// The values of --progress.
const (
	progressAuto = "auto" // full on a terminal, line elsewhere
	progressFull = "full" // a screen that changes
	progressLine = "line" // a line now and then
	progressNone = "none"
)

// progressFlags say how a run is watched.
type progressFlags struct {
	mode        string
	quiet       bool
	metricsAddr string
}
