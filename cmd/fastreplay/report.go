package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/report"
)

// newReportCommand prints what an earlier run found, from its files alone.
func newReportCommand() *cobra.Command {
	var asJSON bool
	var exports []string
	var html string
	var g goodput
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the summary of a run from its results on disk",
		Long: `Print the summary of a run from its results on disk, the verdict first.

DIR is the output directory of a run. If the run was killed and left no summary,
one is made of the records that are on disk. With --goodput the SLOs are these and
not the run's own, and requests are counted again by their records.`,
		Example: `  fastreplay report results/2026-01-02T150405Z
  fastreplay report results/2026-01-02T150405Z --goodput "ttft:300 tpot:30"
  fastreplay report results/2026-01-02T150405Z --html report.html
  fastreplay report results/2026-01-02T150405Z --export vllm`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(g.complete(), checkExports(exports)); err != nil {
				return err
			}
			s, err := report.Load(args[0], g.slos...)
			if err != nil {
				return err
			}
			say := newTerminal(c.ErrOrStderr())
			if err := writeExports(say, args[0], exports, g.slos...); err != nil {
				if errors.Is(err, export.ErrExists) { // a file in the way is the user's to mend
					return err
				}
				return &exitError{exitInvalid, err.Error()}
			}
			if html != "" {
				if err := report.WriteWhole(html, func(w io.Writer) error { return report.HTML(w, args[0], s) }); err != nil {
					return err
				}
				say.line("written: %s", html)
			}
			if asJSON {
				return report.EncodeJSON(c.OutOrStdout(), s)
			}
			return newTerminal(c.OutOrStdout()).summary(s, args[0])
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	c.Flags().StringVar(&html, "html", "", "also write a self-contained HTML page, with what happened by time, to `FILE`")
	addExportFlag(c.Flags(), &exports)
	g.addFlag(c.Flags())
	return c
}
