package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
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
	help       string            // of fastreplay and its mock: which flags they have
	made       map[string]string // traces by their arguments
	known      []mode            // found once
}

// scenario is one load with all who are measured under it.
type scenario struct {
	name  string // family/variant
	about string
	run   func(r *round) error
}

// round is one run of one scenario.
type round struct {
	*lab
	scenario string
	number   int
	results  *results
}

func (r *round) put(who, name string, u unit, v float64) {
	r.results.put(r.number, key{r.scenario, who, name}, u, v)
}

func (r *round) skip(format string, args ...any) {
	r.results.skip(r.scenario, fmt.Sprintf(format, args...))
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

// lasting is a duration in a full run, and the tenth of it in a quick one.
func (l *lab) lasting(d time.Duration) time.Duration {
	if l.quick {
		return d / 10
	}
	return d
}

// has tells whether fastreplay, or its mock, knows a flag.
func (l *lab) has(flag string) bool {
	return strings.Contains(l.help, " "+flag+" ")
}

// trace makes a trace with `fastreplay gen`, once for equal arguments.
func (l *lab) trace(args ...string) (string, error) {
	line := strings.Join(args, " ")
	if path, ok := l.made[line]; ok {
		return path, nil
	}
	path := filepath.Join(l.work, fmt.Sprintf("trace-%d.jsonl", len(l.made)))
	if out, err := exec.CommandContext(l.ctx, l.fastreplay, append([]string{"gen", "--output", path}, args...)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("fastreplay gen %s: %w\n%s", line, err, out)
	}
	l.made[line] = path
	return path, nil
}

// conversation is the published conversation trace; "" where this machine does not have it.
func (l *lab) conversation() string {
	path := filepath.Join(l.traces, "mooncake-conversation.jsonl.zst")
	if _, err := os.Stat(path); l.traces == "" || err != nil {
		return ""
	}
	return path
}

// noConversation is why a scenario with it was skipped.
const noConversation = "needs mooncake-conversation.jsonl.zst in the folder that FASTREPLAY_TRACES names"

// scratch is a new directory for one process's files; the returned function removes it.
func (l *lab) scratch() (string, func(), error) {
	dir, err := os.MkdirTemp(l.work, "run-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
