package main

import (
	"bufio"
	gobytes "bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// patience bounds every single process; the longest scenario takes about a minute.
const patience = 5 * time.Minute

// usage is what a process that has ended used.
type usage struct {
	wall, cpu time.Duration
	rssBytes  int64
}

// finish runs a program to its end. Exit codes of `okay` besides 0 are no error. What it said last is part of an error.
func (l *lab) finish(okay []int, line ...string) (stdout []byte, used usage, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=")
	var out, said gobytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	err = cmd.Run()
	used.wall = time.Since(began)
	if s := cmd.ProcessState; s != nil {
		used.cpu = s.UserTime() + s.SystemTime()
		used.rssBytes = maxRSS(s.SysUsage().(*syscall.Rusage))
		for _, code := range okay {
			if s.ExitCode() == code {
				err = nil
			}
		}
	}
	if ctx.Err() != nil && l.ctx.Err() == nil {
		err = fmt.Errorf("still running after %v", patience)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, tail(said.String(), 15))
	}
	return out.Bytes(), used, err
}

func maxRSS(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss) // bytes there
	}
	return int64(u.Maxrss) << 10
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// server is a running mock.
type server struct {
	url, log string
	cmd      *exec.Cmd
	stdin    io.Closer
}

// serve starts a mock behind a prefix such as `taskset -c 1`. It ends when this process does.
func (l *lab) serve(prefix []string, args ...string) (*server, error) {
	log := filepath.Join(l.work, fmt.Sprintf("mock-%d.jsonl", time.Now().UnixNano()))
	line := append(append([]string{}, prefix...), l.fastreplay, "mock", "--die-with-parent", "--log", log)
	s, err := l.listen(append(line, args...)...)
	if err == nil {
		s.log = log
	}
	return s, err
}

// listen starts a program that prints where it listens.
func (l *lab) listen(line ...string) (*server, error) {
	s := &server{}
	s.cmd = exec.CommandContext(l.ctx, line[0], line[1:]...)
	s.cmd.Stderr = l.log
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(said), "listening on ")
	if err != nil || !ok {
		_ = s.stop()
		return nil, fmt.Errorf("%s did not start: it said %q", strings.Join(line, " "), said)
	}
	s.url = url
	return s, nil
}

// stop ends the mock; its log is complete then. The end of its input is enough. A signal beside it could come when the
// mock has already given up its handler, and would then kill it.
func (s *server) stop() error {
	_ = s.stdin.Close()
	return s.cmd.Wait()
}

// untilRunning waits until the mock serves at least n requests at once, or the process gone has ended.
func (s *server) untilRunning(ctx context.Context, n int, gone <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if running, err := s.running(ctx); err == nil && running >= n {
			return nil
		}
		select {
		case <-gone:
			return errors.New("the load ended before it had begun")
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// running asks the mock how many requests it serves.
func (s *server) running(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "\nvllm:num_requests_running{")
	_, value, _ := strings.Cut(after, "} ")
	n := 0
	_, err = fmt.Sscan(value, &n)
	return n, err
}
