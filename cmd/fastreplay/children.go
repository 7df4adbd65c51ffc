package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
)

// children are replays in processes of their own, which a command starts one after another or at once. They are in process groups of
// their own, so that a Ctrl-C reaches each once: signals to this process are passed on. If this process dies, they are interrupted.
type children struct {
	signals chan os.Signal
	ui      *terminal

	mu      sync.Mutex
	running []*child
	stopped bool // no more are started
}

func newChildren(ui *terminal) *children {
	c := &children{signals: make(chan os.Signal, 4), ui: ui}
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(c.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range c.signals {
			c.pass(s)
		}
	}()
	return c
}

// pass sends a signal to all that run.
func (c *children) pass(s os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.ui.alert("interrupted: no further run is made; requests in flight may end; another interrupt cancels them")
	}
	c.stopped = true
	for _, one := range c.running {
		_ = one.cmd.Process.Signal(s) // it may have ended
	}
}

// stop interrupts all that run, unless that is done already.
func (c *children) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.running {
		if !c.stopped {
			_ = one.cmd.Process.Signal(os.Interrupt)
		}
	}
	c.stopped = true
}

// release stops listening to signals. All children have ended.
func (c *children) release() {
	signal.Stop(c.signals)
	close(c.signals)
}

// errStopped is returned in place of a child that is not started because a signal came.
var errStopped = &exitError{exitInterrupted, "interrupted before the start; nothing was sent"}

// child is a replay in a process of its own.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ready  chan bool // true when it waits for its moment, false if it has ended before
	ended  chan struct{}
	stderr bytes.Buffer // to be read when it has ended
}

// start starts a replay with these flags. It prepares all, and then waits for its moment.
func (c *children) start(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	one := &child{cmd: exec.Command(self, append([]string{"--start-at", "-"}, args...)...), ready: make(chan bool, 1), ended: make(chan struct{})}
	one.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	one.cmd.Stderr = &one.stderr
	stdin, errIn := one.cmd.StdinPipe()
	stdout, errOut := one.cmd.StdoutPipe()
	one.stdin = stdin
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	if err := errors.Join(errIn, errOut, one.cmd.Start()); err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	c.running = append(c.running, one)
	go func() {
		out := bufio.NewReader(stdout)
		line, _ := out.ReadString('\n') // "", if it ended
		one.ready <- strings.TrimSpace(line) == readyLine
		_, _ = io.Copy(io.Discard, out)
		_ = one.cmd.Wait() // its state has the exit code
		_ = stdin.Close()
		close(one.ended)
	}()
	return one, nil
}

// isReady waits until a child is ready, once.
func (one *child) isReady() bool { return <-one.ready }

// begin tells a child that is ready when to start.
func (one *child) begin(at time.Time) {
	_, _ = fmt.Fprintln(one.stdin, at.UTC().Format(time.RFC3339Nano)) // if it has ended, its exit code says why
}

// end waits for the end of a child, and returns its exit code and what it printed.
func (one *child) end() (code int, said string) {
	<-one.ended
	return one.cmd.ProcessState.ExitCode(), strings.TrimSpace(one.stderr.String())
}

// checkReplayFlags refuses flags that no replay has, and those that the command which starts it sets itself.
func checkReplayFlags(args []string, own ...string) error {
	c := newReplayCommand()
	if err := c.ParseFlags(compat.Expand(args, c.Flags(), false)); err != nil {
		return explainFlag(c, err)
	}
	for _, name := range append(own, "start-at", "dry-run") {
		for _, n := range append(compat.Names(), compat.Name{Name: name, Flag: name}) {
			if n.Flag == name && c.Flags().Changed(n.Name) {
				return fmt.Errorf("--%s: leave it out here; the command sets it for each run", n.Name)
			}
		}
	}
	return noStandardInput(c)
}

// noStandardInput refuses a trace that can be read only once.
func noStandardInput(c *cobra.Command) error {
	traces, _ := c.Flags().GetStringArray("trace")
	for _, path := range append(c.Flags().Args(), traces...) {
		if path == "-" {
			return errors.New("--trace -: each run reads the trace, and standard input can be read once; give a file")
		}
	}
	return nil
}
