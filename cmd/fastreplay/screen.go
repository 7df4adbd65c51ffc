package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/format"
)

// The values of --progress.
const (
	progressAuto = "auto" // full on a terminal, line elsewhere
	progressFull = "full" // a screen that changes
	progressLine = "line" // a line now and then
	progressNone = "none"
)

// chooseProgress takes what --progress and --quiet say. A screen that changes needs a terminal that obeys, in whose foreground we run.
func (t *terminal) chooseProgress(mode string, quiet bool) error {
	switch mode {
	case progressAuto, progressFull, progressLine, progressNone:
	default:
		return fmt.Errorf("--progress %q: want %s, %s, %s or %s", mode, progressAuto, progressFull, progressLine, progressNone)
	}
	t.quiet, t.mode = quiet, mode
	if quiet && mode == progressAuto {
		t.mode = progressNone
	}
	return nil
}

// redraws reports whether there is a screen that changes.
func (t *terminal) redraws() bool {
	if t.width == 0 || t.mode != progressAuto && t.mode != progressFull || os.Getenv("TERM") == "dumb" {
		return false
	}
	f, isFile := t.w.(*os.File)
	return isFile && foreground(f)
}

// foreground reports whether f is a terminal in whose foreground this process runs. In the background it would be stopped if it
// changed how the terminal works.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// coloured reports whether colours are wanted (https://no-color.org).
func (t *terminal) coloured() bool { return t.width > 0 && os.Getenv("NO_COLOR") == "" }

// view is what is shown of something that takes long: a screen of a terminal, or a line of a log.
type view struct {
	screen func(width, height int) string
	line   func() string
}

// The paces of views. A log gets a line each firstLines for a minute, then each laterLines.
const (
	redrawEvery = 250 * time.Millisecond
	firstLines  = 10 * time.Second
	laterLines  = 30 * time.Second
)

// ticker shows a view until it is ended.
type ticker struct {
	stop, gone chan struct{}
	built      atomic.Int64 // bytes, while building
}

// watch shows v at the terminal's pace. onKey, if it is not nil, is called with each key that is pressed while there is a screen.
func (t *terminal) watch(v func(*ticker) view, onKey func(key byte)) *ticker {
	k := &ticker{stop: make(chan struct{}), gone: make(chan struct{})}
	switch {
	case t.mode == progressNone:
		close(k.gone)
	case t.redraws():
		s := t.open(v(k).screen, onKey)
		go func() {
			defer close(k.gone)
			<-k.stop
			t.close(s)
		}()
	default:
		go func() {
			defer close(k.gone)
			t.log(k, v(k).line)
		}()
	}
	return k
}

func (k *ticker) end() {
	close(k.stop)
	<-k.gone
}

// log prints lines until k is ended.
func (t *terminal) log(k *ticker, line func() string) {
	began := time.Now()
	for {
		every := firstLines
		if time.Since(began) >= time.Minute {
			every = laterLines
		}
		select {
		case <-k.stop:
			return
		case <-time.After(every):
			t.line("%s", line())
		}
	}
}

// screen is a part of the terminal that changes, below the lines that were printed. It belongs to bubbletea, which draws it in a
// goroutine of its own, follows the size of the window and restores what it changes. It neither reads standard input nor catches
// signals: keys are ours.
type screen struct {
	view    func(width, height int) string
	program *tea.Program
	gone    chan struct{}  // closed when program has ended
	keys    *keyboard      // nil = none are read
	stops   chan os.Signal // Ctrl-Z
	helper  sync.WaitGroup
}

