package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/doctor"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/report"
)

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine lacks for exact latencies, and the remedy",
		Long: `Say what this machine lacks for punctual sending and exact latencies, and the remedy.

It measures for some 3 seconds, and needs no server. Lateness and lost CPU time are those of now:
if others use this machine, run it again.`,
		Example: "  fastreplay doctor",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := doctor.Examine()
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				return report.EncodeJSON(out, d)
			}
			_, err = io.WriteString(out, diagnosis(d, newTerminal(out).coloured()))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	return c
}

// diagnosis has a line for each check, its remedy below it, and at last what all of it means.
func diagnosis(d *doctor.Diagnosis, colour bool) (text string) {
	marks := map[doctor.Grade]string{doctor.Fine: "✓", doctor.Poor: "!", doctor.Bad: "✗"}
	colours := map[doctor.Grade]string{doctor.Fine: "32", doctor.Poor: "33", doctor.Bad: "31"}
	for _, c := range d.Checks {
		mark := marks[c.Grade]
		if colour {
			mark = "\x1b[" + colours[c.Grade] + "m" + mark + "\x1b[0m"
		}
		text += fmt.Sprintf("  %s %-18s %s\n", mark, c.Name, format.Visible(c.Found))
		if c.Remedy != "" {
			text += "      → " + c.Remedy + "\n"
		}
	}
	return text + "\n  " + d.Conclusion + "\n"
}
