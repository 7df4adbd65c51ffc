package main

import (
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

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
	}
	return nil
}

// mostPaged is of how many requests a run makes a page by itself: 100,000 took 1.3 s, and 1 kB of memory each.
const mostPaged = 1_000_000

// show prints the summary of a run, and writes its page.
func (o *options) show(summary *metrics.Summary, dir string, ui *terminal, out io.Writer) error {
	err := ui.summary(summary, o.full, report.PrintOptions{Dir: dir, Page: writePage(dir, summary, ui), Steps: report.Steps(dir)})
	if err = stillRead(err, ui); err == nil && o.json {
		err = stillRead(report.EncodeJSON(out, summary), ui)
	}
	if err != nil {
		return &exitError{exitInvalid, "printing the summary: " + err.Error()}
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

func addExportFlag(f *pflag.FlagSet, names *[]string) {
	f.StringArrayVar(names, "export", nil, "also write the results as the files of a `TOOL`: "+strings.Join(export.Names(), ", ")+"; repeatable")
}
