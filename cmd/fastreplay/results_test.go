package main

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestSummaryThatCannotBePrinted: the requests have been sent, so it is not the exit code of bad usage.
func TestSummaryThatCannotBePrinted(t *testing.T) {
	for name, s := range map[string]*results{
		"terminal": {built: &built{prepared: &prepared{o: &options{}, ui: newTerminal(fullDisk{})}}, out: io.Discard, dir: t.TempDir()},
		"JSON":     {built: &built{prepared: &prepared{o: &options{resultOptions: resultOptions{json: true}}, ui: newTerminal(io.Discard)}}, out: fullDisk{}, dir: t.TempDir()},
	} {
		s.dir = t.TempDir()
		err := s.show(new(metrics.Summary))
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitInvalid || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("%s: %v, want exit code %d and the cause", name, err, exitInvalid)
		}
	}
}

// TestEnding: an interrupted run says what the disk lacks, too. A demo fails only if the program did, and an objective that was missed
// has a code of its own.
func TestEnding(t *testing.T) {
	verdict := func(demo bool, codes ...string) *metrics.Summary {
		s := &metrics.Summary{Run: metrics.Run{Demo: demo}, Verdict: metrics.Verdict{Measurement: metrics.Valid, Valid: true}}
		for _, code := range codes {
			s.Verdict.Reasons = append(s.Verdict.Reasons, metrics.Reason{Code: metrics.Code(code), Grade: metrics.Invalid})
			s.Verdict.Measurement, s.Verdict.Valid = metrics.Invalid, false
		}
		return s
	}
	valid, missed := verdict(false), verdict(false)
	missed.Verdict.Objectives = []metrics.Objective{{Met: true}, {}}
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
		{false, valid, syscall.ENOSPC, exitInvalid, "results are incomplete on disk: no space left on device"},
		{true, valid, syscall.ENOSPC, exitInterrupted, "results are incomplete on disk: no space left on device"},
		{false, missed, nil, exitMissed, ""},
		{false, verdict(true), nil, exitOK, ""},
		{false, verdict(true, "drift", "receive_lag", "starved", "client_failures"), nil, exitOK, ""},
		{false, verdict(true, "drift", "prompts"), nil, exitInvalid, ""},
		{true, verdict(true), nil, exitInterrupted, ""},
	} {
		err := ending(c.stopped, c.s, c.disk)
		if c.code == exitOK {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != c.code || err.Error() != c.says {
			t.Errorf("%+v: %#v", c, err)
		}
	}
}

// TestUnnamed: what was asked for by name and came nowhere is said, once somebody has answered.
func TestUnnamed(t *testing.T) {
	nobody, silent, named := metrics.Summary{}, metrics.Summary{Requests: metrics.Requests{OK: 1}}, metrics.Summary{Requests: metrics.Requests{OK: 2}, Instances: &metrics.Breakdown{}}
	for _, c := range []struct {
		line string
		s    metrics.Summary
		want string
	}{
		{"", silent, ""},
		{"--instance-header x-a", nobody, ""},
		{"--instance-header x-a", named, ""},
		{"--instance-header x-a", silent, "no answer had the header x-a: which instance answered is unknown"},
		{"--instance-header x-a --instance-header x-b", silent, "no answer had the header x-a or x-b: which instance answered is unknown"},
		{"--instance-field a.b", silent, "no answer had the field a.b: which instance answered is unknown"},
		{"--instance-field a --instance-header x-a", silent, "no answer had the header x-a or the field a: which instance answered is unknown"},
	} {
		o, err := given(t, "trace.jsonl "+c.line)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(o.unnamed(&c.s), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

func TestInstanceFieldIsAPath(t *testing.T) {
	for _, field := range []string{"..", "", "a.", ".a", "a..b"} {
		if _, err := given(t, "trace.jsonl --instance-field="+field); err == nil || !strings.Contains(err.Error(), "want keys with dots between them") {
			t.Errorf("--instance-field %q: %v", field, err)
		}
	}
}
