//go:build unix

package host

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// The priorities of commands.
const (
	UsualNice  = 0  // that of this process
	BesideNice = 10 // of what runs beside a run: what sends and reads comes first
)

// mostOutput is how many bytes are kept of a command's output, the last.
const mostOutput = 16 << 10

// Shell runs a command in a process group of its own, lowers its priority by nice, and kills the group when ctx ends.
// What a command leaves behind in the background lives on, also after this process: its output goes to a file without a
// name. The output is the end of what the command has written; "" if there is no place for the file. Without an error
// the command has ended by itself.
func Shell(ctx context.Context, nice int, text string) (code int, output string, err error) {
	said, err := os.CreateTemp("", "fastreplay-said-")
	if err == nil {
		err = os.Remove(said.Name())
	} else {
		said, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	}
	if err != nil {
		return 0, "", err
	}
	defer said.Close() // what was written is read by then
	cmd := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(nice), "sh", "-c", text)
	cmd.Stdout = said
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.Exited() { // by itself, even if ctx has ended meanwhile
		err = nil
	}
	return cmd.ProcessState.ExitCode(), lastOf(said), err
}

// lastOf is the end of an output, of whole lines if it was cut: half of a credential would not be known as one.
func lastOf(said *os.File) string {
	info, err := said.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-mostOutput)
	kept, _ := io.ReadAll(io.NewSectionReader(said, from, mostOutput))
	text := string(kept)
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
