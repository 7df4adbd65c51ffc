package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/merge"
	"github.com/fastreplay/fastreplay/engine/report"
)

// newMergeCommand makes one run of the results of shards.
func newMergeCommand() *cobra.Command {
	var output string
	var asJSON, full, quiet bool
	var r requirements
	c := &cobra.Command{
		Use:   "merge DIR…",
		Short: "Make one run of the results of machines that sent a load together",
		Long: `Make one run of the results of machines that sent a load together, with --shard.

The DIRs are those that the shards wrote, or one that has them all. The result is a directory as one machine would have
written it: report, compare and inspect take it. A shard that is missing, or that ended early, is named, and
its requests count as not sent. Exit codes are those of a run.`,
		Example: `  fastreplay merge results/shard-*
  fastreplay merge /results --output /results/all --require "ttft.p99<500ms"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check(); err != nil {
				return err
			}
			ui := newTerminal(c.ErrOrStderr())
			ui.quiet = quiet
			shards, err := merge.Open(args)
			if err != nil {
				return err
			}
			dir, err := report.Create(output, time.Now())
			if err != nil {
				return err
			}
			done, end := ui.Work(
				"merging",
				shards.Records(), func(n int64) string { return format.Count(n) + " records" },
			)
			s, err := shards.Write(dir, done)
			if end(); err != nil {
				return errors.Join(err, os.RemoveAll(dir))
			}
			if err := r.judgeAgain(dir, s); err != nil {
				return err
			}
			page := func(w io.Writer) error { return report.HTML(w, dir, s) }
			if err := ui.show(s, dir, page, full, asJSON, c.OutOrStdout()); err != nil {
				return err
			}
			return ending(false, s, nil)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&output, "output", "o", "", "`DIR` for the results (default: results/<UTC time>)")
	r.addFlag(f)
	f.BoolVar(&full, "full", false, "print all that the summary has, and not one screen of it")
	f.BoolVar(&asJSON, "json", false, "print the summary as JSON on standard output")
	f.BoolVarP(&quiet, "quiet", "q", false, "print only the verdict, where the results are, and errors")
	return c
}
