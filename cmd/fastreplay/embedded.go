package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// embeddedMock is `fastreplay mock` in a process of its own, so that client and server share nothing but the machine.
type embeddedMock struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // closing it ends the mock
}

// startMock starts this very program as the mock and returns when it listens.
func startMock(ctx context.Context) (*embeddedMock, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting the embedded mock: %w", err)
	}
	cmd := exec.Command(self, "mock", "--listen", "127.0.0.1:0", "--die-with-parent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the replay, which drains first
	cmd.Stderr = os.Stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		return nil, fmt.Errorf("starting the embedded mock: %w", err)
	}
	m := &embeddedMock{cmd: cmd, stdin: stdin}
	stopWatching := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stopWatching()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		m.stop()
		return nil, fmt.Errorf("the embedded mock did not start: %q %w", line, err)
	}
	m.url = url
	return m, nil
}

// stop ends the mock and waits for it.
func (m *embeddedMock) stop() {
	_ = m.stdin.Close()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	_ = m.cmd.Wait()
}
