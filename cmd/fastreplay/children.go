package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// child is a replay in a process of its own, in a process group of its own: a Ctrl-C is for this process, which passes it on.
type child struct {
	*exec.Cmd
	in   io.WriteCloser // its end is how the replay notices that this process has died
	out  *bufio.Reader  // to be read to its end before wait
	said bytes.Buffer   // for people
}

// startChild starts a replay with these flags.
func startChild(flags ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	c := &child{Cmd: exec.Command(self, flags...)}
	c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Setpgid: true}, &c.said
	out, err := c.StdoutPipe()
	in, failed := c.StdinPipe()
	if err = cmp.Or(err, failed); err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a replay: %w", err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, nil
}

// wait waits for the end of a child, and returns its exit code, below 0 after a signal, and what it printed for people.
func (c *child) wait() (code int, said string) {
	_ = c.Wait() // its state has the exit code
	return c.ProcessState.ExitCode(), strings.TrimSpace(c.said.String())
}
