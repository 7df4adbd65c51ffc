package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
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
	f, isFile := t.w.(*os.File)
	if isFile && t.width > 0 && (t.mode == progressAuto || t.mode == progressFull) && os.Getenv("TERM") != "dumb" &&
		foreground(f) {
		return t.open(v)
	}
	stop := make(chan struct{})
	tick := time.NewTicker(10 * time.Second)
	var printing sync.WaitGroup
	printing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				t.line("%s", v.line())
			}
		}
	})
	return func() {
		tick.Stop()
		close(stop)
		printing.Wait()
	}
}

// open begins a screen: a part of the terminal that changes, below the lines that were printed. It belongs to
// bubbletea, which draws it in a goroutine of its own. It follows the size of the window, reads the keys and restores
// the terminal. It catches no signals.
func (t *terminal) open(v view) (end func()) {
	input, unguard := tea.WithInput(nil), func() {}
	if v.quit != nil {
		input, unguard = tea.WithInput(os.Stdin), guard(os.Stdin)
	}
	program, gone := tea.NewProgram(
		model{view: v}, input, tea.WithOutput(t.w), tea.WithoutSignalHandler(), tea.WithFPS(4),
	), make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen = program
	go func() {
		defer close(gone)
		_, _ = program.Run() // a terminal that is gone shows nothing, and the run goes on
	}()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		program.Send(endMessage{})
		<-gone
		unguard()
		t.screen = nil
		t.measure()
	}
}

// guardScript restores the terminal once its standard input ends: modes, cursor, pasting, and what keys send.
const guardScript = `trap "" INT QUIT TERM HUP TSTP TTOU; cat >/dev/null; ` +
	`stty "$0" <&3; printf '\r\033[J\033[?25h\033[?2004l\033[<u\033[>4m' >&3`

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

// model is the screen as bubbletea has it.
type model struct {
	view
	width, height int
	text          string
}

// endMessage ends a screen; the time redraws it.
type endMessage struct{}

func (m model) Init() tea.Cmd {
	return tea.Tick(500*time.Millisecond, func(now time.Time) tea.Msg { return now })
}

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case endMessage:
		m.text = ""
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case time.Time:
		next = m.Init()
	default:
		return m, nil
	}
	if m.width > 0 {
		m.text = m.screen(m.width, m.height)
	}
	return m, next
}

// press does what a key does. The terminal makes no signals of them while bubbletea reads it.
func (m model) press(key string) tea.Cmd {
	switch key {
	case "q", "Q":
		return func() tea.Msg {
			m.quit()
			return nil
		}
	case "ctrl+c":
		_ = unix.Kill(0, unix.SIGINT) // all processes in the foreground get it, as ever
	case "ctrl+z":
		return tea.Suspend
	}
	return nil
}

func (m model) View() tea.View { return tea.NewView(m.text) }

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
