package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// pseudoTerminal is a terminal with a program in its foreground.
type pseudoTerminal struct {
	*exec.Cmd
	master, slave *os.File
	shown         output
	before        unix.Termios
	gone          chan struct{}
}

// startOnTerminal starts the binary on a terminal of 80 columns, in a session of its own.
func startOnTerminal(t testing.TB, name string, args ...string) *pseudoTerminal {
	t.Helper()
	return startProgram(t, name, binary, args...)
}

func startProgram(t testing.TB, name, program string, args ...string) *pseudoTerminal {
	t.Helper()
	if leftOut(t.Name()) {
		t.Skip("starts processes")
	}
	open := func(path string) *os.File {
		f := must.Have(os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0))(t)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	p := &pseudoTerminal{master: open("/dev/ptmx"), gone: make(chan struct{})}
	number, err := unix.IoctlGetInt(int(p.master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(p.master.Fd()), unix.TIOCSPTLCK, 0)
	}
	must.Do(t, err)
	p.slave = open(fmt.Sprintf("/dev/pts/%d", number))
	p.resize(t, 80)
	p.before = p.state(t)
	p.Cmd = exec.Command(program, args...)
	p.Stdin, p.Stdout, p.Stderr = p.slave, p.slave, p.slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.Env = append(os.Environ(), "TERM="+name)
	must.Do(t, p.Start())
	go func() { _, _ = io.Copy(&p.shown, p.master) }()
	go func() { defer close(p.gone); _ = p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill(); <-p.gone })
	return p
}

func (p *pseudoTerminal) resize(t testing.TB, columns uint16) {
	t.Helper()
	must.Do(t, unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

// untilShown waits until the terminal has shown these words.
func (p *pseudoTerminal) untilShown(t testing.TB, words string) {
	t.Helper()
	until(t, words+" is shown", func() bool { return strings.Contains(p.shown.String(), words) })
}

// state returns how the terminal works.
func (p *pseudoTerminal) state(t testing.TB) unix.Termios {
	t.Helper()
	now := must.Have(unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS))(t)
	return *now
}

// end waits for the end of the program.
func (p *pseudoTerminal) end(t testing.TB) {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Fatalf("%v still runs after %v; it said:\n%s", p.Args, patience, &p.shown)
	}
}

// TestScreen: a run on a terminal draws a screen that follows the window, the key q stops it as the first Ctrl-C does,
// and the terminal is as it was before; also if the process is killed.
func TestScreen(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	load := steady(t, lasting, 100, 5)
	for name, stop := range map[string]func(*pseudoTerminal){
		"q":       func(p *pseudoTerminal) { _, _ = p.master.Write([]byte("q")) },
		"qQq":     func(p *pseudoTerminal) { _, _ = p.master.Write([]byte("qQq")) }, // before the next look
		"Ctrl-C":  func(p *pseudoTerminal) { _, _ = p.master.Write([]byte{3}) },
		"SIGTERM": func(p *pseudoTerminal) { _ = p.Process.Signal(syscall.SIGTERM) },
		"SIGKILL": func(p *pseudoTerminal) { _ = p.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "results")
			p := startOnTerminal(t, "xterm-256color", "--trace", load, "--url", m.url, "--output", dir)
			p.untilShown(t, "in flight")
			if now := p.state(t); now.Lflag&(unix.ICANON|unix.ECHO) != 0 {
				t.Errorf("the terminal's modes are %x", now.Lflag)
			}
			p.resize(t, 130)
			p.untilShown(t, "last 60 s")
			if strings.ToLower(name)[0] != 'q' {
				_, _ = p.master.Write([]byte("\x1b[200~xq\x1b[201~\x1b[A")) // pasted, and an arrow: no key of ours
			}
			stop(p)
			p.end(t)
			until(t, "the terminal is restored", func() bool { return p.state(t) == p.before })
			if name == "SIGKILL" {
				return
			}
			expect.Equal(t, p.ProcessState.ExitCode(), 130, p.shown.String())
			if !strings.Contains(p.shown.String(), "nothing more is sent") || strings.Contains(p.shown.String(), "interrupted again") {
				t.Errorf("it said\n%s", p.shown.String())
			}
			if res := readResults(t, dir); !res.summary.Run.Partial || len(res.lines) != lasting {
				t.Errorf("%d records, partial %t", len(res.lines), res.summary.Run.Partial)
			}
		})
	}
}

// TestBackground: a run that a shell has sent to the background ends there. It would be stopped if it then changed how
// the terminal works.
func TestBackground(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	dir := filepath.Join(t.TempDir(), "results")
	p := startProgram(t, "xterm", "sh", "-c", `set -m; "$@"; bg; wait %1`, "sh", binary, "--trace",
		steady(t, 300, 100, 5), "--url", m.url, "--output", dir)
	p.untilShown(t, "in flight")
	_, _ = p.master.Write([]byte{26}) // Ctrl-Z
	p.end(t)
	expect.Equal(t, len(readResults(t, dir).lines), 300, "records")
	_, behind, _ := strings.Cut(p.shown.String(), "${@}") // as the shell names it
	expect.Lacks(t, behind, "\x1b[A", "lines of others are erased")
	expect.Lacks(t, p.shown.String(), "interrupted", "sent a hangup, since it was stopped")
}

// TestDumbTerminal: a terminal that obeys nothing gets lines, and its modes stay.
func TestDumbTerminal(t *testing.T) {
	t.Parallel()
	p := startOnTerminal(t, "dumb", "--trace", steady(t, 20, 50, 5), "--output", filepath.Join(t.TempDir(), "results"))
	p.end(t)
	if p.state(t) != p.before || strings.Contains(p.shown.String(), "\x1b[?") || strings.Contains(p.shown.String(), "in flight 1") {
		t.Errorf("%q", p.shown.String())
	}
}
