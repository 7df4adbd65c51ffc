package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/scrape"
)

// lab is what every scenario works with.
type lab struct {
	ctx        context.Context
	fastreplay string // the binary under test
	self       string // this program, for rivals and the floor
	work       string // directory for traces and results of runs
	traces     string // FASTREPLAY_TRACES; "" = not given
	quick      bool   // short versions, to see that everything works
	log        io.Writer
	results    results
	made       map[string]string // traces by their arguments
	known      []mode            // found once
}

func newLab(ctx context.Context, binary string, quick bool, log io.Writer) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "fastreplay-bench-")
	return &lab{
		ctx:        ctx,
		fastreplay: binary,
		self:       self,
		work:       work,
		traces:     os.Getenv("FASTREPLAY_TRACES"),
		quick:      quick,
		log:        log,
		made:       map[string]string{},
	}, err
}

// round is one run of one scenario.
type round struct {
	*lab
	scenario string
	number   int
	lines    []lineOf
	servers  []*server // stopped when the scenario ends
}

// put notes a value; NaN, a measure without samples, is left out.
func (r *round) put(who, name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	for i := range r.lines {
		l := &r.lines[i]
		if l.who == who {
			l.measures = append(l.measures, measure{name, v})
			return
		}
	}
	r.lines = append(r.lines, lineOf{r.scenario, who, []measure{{name, v}}})
}

func (r *round) skip(format string, args ...any) {
	r.results.skip("%s: %s", r.scenario, fmt.Sprintf(format, args...))
}

// subject is one who is measured in a scenario.
type subject struct {
	who string
	run func() error
}

// alternate measures the subjects one after the other, beginning with another one in each run.
func (r *round) alternate(subjects ...subject) error {
	for i := range subjects {
		s := subjects[(i+r.number)%len(subjects)]
		fmt.Fprintf(r.log, "  %s, run %d: %s\n", r.scenario, r.number+1, s.who)
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.who, err)
		}
	}
	return nil
}

// mode is how the kernel schedules a sender or a waiter: its name and the value of --realtime.
type mode struct{ name, realtime string }

var (
	fifo  = mode{"SCHED_FIFO", "on"}
	slice = mode{"short slice", "off"}
)

// us names fastreplay in a mode.
func us(m mode) string { return "fastreplay, " + m.name }

// modes are the placements that this machine can be asked for, the best one first.
func (l *lab) modes() []mode {
	if l.known == nil {
		l.known = []mode{slice}
		if exec.CommandContext(l.ctx, l.self, waitCommand, "--realtime", "on", "--duration", "1ms").Run() == nil {
			l.known = []mode{fifo, slice}
		}
	}
	return l.known
}

// best is the first of modes.
func (l *lab) best() mode { return l.modes()[0] }

// lasting is a duration in a full run, and the tenth of it in a quick one.
func (l *lab) lasting(d time.Duration) time.Duration {
	if l.quick {
		return d / 10
	}
	return d
}

// trace makes a trace of equal requests with `fastreplay gen`, once for equal arguments.
func (l *lab) trace(rows, rate, inputTokens, outputTokens int, more ...string) (string, error) {
	flags := fmt.Sprintf("--rows %d --rate %d --input-tokens %d --output-tokens %d --arrival constant --seed 1",
		rows, rate, inputTokens, outputTokens)
	args := append(strings.Fields(flags), more...)
	line := strings.Join(args, " ")
	if path, ok := l.made[line]; ok {
		return path, nil
	}
	path := filepath.Join(l.work, fmt.Sprintf("trace-%d.jsonl", len(l.made)))
	if _, _, err := l.finish(append([]string{l.fastreplay, "gen", "--output", path}, args...)...); err != nil {
		return "", err
	}
	l.made[line] = path
	return path, nil
}

// conversation is the published conversation trace; "" where this machine does not have it.
func (r *round) conversation() string {
	path := filepath.Join(r.traces, "mooncake-conversation.jsonl.zst")
	if _, err := os.Stat(path); r.traces == "" || err != nil {
		r.skip("needs mooncake-conversation.jsonl.zst in the folder that FASTREPLAY_TRACES names")
		return ""
	}
	return path
}

// patience bounds every single process; the longest scenario takes about a minute.
const patience = 5 * time.Minute

// finish runs a program to its end. What it printed last is part of an error.
func (l *lab) finish(line ...string) (stdout []byte, used *os.ProcessState, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=")
	var out, printed bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &printed
	err = cmd.Run()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
		err = fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return out.Bytes(), cmd.ProcessState, err
}

// server is a running mock.
type server struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// serve starts a mock.
func (r *round) serve(args ...string) (*server, error) {
	return r.listen(append([]string{r.fastreplay, "mock", "--die-with-parent"}, args...)...)
}

// listen starts a program that prints where it listens. It ends with the scenario.
func (r *round) listen(line ...string) (*server, error) {
	s := &server{cmd: exec.CommandContext(r.ctx, line[0], line[1:]...)}
	s.cmd.Stderr = r.log
	stdin, errIn := s.cmd.StdinPipe()
	stdout, errOut := s.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, s.cmd.Start()); err != nil {
		return nil, err
	}
	s.stdin = stdin
	printed, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(printed), "listening on ")
	if err != nil || !ok {
		_ = s.stop()
		return nil, fmt.Errorf("%s did not start: it printed %q", strings.Join(line, " "), printed)
	}
	s.url = url
	r.servers = append(r.servers, s)
	return s, nil
}

// stop ends the mock. The end of its input is enough. A signal beside it could come when the mock has already given up
// its handler, and would then kill it.
func (s *server) stop() error {
	_ = s.stdin.Close()
	return s.cmd.Wait()
}

// untilRunning waits until the mock serves at least n requests at once, or the process gone has ended.
func (s *server) untilRunning(ctx context.Context, n int, gone <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(s.url + "/metrics"); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			page, err := scrape.NewReader().Read(text)
			if err == nil && page.Running != nil && *page.Running >= float64(n) {
				return nil
			}
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