// open begins a screen.
func (t *terminal) open(view func(width, height int) string, onKey func(byte)) *screen {
	s := &screen{view: view, stops: make(chan os.Signal, 1)}
	if onKey != nil {
		s.keys = readKeys(os.Stdin, onKey)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen = s
	s.draw(t.w)
	signal.Notify(s.stops, syscall.SIGTSTP)
	s.helper.Go(func() {
		for range s.stops {
			t.suspend(s)
		}
	})
	return s
}

// draw begins to draw where the cursor is.
func (s *screen) draw(w io.Writer) {
	s.program = tea.NewProgram(model{view: s.view}, tea.WithInput(nil), tea.WithOutput(w), tea.WithoutSignalHandler(), tea.WithFPS(10),
		tea.WithEnvironment(screenEnvironment()))
	program, gone := s.program, make(chan struct{})
	s.gone = gone
	go func() {
		defer close(gone)
		_, _ = program.Run() // a terminal that is gone shows nothing, and the run goes on
	}()
}

// print prints text above what changes. It waits for nobody if bubbletea has ended.
func (s *screen) print(text string) { s.program.Send(tea.Println(text)()) }

// erase ends what draw began.
func (s *screen) erase() {
	s.program.Send(endMessage{})
	<-s.gone
}

// suspend gives the terminal back while a Ctrl-Z stops this process.
func (t *terminal) suspend(s *screen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.erase()
	s.keys.restore()
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // SIGTSTP itself is caught
	<-goesOn
	s.keys.set()
	s.draw(t.w)
}

// screenEnvironment is what bubbletea sees in place of the environment. An SSH_TTY and a usual name keep it
// from asking the terminal what it can. The answers would be input that nobody reads.
func screenEnvironment() []string {
	name := os.Getenv("TERM")
	if !strings.HasPrefix(name, "linux") && !strings.HasPrefix(name, "screen") && !strings.HasPrefix(name, "tmux") {
		name = "xterm-256color"
	}
	return []string{"TERM=" + name, "SSH_TTY=/dev/tty"}
}

// close erases the screen, and restores the terminal.
func (t *terminal) close(s *screen) {
	signal.Stop(s.stops)
	close(s.stops)
	s.helper.Wait()
	s.keys.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.erase()
	t.screen = nil
	if ws, err := unix.IoctlGetWinsize(int(t.w.(*os.File).Fd()), unix.TIOCGWINSZ); err == nil {
		t.width = max(40, int(ws.Col))
	}
}

// model is the screen as bubbletea has it.
type model struct {
	view          func(width, height int) string
	width, height int
	text          string
}

type (
	tickMessage time.Time
	endMessage  struct{}
)

func (m model) Init() tea.Cmd { return m.tick() }

func (m model) tick() tea.Cmd {
	return tea.Tick(redrawEvery, func(now time.Time) tea.Msg { return tickMessage(now) })
}

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case endMessage:
		m.text = ""
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMessage:
		next = m.tick()
	default:
		return m, nil
	}
	if m.width > 0 {
		m.text = m.view(m.width, m.height)
	}
	return m, next
}

func (m model) View() tea.View { return tea.NewView(m.text) }

// oneLine is a view of text, which is cut to fit.
func oneLine(text func() string) view {
	return view{line: text, screen: func(width, _ int) string {
		if runes := []rune(format.Visible(text())); len(runes) >= width {
			return string(runes[:max(0, width-1)])
		}
		return format.Visible(text())
	}}
}

const barCells = 30

// watchBuild shows a bar and the time left while total bytes are built.
func (t *terminal) watchBuild(total int64) *ticker {
	began := time.Now()
	return t.watch(func(k *ticker) view {
		return oneLine(func() string {
			done := float64(k.built.Load()) / float64(max(1, total))
			text := fmt.Sprintf("building %s %3.0f %% of %s", bar(done), 100*done, format.Bytes(total))
			if done > 0 {
				text += fmt.Sprintf(", %s left", max(0, time.Duration(float64(time.Since(began))*(1-done)/done)).Round(time.Second))
			}
			return text
		})
	}, nil)
}

// watchCount shows how many of n prompts are counted.
func (t *terminal) watchCount(n int64) *ticker {
	return t.watch(func(k *ticker) view {
		return oneLine(func() string {
			done := k.built.Load()
			return fmt.Sprintf("counting %s %s of %s", bar(float64(done)/float64(n)), format.Count(done), format.Many(n, "prompt"))
		})
	}, nil)
}

func bar(done float64) string {
	full := min(barCells, int(done*barCells))
	return "[" + strings.Repeat("█", full) + strings.Repeat("░", barCells-full) + "]"
}
