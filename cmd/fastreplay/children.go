package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// children are replays in processes of their own, which a command starts one after another or at once. They are in process groups of
// their own, so that a Ctrl-C reaches each once: signals to this process are passed on. If this process dies, they are interrupted.
type children struct {
	signals chan os.Signal
	mu      sync.Mutex
	running []*child
	stopped bool // no more are started
}

func newChildren(ui *terminal) *children {
	c := &children{signals: make(chan os.Signal, 4)}
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(c.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range c.signals {
			if c.stop(s, false) {
				ui.alert("interrupted: no further run is made; requests in flight may end; another interrupt cancels them")
			}
		}
	}()
	return c
}

// stop passes a signal to all that run; if once, only if none was passed before. It reports whether it is the first.
func (c *children) stop(s os.Signal, once bool) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, c.stopped = !c.stopped, true
	for _, one := range c.running {
		if first || !once {
			_ = one.Process.Signal(s) // it may have ended
		}
	}
	return first
}

// release stops listening to signals. All children have ended.
func (c *children) release() {
	signal.Stop(c.signals)
	close(c.signals)
}

// child is a replay in a process of its own.
type child struct {
	*exec.Cmd
	stdin  io.WriteCloser
	ready  chan struct{} // closed when it waits for its start
	ended  chan struct{}
	stderr bytes.Buffer // to be read when it has ended
}

// start starts a replay with these flags. It prepares all, and then waits for its start.
func (c *children) start(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	one := &child{Cmd: exec.Command(self, append([]string{"--start-at", "-"}, args...)...), ready: make(chan struct{}), ended: make(chan struct{})}
	one.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	one.Stdout, one.Stderr = one, &one.stderr
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, &exitError{code: exitInterrupted}
	}
	if one.stdin, err = one.StdinPipe(); err == nil {
		err = one.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	c.running = append(c.running, one)
	go func() {
		_ = one.Wait() // its state has the exit code
		close(one.ended)
	}()
	return one, nil
}

// Write takes what a child prints on standard output: first that it is ready. One goroutine calls it.
func (one *child) Write(text []byte) (int, error) {
	select {
	case <-one.ready:
	default:
		close(one.ready)
	}
	return len(text), nil
}

// isReady waits until a child is ready or has ended.
func (one *child) isReady() bool {
	select {
	case <-one.ready:
		return true
	case <-one.ended:
		return false
	}
}

// end waits for the end of a child, and returns its exit code and what it printed for people.
func (one *child) end() (code int, said string) {
	<-one.ended
	return one.ProcessState.ExitCode(), strings.TrimSpace(one.stderr.String())
}
