package main

import (
	"errors"
	"io"
	"path/filepath"
	"syscall"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// show prints the summary of a run, in full or on one screen, and as JSON on out if that is asked for. It writes the
// page of the run.
func (ui *terminal) show(
	summary *metrics.Summary, dir string, page func(io.Writer) error, full, asJSON bool, out io.Writer,
) error {
	err := ui.summary(
		summary, full,
		report.PrintOptions{
			Dir:   dir,
			Page:  writePage(dir, summary, page, ui),
			Steps: report.Steps(dir),
		},
	)
	ui.annotate(report.Annotations(summary)...)
	if err = stillRead(err, ui); err == nil && asJSON {
		err = stillRead(report.EncodeJSON(out, summary), ui)
	}
	if err != nil {
		return exitWith(exitInvalid, "printing the summary: %v", err)
	}
	return nil
}

// stillRead returns err, unless it means that the pipe or the terminal was closed: the results are on disk.
func stillRead(err error, ui *terminal) error {
	if errors.Is(err, syscall.EPIPE) || ui.width > 0 && errors.Is(err, syscall.EIO) {
		return nil
	}
	return err
}

// writePage writes report.html and returns where it is; "" if there is none, with a line on the terminal.
func writePage(dir string, s *metrics.Summary, page func(io.Writer) error, ui *terminal) string {
	const mostPaged = 1_000_000 // requests: of shards, 100,000 took 1.3 s, and 1 kB of memory each
	name := filepath.Join(dir, report.PageName)
	if s.Requests.Planned > mostPaged {
		ui.line("no %s of so many requests by itself: fastreplay report %s --html %s", report.PageName, dir, name)
		return ""
	}
	if err := report.WriteWhole(name, page); err != nil {
		ui.line("no %s: %v", report.PageName, err)
		return ""
	}
	return name
}
