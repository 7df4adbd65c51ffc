package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/tty"
)

// view is what is shown of something that takes long: a screen of a terminal, or a line of a log.
type view struct {
	screen func(width, height int) string
	line   func() string
	quit   func() // called when q is pressed; nil = no key is read
}

// watch shows v at the terminal's pace, until end is called.
func (t *terminal) watch(v view) (end func()) {
	if t.mode == progressNone {
		return func() {}
	}
	every := 10 * time.Second
	show := func() { t.line("%s", v.line()) }
	leave := func() {}
	f, isFile := t.w.(*os.File)
	if isFile && t.width > 0 && (t.mode == progressAuto || t.mode == progressFull) && os.Getenv("TERM") != "dumb" &&
		tty.Foreground(f) {
		every = 500 * time.Millisecond
		show = func() { t.draw(f, v) }
		leave = t.open(v)
	}
	stop := make(chan struct{})
	tick := time.NewTicker(every)
	var showing sync.WaitGroup
	showing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				show()
			}
		}
	})
	return func() {
		tick.Stop()
		close(stop)
		showing.Wait()
		leave()
	}
}

// open begins a screen: a part of the terminal that changes, below the lines that were printed. end restores the
// terminal.
func (t *terminal) open(v view) (end func()) {
	restore := func() {}
	if v.quit != nil {
		restore = tty.Keep(os.Stdin)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.replace("")
		restore()
		t.measure()
	}
}

// draw reads the keys and draws the screen, in the foreground alone: a process in the background would be stopped.
func (t *terminal) draw(f *os.File, v view) {
	if !tty.Foreground(f) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.shown = "" // what stands there now is another program's
		return
	}
	if v.quit != nil && tty.Pressed(os.Stdin, 'q') {
		v.quit()
	}
	width, height := tty.Size(f)
	if width == 0 {
		return
	}
	lines := strings.Split(v.screen(width, height), "\n")
	text := strings.Join(lines[:min(len(lines), height)], "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replace(text)
}

// Work implements setup.Observer. It shows a bar and the time left until end is called.
func (t *terminal) Work(what string, total int64, print func(int64) string) (done *atomic.Int64, end func()) {
	const barCells = 30
	began := time.Now()
	done = new(atomic.Int64)
	line := func() string {
		share := float64(done.Load()) / float64(max(1, total))
		full := min(barCells, int(share*barCells))
		text := fmt.Sprintf(
			"%s %s%s %3.0f %% of %s",
			what, strings.Repeat("█", full), strings.Repeat("░", barCells-full), 100*share, print(total),
		)
		if share > 0 {
			text += fmt.Sprintf(
				", %s left",
				time.Duration(float64(time.Since(began))*(1-share)/share).Round(time.Second),
			)
		}
		return text
	}
	return done, t.watch(view{line: line, screen: func(int, int) string { return line() }})
}
