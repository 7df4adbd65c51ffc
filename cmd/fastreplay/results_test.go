package main

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestSummaryThatCannotBePrinted: the requests have been sent, so it is not the exit code of bad usage.
func TestSummaryThatCannotBePrinted(t *testing.T) {
	for name, c := range map[string]struct {
		json    bool
		ui, out io.Writer
	}{
		"terminal": {false, fullDisk{}, io.Discard},
		"JSON":     {true, io.Discard, fullDisk{}},
	} {
		err := newTerminal(c.ui).show(new(metrics.Summary), t.TempDir(), func(io.Writer) error { return nil }, false, c.json, c.out)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitInvalid || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("%s: %v, want exit code %d and the cause", name, err, exitInvalid)
		}
	}
}

// TestEnding: an interrupted run says what the disk lacks, too. A demo fails only if the program did, and an objective
// that was missed has a code of its own.
func TestEnding(t *testing.T) {
	verdict := func(demo bool, codes ...string) *metrics.Summary {
		s := &metrics.Summary{Run: metrics.Run{Demo: demo}, Verdict: metrics.Verdict{Measurement: metrics.Valid, Valid: true}}
		for _, code := range codes {
			s.Verdict.Reasons = append(s.Verdict.Reasons, metrics.Reason{Code: metrics.Code(code), Grade: metrics.Invalid})
			s.Verdict.Measurement, s.Verdict.Valid = metrics.Invalid, false
		}
		return s
	}
	valid, missed, undecided := verdict(false), verdict(false), verdict(false)
	missed.Verdict.Objectives = []metrics.Objective{{Met: true}, {Needed: 662}, {}}
	undecided.Verdict.Objectives = []metrics.Objective{{Met: true}, {Needed: 662}}
	for _, c := range []struct {
		stopped bool
		s       *metrics.Summary
		disk    error
		code    int
		says    string
	}{
		{false, valid, nil, exitOK, ""},
		{false, verdict(false, "drift"), nil, exitInvalid, ""},
		{true, verdict(false, "interrupted"), nil, exitInterrupted, ""},
		{false, valid, syscall.ENOSPC, exitInvalid, "no space left on device"},
		{true, valid, syscall.ENOSPC, exitInterrupted, "no space left on device"},
		{false, missed, nil, exitMissed, ""},
		{false, undecided, nil, exitUndecided, ""},
		{false, verdict(true), nil, exitOK, ""},
		{false, verdict(true, "drift", "receive_lag", "starved", "client_failures"), nil, exitOK, ""},
		{false, verdict(true, "drift", "prompts"), nil, exitInvalid, ""},
		{true, verdict(true), nil, exitInterrupted, ""},
	} {
		err := ending(c.stopped, c.s, c.disk)
		if c.code == exitOK {
			expect.Equal(t, err, nil, c)
			continue
		}
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != c.code || err.Error() != c.says {
			t.Errorf("%+v: %#v", c, err)
		}
	}
}
