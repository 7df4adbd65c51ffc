package main

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
)

// demoTrace describes the trace of a demo: 700 requests in 5 s, so that p99 can be judged, of conversations behind one system prompt.
const demoTrace = compat.Made + "rows=700,rate=140,input-tokens=1100:6000,output-tokens=20:100,reuse=1,turns=1:5,turn-tokens=200:1500,active=150,system-tokens=1024,seed=2"

// newDemoCommand replays a small trace that needs no file against a server that needs no machine.
func newDemoCommand() *cobra.Command {
	var o options
	all := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	o.addFlags(all)
	o.line, o.demo = compat.NewLine(all, false), true
	c := &cobra.Command{
		Use:   "demo",
		Short: "Replay a small trace against the embedded mock server, in 6 s",
		Long: `Replay a small trace against the embedded mock server: no file and no server is needed.
It takes 6 s, ends with DEMO OK, and shows how punctual this machine is.`,
		Example: "  fastreplay demo",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete([]string{demoTrace}); err != nil {
				return err
			}
			ui := newTerminal(c.ErrOrStderr())
			const words = "Demo: 700 requests of a made-up chat service leave at their recorded moments, within 5 s. A mock server answers: the first " +
				"token after 25 ms, then one each 5 ms, with a prefix cache as real servers have it. Watch TTFT, TPOT and prefix hits come out so."
			for _, line := range fillLines(words, cmp.Or(ui.width, 80)) {
				ui.line("%s", line)
			}
			return replay(c.Context(), &o, ui, c.OutOrStdout())
		},
	}
	for _, name := range []string{"output", "scale", "goodput", "require", "full", "json", "verbose", "progress", "quiet"} {
		if flag := all.Lookup(name); flag != nil {
			c.Flags().AddFlag(flag)
		}
	}
	return c
}
