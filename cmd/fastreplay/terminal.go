package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// terminal is where people read: lines, and on a real terminal one line that changes.
type terminal struct {
	mu    sync.Mutex
	w     io.Writer
	width int    // columns; 0 where w is no terminal
	live  string // the changing line as it stands
	last  string // the line printed last
	notes []string
}

func newTerminal(w io.Writer) *terminal {
	t := &terminal{w: w}
	if f, ok := w.(*os.File); ok {
		if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			t.width = max(40, int(ws.Col))
		}
	}
	return t
}

// line prints a line of its own.
func (t *terminal) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print(fmt.Sprintf(format, args...))
}

// note prints what is worth knowing, and keeps it for the summary. It is for one goroutine.
func (t *terminal) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.notes = append(t.notes, text)
	t.line("note: %s", text)
}

func (t *terminal) print(text string) {
	t.erase()
	fmt.Fprintln(t.w, visible(text))
	t.last = text
}

// waiting prints what is waited for, unless that is the line printed last: many requests of a warm-up may wait for the same.
func (t *terminal) waiting(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := "waiting for " + what; text != t.last {
		t.print(text)
	}
}

// removed prints that a file of results was removed during the run, and is whole again.
func (t *terminal) removed(name string) {
	t.line("results: %s was removed during the run; it is made anew, with all that was in it", name)
}

// visible returns text as a terminal may have it: format.Visible line by line. All lines but the first are indented, so that no text
// from outside looks like a line of ours.
func visible(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = format.Visible(lines[i])
	}
	return strings.Join(lines, "\n  ")
}

// update replaces the changing line, or prints a plain one where there is none.
func (t *terminal) update(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = format.Visible(text)
	if t.width == 0 {
		fmt.Fprintln(t.w, text)
		return
	}
	t.erase()
	if runes := []rune(text); len(runes) >= t.width {
		text = string(runes[:t.width-1])
	}
	t.live = text
	fmt.Fprint(t.w, text)
}

func (t *terminal) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
}

func (t *terminal) erase() {
	if t.live != "" {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.live = ""
	}
}

// summary prints the result of a run whose files are in dir, in colour on a terminal whose user has nothing against it
// (https://no-color.org).
func (t *terminal) summary(s *metrics.Summary, dir string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	return report.Print(t.w, s, report.PrintOptions{Width: t.width, Colour: t.width > 0 && os.Getenv("NO_COLOR") == "", Dir: dir})
}

// interval is how often progress is worth a line: a screen's pace, or a log's.
func (t *terminal) interval() time.Duration {
	if t.width > 0 {
		return 200 * time.Millisecond
	}
	return 5 * time.Second
}

// ticker shows a line at the terminal's pace until it is ended.
type ticker struct {
	built atomic.Int64 // bytes, while building
	stop  chan struct{}
	gone  chan struct{}
}

func (t *terminal) watch(show func(*ticker) string) *ticker {
	k := &ticker{stop: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(k.gone)
		tick := time.NewTicker(t.interval())
		defer tick.Stop()
		for {
			select {
			case <-k.stop:
				t.clear()
				return
			case <-tick.C:
				t.update(show(k))
			}
		}
	}()
	return k
}

func (k *ticker) end() {
	close(k.stop)
	<-k.gone
}

const barCells = 30

// watchBuild shows a bar and the time left while total bytes are built.
func (t *terminal) watchBuild(total int64) *ticker {
	began := time.Now()
	return t.watch(func(k *ticker) string {
		done := float64(k.built.Load()) / float64(max(1, total))
		text := fmt.Sprintf("building %s %3.0f %% of %s", bar(done), 100*done, format.Bytes(total))
		if done > 0 {
			text += fmt.Sprintf(", %s left", clock(time.Duration(float64(time.Since(began))*(1-done)/done)))
		}
		return text
	})
}

// watchCount shows how many of n prompts are counted.
func (t *terminal) watchCount(n int64) *ticker {
	return t.watch(func(k *ticker) string {
		return fmt.Sprintf("counting %s %s of %s", bar(float64(k.built.Load())/float64(n)), format.Count(k.built.Load()), format.Many(n, "prompt"))
	})
}

func bar(done float64) string {
	full := min(barCells, int(done*barCells))
	return "[" + strings.Repeat("█", full) + strings.Repeat("░", barCells-full) + "]"
}

// clock prints what a clock would show, in whole seconds: 1h2m3s. What was measured is printed by format.Duration.
func clock(d time.Duration) string { return max(0, d).Round(time.Second).String() }

// watchRun shows one line about the run.
func (t *terminal) watchRun(run *engine.Run, driftP99NS func() int64, spanNS int64) *ticker {
	var last engine.Progress
	return t.watch(func(*ticker) string {
		p := run.Progress()
		text := runLine(p, last, run.Requests(), driftP99NS(), spanNS)
		last = p
		return text
	})
}

func runLine(p, last engine.Progress, requests int, driftP99NS, spanNS int64) string {
	done := p.OK + p.Failed
	text := fmt.Sprintf("%s  sent %s/%s  in flight %s  done %s  failed %s  drift p99 %s",
		clock(time.Duration(p.NowNS)), format.Count(p.Sent), format.Count(int64(requests)), format.Count(max(0, p.Sent-done+p.Unsent)),
		format.Count(p.OK), format.Count(p.Failed), format.Duration(float64(max(0, driftP99NS)), 3))
	if seconds := float64(p.NowNS-last.NowNS) / 1e9; seconds > 0 {
		text += fmt.Sprintf("  %s tok/s", format.Rate(float64(p.TokensOut-last.TokensOut)/seconds))
	}
	switch {
	case p.NowNS < spanNS:
		text += fmt.Sprintf("  %s left", clock(time.Duration(spanNS-p.NowNS)))
	case spanNS == 0 && done > 0:
		text += fmt.Sprintf("  %s left", clock(time.Duration(float64(p.NowNS)/float64(done)*float64(p.Left))))
	default:
		text += "  draining"
	}
	return text
}

// fillLines fills lines of at most width columns; a longer word has a line of its own.
func fillLines(text string, width int) (lines []string) {
	used := width
	for _, word := range strings.Fields(text) {
		need := uniseg.StringWidth(word)
		if used+1+need > width {
			lines, used = append(lines, word), need
			continue
		}
		lines[len(lines)-1] += " " + word
		used += 1 + need
	}
	return lines
}
