package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// rangeFlag is a flag of the form N or MIN:MAX.
type rangeFlag struct{ r *trace.Range }

func (v rangeFlag) String() string {
	if v.r == nil {
		return ""
	}
	if v.r.Min == v.r.Max {
		return strconv.Itoa(v.r.Min)
	}
	return fmt.Sprintf("%d:%d", v.r.Min, v.r.Max)
}

func (v rangeFlag) Type() string { return "N|MIN:MAX" }

func (v rangeFlag) Set(text string) error {
	from, to, two := strings.Cut(text, ":")
	if !two {
		to = from
	}
	lo, errLo := strconv.Atoi(from)
	hi, errHi := strconv.Atoi(to)
	if errLo != nil || errHi != nil || lo > hi {
		return fmt.Errorf("want a number, or MIN:MAX")
	}
	*v.r = trace.Range{Min: lo, Max: hi}
	return nil
}

func newGenCommand() *cobra.Command {
	g := trace.DefaultGen()
	var output string
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Make a trace from a description",
		Long:  "Make a trace from a description and print it, or write it to --output. Equal descriptions with equal seeds make equal traces.",
		Example: `  fastreplay gen --rows 20000 --rate 2000 --arrival constant --input-tokens 3300 --output-tokens 20 > load.jsonl
  fastreplay gen --format bailian --rows 500 --turns 1:6 --system-tokens 800 --reuse 0.6 --output chat.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := trace.Generate(g)
			if err != nil {
				return err
			}
			return writeTrace(output, cmd.OutOrStdout(), t, t.Format)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&g.Format, "format", g.Format, "format to write: "+strings.Join(trace.Formats(), ", "))
	f.IntVar(&g.Rows, "rows", g.Rows, "requests")
	f.Float64Var(&g.Rate, "rate", g.Rate, "mean requests per second")
	f.StringVar(&g.Arrival, "arrival", g.Arrival, "spacing: poisson or constant")
	f.IntVar(&g.Burst, "burst", 0, "of every --burst-every requests, this many share one instant")
	f.IntVar(&g.BurstEvery, "burst-every", 0, "requests from one burst to the next")
	f.Var(rangeFlag{&g.InputTokens}, "input-tokens", "tokens of a conversation's first prompt; the maximum bounds later ones too")
	f.Var(rangeFlag{&g.OutputTokens}, "output-tokens", "tokens to generate")
	f.Float64Var(&g.Reuse, "reuse", 0, "wanted share (0..1) of blocks that an earlier request had already")
	f.IntVar(&g.BlockTokens, "block-tokens", 0, "tokens a block (default: the format's)")
	f.Var(rangeFlag{&g.Turns}, "turns", "requests of a conversation")
	f.Var(rangeFlag{&g.TurnTokens}, "turn-tokens", "tokens that a later turn adds")
	f.IntVar(&g.Active, "active", 0, "conversations that go on at once (default: one for every eight rows)")
	f.IntVar(&g.SystemTokens, "system-tokens", 0, "tokens with which all conversations begin")
	f.Uint64Var(&g.Seed, "seed", 0, "seed")
	f.StringVar(&output, "output", "", "`FILE` to write (default: standard output); never overwritten")
	return cmd
}

// writeTrace writes to a new file, or to stdout where path is empty.
func writeTrace(path string, stdout io.Writer, t *trace.Trace, format string) error {
	if path == "" {
		return trace.Write(stdout, t, format)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return errors.Join(trace.Write(f, t, format), f.Close())
}
