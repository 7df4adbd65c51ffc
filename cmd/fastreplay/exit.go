package main

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitInvalid     = 1   // it finished, but its numbers are not to be trusted, or its rows not all there
	exitUsage       = 2   // bad usage, trace or target; nothing was sent
	exitMissed      = 3   // the run is valid, and the server missed an objective (--require, --max-error-rate)
	exitUndecided   = 4   // there is too little to tell whether a limit holds (--require, compare --fail-if)
	exitInterrupted = 130 // stopped by a signal; the files are whole and marked partial
)

// exitError carries an exit code that is not that of bad usage. Its text is empty where everything has been said.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// exitWith is an error that ends the program with a code.
func exitWith(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

// ending turns how a run ended into its exit code. incomplete is why its results are not all on disk.
func ending(stopped bool, s *metrics.Summary, incomplete error) error {
	text := ""
	if incomplete != nil {
		text = incomplete.Error()
	}
	switch {
	case stopped:
		return &exitError{exitInterrupted, text}
	case incomplete != nil:
		return &exitError{exitInvalid, text}
	case !s.Verdict.Valid && !report.DemoWorked(s):
		return &exitError{code: exitInvalid}
	case s.Verdict.Missed() > 0:
		return &exitError{code: exitMissed}
	case s.Verdict.Undecided() > 0:
		return &exitError{code: exitUndecided}
	}
	return nil
}
