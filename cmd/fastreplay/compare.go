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
	"github.com/fastreplay/fastreplay/engine/setup"
)

// comparison is what the flags of compare say.
type comparison struct {
	anyway     bool
	floor      []string
	failIf     []string
	undecided  string
	gates      []compare.Gate
	json, full bool
	markdown   bool
	quiet      bool
	html       string
	goodput    goodput
	slos       []metrics.SLO // of goodput
	interleave string
	runs       int
	restart    string
	output     string
}

// newCompareCommand says what changed from a run to others.
func newCompareCommand() *cobra.Command {
	o := &comparison{}
	c := &cobra.Command{
		Use:   "compare A… -- B…",
		Short: "Say what changed from a run to another, and how surely",
		Long: `Say what changed from side A to side B: by how much, how surely, and in which
requests. Runs of the same workload are compared request by request; others are
refused with the difference named.

A server settles differently each time, so give several runs a side, three or
more: A1 A2 A3 -- B1 B2 B3. Intervals then contain what differs from run to run.
Without --, each run after the first is compared with it, and what is said holds
for these two runs alone. --floor gives further runs of A. The word recorded is
what the trace recorded of itself, as some of agents do. With --interleave, A
and B are servers, and the runs are made here, with the flags of a replay behind
--.

A --fail-if is PASSED if the whole interval is within the limit, FAILED if it is
beyond it, and else UNDECIDED. Exit code 3 if one is FAILED, 4 if one is UNDECIDED
(see --undecided), 1 if one of its runs is INVALID.`,
		Example: `  fastreplay compare --interleave abba gpu1:8000 gpu2:8000 \
    -- trace.jsonl --scale 2
  fastreplay compare base1 base2 base3 -- new1 new2 new3 \
    --fail-if "ttft.p99:+5%"
  fastreplay compare results/monday results/tuesday
  fastreplay compare recorded results/monday`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			words := args
			var behind []string
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				words = args[:dash]
				behind = append([]string{}, args[dash:]...)
			}
			if o.interleave == "" && len(behind) > 0 { // flags of this command may follow the runs of B
				if err := c.ParseFlags(behind); err != nil {
					return fmt.Errorf("%w (flags of a replay behind -- are for --interleave)", explainFlag(c, err))
				}
				behind = c.Flags().Args()
			}
			return o.run(c, words, behind)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVar(&o.floor, "floor", nil,
		"`DIR` of another run of A, which tells how far runs differ; repeatable")
	f.StringArrayVar(&o.failIf, "fail-if", nil,
		"a metric must not become worse by more than a `CHANGE`, such as \"ttft.p99:+5%\": exit with 3 if it does, "+
			"and with 4 if these runs do not tell; repeatable")
	addWords(f, &o.undecided, "undecided",
		"what an UNDECIDED --fail-if counts as: pass or fail (default: neither, exit code 4)",
		undecidedPass, undecidedFail)
	o.goodput.addFlag(f)
	f.BoolVar(&o.anyway, "anyway", false, "compare the distributions of runs of different workloads, without pairs")
	addWords(f, &o.interleave, "interleave",
		"make the runs: A, B, B, A, … one after another (abba), or A and B at the same instants (together)",
		interleaveABBA, interleaveTogether)
	f.IntVar(&o.runs, "runs", defaultRuns, "with --interleave: `N` runs a side")
	f.StringVar(&o.restart, "restart", "",
		"with --interleave: a shell `COMMAND` to run between the runs, which returns when the servers are ready")
	f.StringVarP(&o.output, "output", "o", "",
		"with --interleave: `DIR` for the runs and the page (default: results/<UTC time>-compare)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only what becomes of --fail-if, where the page is, and errors")
	f.BoolVar(&o.json, "json", false, "print each comparison as JSON on standard output")
	f.BoolVar(&o.markdown, "markdown", false, "print each comparison as Markdown, as for the summary of a pull request")
	f.StringVar(&o.html, "html", "",
		"also write a self-contained HTML page to `FILE`; --interleave writes one beside its runs")
	f.BoolVar(&o.full, "full", false, "print all metrics, explanations and notes, and not one screen of them")
	return c
}

func (o *comparison) run(c *cobra.Command, words, behind []string) error {
	if err := o.check(words, behind); err != nil {
		return err
	}
	ui := newTerminal(c.ErrOrStderr())
	ui.quiet = o.quiet
	results, err := o.results(c.Context(), words, behind, ui)
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
		case o.markdown:
			err = compare.Markdown(out, r, o.gates)
		case !o.quiet:
			_, err = io.WriteString(out, strings.Repeat("\n", min(i, 1)))
			err = errors.Join(err, compare.Print(out, r, print))
		}
		if err != nil {
			return err
		}
	}
	if !o.json && !o.markdown && o.html != "" {
		_, _ = fmt.Fprintln(out, "page  "+format.Visible(o.html))
	}
	ending := exitOK
	for _, r := range results {
		for _, id := range []compare.Identity{r.A, r.B} {
			if len(o.gates) > 0 && id.Demo {
				return fmt.Errorf("--fail-if: "+wasDemo, id.Dirs[0])
			}
			if len(o.gates) > 0 && id.Verdict == strings.ToUpper(string(metrics.Invalid)) {
				return exitWith(exitInvalid,
					"--fail-if cannot be judged: a run of %s is INVALID (fastreplay report %s)",
					id.Name, id.Dirs[0])
			}
		}
		marks := map[compare.Answer]string{compare.Passed: "✓", compare.Failed: "✗", compare.Undecided: "?"}
		for _, gate := range o.gates {
			answer, words := r.Judge(gate)
			if len(results) > 1 {
				words = r.B.Name + ": " + words
			}
			code := o.codeOf(answer)
			if answer == compare.Undecided && o.undecided != "" {
				words += "; it counts as " + o.undecided + " (--undecided)"
			}
			ui.alert("%s %s   %s", marks[answer], answer, words)
			if code != exitOK {
				ui.annotate(format.Annotation("error", string(answer)+" "+words))
			}
			if code == exitMissed || ending == exitOK {
				ending = code
			}
		}
	}
	if ending != exitOK {
		return &exitError{code: ending}
	}
	return nil
}

