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
