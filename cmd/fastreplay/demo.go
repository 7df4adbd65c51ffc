package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// demoTrace is the name of a demo's trace, which is written into its results.
const demoTrace = "demo.jsonl"

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
			return replay(c.Context(), &o, newTerminal(c.ErrOrStderr()), c.OutOrStdout())
		},
	}
	for _, name := range []string{"output", "scale", "goodput", "require", "full", "json", "verbose", "progress", "quiet"} {
		if flag := all.Lookup(name); flag != nil {
			c.Flags().AddFlag(flag)
		}
	}
	return c
}

// writeDemo writes the demo's trace into a directory of results: 700 requests in 5 s, so that p99 can be judged: conversations behind one system prompt.
func writeDemo(dir string, ui *terminal) (traces []string, err error) {
	at, err := sched.Arrivals{Rate: sched.Steady(140), Process: sched.Poisson, Seed: 2}.Instants(700)
	if err != nil {
		return nil, err
	}
	t, err := trace.Generate(trace.Gen{
		Format: "mooncake", ArrivalNS: at, Burst: 8, BurstEvery: 60, InputTokens: trace.Range{Min: 1100, Max: 6000}, OutputTokens: trace.Range{Min: 20, Max: 100},
		Reuse: 1, Turns: trace.Range{Min: 1, Max: 5}, TurnTokens: trace.Range{Min: 200, Max: 1500}, Active: 150, SystemTokens: 1024, Seed: 2,
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, demoTrace)
	const words = "Demo: 700 requests of a made-up chat service leave at their recorded moments, within 5 s. A mock server answers: the first " +
		"token after 25 ms, then one each 5 ms, with a prefix cache as real servers have it. Watch TTFT, TPOT and prefix hits come out so."
	for _, line := range fillLines(words, cmp.Or(ui.width, 80)) {
		ui.line("%s", line)
	}
	return []string{path}, writeTrace(path, nil, t, t.Format)
}
