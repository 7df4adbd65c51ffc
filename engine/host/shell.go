//go:build unix

package host

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	nice       = "10"                   // the priority of commands: what sends and reads comes first
	mostOutput = 16 << 10               // bytes that are kept of a command's output, the last
	outputWait = 100 * time.Millisecond // for the end of the output of a command that has ended
)

// Shell runs a command in a process group of its own, at a low priority, and kills the group when ctx ends. What a
// command leaves behind in the background lives on. The output is the end of what it has written.
func Shell(ctx context.Context, text string) (code int, output string, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return 0, "", err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", nice, "sh", "-c", text)
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	out.Close()
	if err != nil {
		in.Close()
		return 0, "", err
	}
	kept := &tail{ended: make(chan struct{})}
	go kept.read(in) // until nobody has it open: a server in the background must not die of a closed pipe
	err = cmd.Wait()
	select {
	case <-kept.ended:
	case <-time.After(outputWait):
	}
	if state := cmd.ProcessState; state != nil && state.Exited() { // by itself, even if ctx has ended meanwhile
		err = nil
	}
	return cmd.ProcessState.ExitCode(), kept.text(), err
}

// tail keeps the end of an output.
type tail struct {
	mu    sync.Mutex
	bytes []byte
	cut   bool
	ended chan struct{}
}

func (t *tail) read(in *os.File) {
	defer close(t.ended)
	defer in.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := in.Read(buf)
		t.mu.Lock()
		t.bytes = append(t.bytes, buf[:n]...)
		if more := len(t.bytes) - mostOutput; more > 0 {
			t.bytes = append(t.bytes[:0], t.bytes[more:]...)
			t.cut = true
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is the end of the output, of whole lines if it was cut: half of a credential would not be known as one.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.bytes)
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
