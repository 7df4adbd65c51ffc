package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine"
)

// startMoment is what --start-at says: when the first instant of a run is. The zero value is as soon as it is ready.
type startMoment struct {
	at    time.Time
	asked bool // standard input has the moment
}

// readyLine is printed on standard output by a run that waits for its moment.
const readyLine = "ready"

func parseStart(text string) (startMoment, error) {
	if text == "-" {
		return startMoment{asked: true}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(text))
	switch {
	case err != nil:
		return startMoment{}, errors.New("want a moment, such as 2026-01-02T15:04:05.5Z, or -")
	case time.Until(at) < 0:
		return startMoment{}, fmt.Errorf("that was %v ago; want a moment to come", time.Since(at).Round(time.Millisecond))
	}
	return startMoment{at: at}, nil
}

// check refuses a standard input that is to have the trace, too.
func (s startMoment) check(traces []string) error {
	if s.asked && slices.Contains(traces, "-") {
		return errors.New("--start-at - reads the start from standard input, and --trace - the trace; give one of them otherwise")
	}
	return nil
}

// await sets the moment at which run, which is ready, begins, and returns shortly before it. If standard input has the moment and ends
// before the run does, whoever drives the run has gone: it is interrupted.
func (s startMoment) await(ctx context.Context, run *engine.Run, interrupts *interrupts, out io.Writer) error {
	if s.asked {
		if _, err := fmt.Fprintln(out, readyLine); err != nil {
			return err
		}
		in := bufio.NewReader(os.Stdin)
		line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
		if err != nil {
			return fmt.Errorf("--start-at -: no moment came on standard input: %w", err)
		}
		if s.at, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(line)); err != nil {
			return fmt.Errorf("--start-at -: %q is no moment; want one such as 2026-01-02T15:04:05.5Z", line)
		}
		go func() {
			_, _ = io.Copy(io.Discard, in)
			interrupts.interrupt(true)
		}()
	}
	if s.at.IsZero() {
		return nil
	}
	run.StartAt(s.at)
	const early = 200 * time.Millisecond // for what is done between here and the start
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(s.at) - early):
		return nil
	}
}