// The values of --undecided.
const (
	undecidedPass = "pass"
	undecidedFail = "fail"
)

// codeOf is the exit code of an answer of a gate.
func (o *comparison) codeOf(answer compare.Answer) int {
	switch {
	case answer == compare.Passed, answer == compare.Undecided && o.undecided == undecidedPass:
		return exitOK
	case answer == compare.Failed, o.undecided == undecidedFail:
		return exitMissed
	}
	return exitUndecided
}

// theRecord is the word for what a trace recorded of itself, as a side.
const theRecord = "recorded"

// recordOf reads the trace of a run again, with the flags of that run, for what it recorded of itself.
func recordOf(ctx context.Context, dir string, b *compare.Side) (*compare.Side, error) {
	o, err := parseReplay([]string{"--config", dir})
	if err == nil {
		err = o.translate(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("the trace of %s: %w", dir, err)
	}
	t, err := setup.Read(ctx, &o.Options)
	if err != nil {
		return nil, fmt.Errorf("the trace of %s: %w", dir, err)
	}
	return compare.Recorded(t, b)
}

// check refuses what the flags cannot mean together.
func (o *comparison) check(words, behind []string) error {
	var err error
	if o.slos, err = o.goodput.parse(); err != nil {
		return err
	}
	for _, text := range o.failIf {
		gate, err := compare.ParseGate(text)
		if err != nil {
			return suggestName(fmt.Errorf("--fail-if %w", err))
		}
		o.gates = append(o.gates, gate)
	}
	switch {
	case o.json && o.markdown:
		return errors.New("--json and --markdown are two forms of one output; give one")
	case o.interleave != "" && o.floor != nil:
		return errors.New("--floor: leave it out with --interleave, which makes several runs of each side")
	case o.interleave != "" && (o.runs < 1 || o.runs > mostRuns):
		return fmt.Errorf("--runs %d: want 1 to %d", o.runs, mostRuns)
	case o.undecided != "" && o.failIf == nil:
		return errors.New("--undecided says what an UNDECIDED --fail-if counts as; give --fail-if")
	case o.interleave != "":
		return nil
	case o.restart != "":
		return errors.New("--restart runs a command between the runs that --interleave makes")
	case o.output != "":
		return errors.New("--output is where --interleave puts its runs; --html FILE writes a page")
	case behind != nil && (len(words) == 0 || len(behind) == 0):
		return errors.New("compare wants runs on both sides of --, as `fastreplay compare A1 A2 A3 -- B1 B2 B3`")
	case len(words)+len(behind) < 2:
		return errors.New("compare wants two runs or more, as `fastreplay compare results/A results/B`")
	}
	return nil
}

// results reads the runs, or makes them first, and compares each later side with the first. Behind -- are the runs of
// B, or the flags of a replay.
func (o *comparison) results(
	ctx context.Context, words, behind []string, ui *terminal,
) (results []*compare.Result, err error) {
	var sides [][]string // the directories of each
	switch {
	case o.interleave != "":
		r, err := newInterleaved(words, behind, o, ui)
		if err == nil {
			sides, err = r.run(ctx, o.interleave)
		}
		if err != nil {
			return nil, err
		}
		o.html = cmp.Or(o.html, filepath.Join(r.dir, "compare.html"))
	case behind != nil:
		sides = [][]string{words, behind}
	default:
		for _, word := range words {
			sides = append(sides, []string{word})
		}
	}
	sides[0] = append(sides[0], o.floor...)
	recorded := o.interleave == "" && sides[0][0] == theRecord
	switch {
	case recorded && len(sides[0]) > 1:
		return nil, errors.New("recorded is a side of its own: compare recorded RUN…")
	case recorded:
		sides = sides[1:]
	}
	for _, side := range sides {
		for i, word := range side {
			dir, err := runAt(word)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf(
					"there is no directory %s with results; two servers are compared by: fastreplay compare "+
						"--interleave abba URL URL -- FILE",
					word,
				)
			}
			if err != nil {
				return nil, err
			}
			side[i] = dir
		}
	}
	a := &compare.Side{SLOs: o.slos}
	if !recorded {
		if a, err = compare.ReadSide(o.slos, sides[0]...); err != nil {
			return nil, err
		}
		sides = sides[1:]
	}
	for _, runs := range sides {
		b, err := compare.ReadSide(a.SLOs, runs...)
		if err == nil && recorded {
			a, err = recordOf(ctx, runs[0], b)
		}
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
