package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// given parses a command line of a replay.
func given(t *testing.T, line string) (*options, error) {
	t.Helper()
	o, _, err := typed(strings.Fields(line)...)
	return o, err
}

func TestProofFlags(t *testing.T) {
	for line, want := range map[string]struct {
		verify   int
		overhead workload.Overhead
		capacity int64
	}{
		"":                                   {setup.DefaultVerified, workload.Overhead{}, 0},
		"--tokenizer x --verify-prompts all": {-1, workload.Overhead{}, 0},
		"--tokenizer x --verify-prompts 0":   {0, workload.Overhead{}, 0},
		"--api chat --chat-overhead 20,5":    {setup.DefaultVerified, workload.Overhead{Head: 20, Tail: 5}, 0},
		"--cache-tokens 1.5M":                {setup.DefaultVerified, workload.Overhead{}, 1_500_000},
	} {
		o, err := given(t, "trace.jsonl "+line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		overhead := workload.Overhead{}
		if o.Overhead != nil {
			overhead = *o.Overhead
		}
		if o.VerifyPrompts != want.verify || overhead != want.overhead || o.CacheTokens != want.capacity {
			t.Errorf("%q: %d, %+v, %d; want %+v", line, o.VerifyPrompts, overhead, o.CacheTokens, want)
		}
	}
}

func TestSpinFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{"auto": sched.AutoSpin, "0s": 0, "70µs": 70 * time.Microsecond} {
		o, err := given(t, "trace.jsonl --spin "+text)
		if err != nil || o.Spin != want {
			t.Errorf("--spin %s: %v, %v; want %v", text, o.Spin, err, want)
		}
	}
	if o, _ := given(t, "trace.jsonl"); o.Spin != sched.AutoSpin {
		t.Errorf("without --spin: %v, want auto", o.Spin)
	}
	for _, text := range []string{"-1us", "fast", "", "100"} {
		expect.Refused(parseSpin(text))(t, "", "--spin %q was accepted", text)
	}
}

// TestInterruptedWhileReading: what blocks before the start (here a pipe that nobody writes to) does not outlive an
// interrupt.
func TestInterruptedWhileReading(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "t.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	expect.Equal(t, execute(ctx, []string{"--trace", pipe, "--dry-run"}, stdio{strings.NewReader(""), io.Discard, &errs}), exitInterrupted, "exit: %s", errs.String())
	release := must.Have(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer release.Close()
}
