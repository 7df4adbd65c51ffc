package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/compare"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// comparison is what the flags of compare say.
type comparison struct {
	anyway     bool
	floor      string
	failIf     []string
	gates      []compare.Gate
	json, full bool
	quiet      bool
	html       string
	goodput    goodput
	slos       []metrics.SLO // of goodput
	interleave string
	output     string
}

// newCompareCommand says what changed from a run to others.
func newCompareCommand() *cobra.Command {
	o := &comparison{}
	c := &cobra.Command{
		Use:   "compare A B…",
		Short: "Say what changed from a run to another, and how surely",
		Long: `Say what changed from run A to run B, and to each further one: by how much, how
surely, and in which requests. Runs of the same workload are compared request by
request; others are refused with the difference named.

A change counts if its 95 % interval excludes 0 and it is beyond the noise floor:
what two runs differ by if nothing changed. --floor gives a second run of A for
that; without it the floor is estimated. With --interleave, A and B are servers,
and the runs are made here, with the flags of a replay behind --.

Exit code 3 if a change is beyond a --fail-if; 1 if one of its runs is INVALID.`,
		Example: `  fastreplay compare results/monday results/tuesday
  fastreplay compare base candidate --floor base2 --fail-if "ttft.p99:+5%"
  fastreplay compare --interleave abba gpu1:8000 gpu2:8000 -- trace.jsonl --scale 2`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			words, flags := args, []string(nil)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				words, flags = args[:dash], args[dash:]
			}
			return o.run(c, words, flags)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.floor, "floor", "",
		"`DIR` of a second run of A, from which the noise floor is (default: estimated from A and B)")
	f.StringArrayVar(&o.failIf, "fail-if", nil,
		"exit with 3 if a metric becomes worse by more than a `CHANGE`, such as \"ttft.p99:+5%\", beyond its "+
			"interval and the floor; repeatable")
	o.goodput.addFlag(f)
	f.BoolVar(&o.anyway, "anyway", false, "compare the distributions of runs of different workloads, without pairs")
	addWords(f, &o.interleave, "interleave",
		"make the runs: A, B, B, A one after another (abba), or A and B at the same instants, twice (together)",
		interleaveABBA, interleaveTogether)
	f.StringVarP(&o.output, "output", "o", "",
		"with --interleave: `DIR` for the runs and the page (default: results/<UTC time>-compare)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only what becomes of --fail-if, where the page is, and errors")
	f.BoolVar(&o.json, "json", false, "print each comparison as JSON on standard output")
	f.StringVar(&o.html, "html", "",
		"also write a self-contained HTML page to `FILE`; --interleave writes one beside its runs")
	f.BoolVar(&o.full, "full", false, "print all metrics, explanations and notes, and not one screen of them")
	return c
}

func (o *comparison) run(c *cobra.Command, words, flags []string) error {
	if err := o.check(words, flags); err != nil {
		return err
	}
	ui := newTerminal(c.ErrOrStderr())
	ui.quiet = o.quiet
	results, err := o.results(c.Context(), words, flags, ui)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := report.WriteWhole(o.html, func(w io.Writer) error { return compare.HTML(w, results) }); err != nil {
			return err
		}
	}
	out := c.OutOrStdout()
	t := newTerminal(out)
	print := compare.PrintOptions{
		Width:  t.width,
		Height: t.height,
		Colour: t.coloured(),
		Full:   o.full,
	}
	for i, r := range results {
		switch {
		case o.json:
			err = report.EncodeJSON(out, r)
		case !o.quiet:
			_, err = io.WriteString(out, strings.Repeat("\n", min(i, 1)))
			err = errors.Join(err, compare.Print(out, r, print))
		}
		if err != nil {
			return err
		}
	}
	if !o.json && o.html != "" {
		_, _ = fmt.Fprintln(out, "page  "+format.Visible(o.html))
	}
	broken := false
	for _, r := range results {
		for _, id := range []compare.Identity{r.A, r.B} {
			if len(o.gates) > 0 && id.Demo {
				return fmt.Errorf("--fail-if: "+wasDemo, id.Dirs[0])
			}
			if len(o.gates) > 0 && id.Verdict == strings.ToUpper(string(metrics.Invalid)) {
				return &exitError{
					exitInvalid,
					fmt.Sprintf(
						"--fail-if cannot be judged: a run of %s is INVALID (fastreplay report %s)",
						id.Name, id.Dirs[0],
					),
				}
			}
		}
		for _, gate := range o.gates {
			passed, words := r.Judge(gate)
			if len(results) > 1 {
				words = r.B.Name + ": " + words
			}
			ui.alert("%s   %s", map[bool]string{true: "✓ PASSED", false: "✗ FAILED"}[passed], words)
			broken = broken || !passed
		}
	}
	if broken {
		return &exitError{code: exitMissed}
	}
	return nil
}

// check refuses what the flags cannot mean together.
func (o *comparison) check(words, flags []string) error {
	var err error
	if o.slos, err = o.goodput.parse(); err != nil {
		return err
	}
	for _, text := range o.failIf {
		gate, err := compare.ParseGate(text)
		if err != nil {
			return fmt.Errorf("--fail-if %w", err)
		}
		o.gates = append(o.gates, gate)
	}
	switch {
	case o.interleave != "" && o.floor != "":
		return errors.New("--floor: leave it out with --interleave, which makes two runs of each side")
	case o.interleave != "":
		return nil
	case o.output != "":
		return errors.New("--output is where --interleave puts its runs; --html FILE writes a page")
	case len(flags) > 0:
		return errors.New("flags of a replay behind -- are for --interleave")
	case len(words) < 2:
		return errors.New("compare wants two runs or more, as `fastreplay compare results/A results/B`")
	}
	return nil
}

// results reads the runs, or makes them first, and compares each later side with the first.
func (o *comparison) results(
	ctx context.Context, words, flags []string, ui *terminal,
) (results []*compare.Result, err error) {
	var dirs [][]string // of the sides
	switch {
	case o.interleave != "":
		r, err := newInterleaved(words, flags, o.output, ui)
		if err == nil {
			dirs, err = r.run(ctx, o.interleave)
		}
		if err != nil {
			return nil, err
		}
		o.html, words = cmp.Or(o.html, filepath.Join(r.dir, "compare.html")), nil
	case o.floor != "":
		words = append(words, o.floor)
	}
	for _, word := range words {
		dir, err := runAt(word)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf(
				"there is no directory %s with results; two servers are compared by: fastreplay compare --interleave "+
					"abba URL URL -- FILE",
				word,
			)
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, []string{dir})
	}
	if last := len(dirs) - 1; o.floor != "" {
		dirs[0], dirs = append(dirs[0], dirs[last]...), dirs[:last]
	}
	a, err := compare.ReadSide(o.slos, dirs[0]...)
	if err != nil {
		return nil, err
	}
	for _, runs := range dirs[1:] {
		b, err := compare.ReadSide(a.SLOs, runs...)
		if err != nil {
			return nil, err
		}
		r, err := compare.Compare(a, b, o.anyway)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
