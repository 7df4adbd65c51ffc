package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine"
)

// startMoment is what --start-at says: when the first instant of a run is. The zero value is as soon as it is ready.
type startMoment struct {
	at    time.Time
	asked bool // standard input has the moment
}

func parseStart(text string) (s startMoment, err error) {
	if text == "-" {
		return startMoment{asked: true}, nil
	}
	if s.at, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(text)); err != nil {
		return s, errors.New("want a moment, such as 2026-01-02T15:04:05.5Z, or -")
	}
	if ago := time.Since(s.at); ago > 0 {
		return s, fmt.Errorf("that was %v ago; want a moment to come", ago.Round(time.Millisecond))
	}
	return s, nil
}

// await sets the moment at which run, which is ready, begins, and returns shortly before it. If standard input has the moment and ends
// before the run does, whoever drives the run has gone: that counts as an interrupt.
func (s startMoment) await(ctx context.Context, run *engine.Run, interrupts *interrupts, out io.Writer) (err error) {
	if s.asked {
		if _, err := fmt.Fprintln(out, "ready"); err != nil {
			return err
		}
		in := bufio.NewReader(os.Stdin)
		text, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
		if err == nil {
			s, err = parseStart(text)
		}
		if err != nil {
			return fmt.Errorf("--start-at -: standard input gave no moment: %w", err)
		}
		go func() {
			_, _ = io.Copy(io.Discard, in)
			interrupts.interrupt(false)
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
