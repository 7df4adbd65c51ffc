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
	for name, r := range map[string]*replay{
		"terminal": {o: &options{}, out: io.Discard, say: newTerminal(fullDisk{})},
		"JSON":     {o: &options{json: true}, out: fullDisk{}, say: newTerminal(io.Discard)},
	} {
		err := (&results{r: r}).show(new(metrics.Summary))
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitInvalid || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("%s: %v, want exit code %d and the cause", name, err, exitInvalid)
		}
	}
}

// TestEnding: an interrupted run says what the disk lacks, too.
func TestEnding(t *testing.T) {
	for _, c := range []struct {
		stopped, valid bool
		disk           error
		code           int
		says           string
	}{
		{false, true, nil, exitOK, ""},
		{false, false, nil, exitInvalid, ""},
		{true, false, nil, exitInterrupted, ""},
		{false, true, syscall.ENOSPC, exitInvalid, "results are incomplete on disk: no space left on device"},
		{true, false, syscall.ENOSPC, exitInterrupted, "results are incomplete on disk: no space left on device"},
	} {
		err := ending(c.stopped, c.valid, c.disk)
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
