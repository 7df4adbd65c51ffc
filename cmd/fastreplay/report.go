package main

import (
	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/report"
)

// newReportCommand prints what an earlier run found, from its files alone.
func newReportCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the summary of a run from its results on disk",
		Long: `Print the summary of a run from its results on disk, the verdict first.

DIR is the output directory of a run. If the run was killed and left no summary,
one is made of the records that are on disk.`,
		Example: "  fastreplay report results/2026-01-02T150405Z",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := report.Load(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return report.EncodeSummary(c.OutOrStdout(), s)
			}
			return newTerminal(c.OutOrStdout()).summary(s, args[0])
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return c
}
