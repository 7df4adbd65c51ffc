package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// foreground reports whether f is a terminal in whose foreground this process runs. In the background it would be
// stopped if it changed how the terminal works.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

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
	every, show, leave := 10*time.Second, func() { t.line("%s", v.line()) }, func() {}
	f, isFile := t.w.(*os.File)
	if isFile && t.width > 0 && (t.mode == progressAuto || t.mode == progressFull) && os.Getenv("TERM") != "dumb" &&
		foreground(f) {
		every, show, leave = 500*time.Millisecond, func() { t.draw(f, v) }, t.open(v)
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
	if before, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), getModes); err == nil && v.quit != nil {
		unguard := guard(os.Stdin)
		restore = func() {
			_ = unix.IoctlSetTermios(int(os.Stdin.Fd()), setModes, before)
			unguard()
		}
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
	if !foreground(f) {
		return
	}
	if v.quit != nil && pressed(os.Stdin) {
		v.quit()
	}
	width, height := size(f)
	if width == 0 {
		return
	}
	lines := strings.Split(v.screen(width, height), "\n")
	text := strings.Join(lines[:min(len(lines), height)], "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replace(text)
}

// pressed reports whether q was pressed on a terminal in whose foreground this process runs. It never waits. The modes
// (no echo, signals as ever) are set for every look: a shell that had stopped this process has set its own. Pasted text
// and arrows are no key.
func pressed(tty *os.File) bool {
	modes, err := unix.IoctlGetTermios(int(tty.Fd()), getModes)
	if err != nil || !foreground(tty) {
		return false
	}
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 0, 0
	if unix.IoctlSetTermios(int(tty.Fd()), setModes, modes) != nil {
		return false
	}
	var typed [256]byte
	n, _ := unix.Read(int(tty.Fd()), typed[:])
	return n == 1 && (typed[0] == 'q' || typed[0] == 'Q')
}

// guardScript restores the terminal once its standard input ends.
const guardScript = `trap "" INT QUIT TERM HUP TSTP TTOU; cat >/dev/null; stty "$0" <&3; printf '\r\033[J' >&3`

// guard starts a shell that restores the terminal if this process ends without doing so, because a goroutine panics or
// it is killed. If there is no shell, there is no guard.
func guard(tty *os.File) (end func()) {
	ask := exec.Command("stty", "-g")
	ask.Stdin = tty
	modes, _ := ask.Output()
	shell := exec.Command("sh", "-c", guardScript, strings.TrimSpace(string(modes)))
	shell.ExtraFiles = []*os.File{tty}
	stdin, err := shell.StdinPipe()
	if err != nil || shell.Start() != nil {
		return func() {}
	}
	return func() {
		_ = shell.Process.Kill()
		_ = stdin.Close()
		_ = shell.Wait()
	}
}

// Work implements setup.Observer. It shows a bar and the time left until end is called.
func (t *terminal) Work(what string, total int64, print func(int64) string) (done *atomic.Int64, end func()) {
	const barCells = 30
	began, done := time.Now(), new(atomic.Int64)
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
