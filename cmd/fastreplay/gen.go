package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/sched"
)

// parseRange reads N or MIN:MAX.
func parseRange(text string) (r trace.Range, err error) {
	if !strings.Contains(text, ":") {
		text += ":" + text
	}
	if r.Min, r.Max, err = parsePair(text, ":", strconv.Atoi); err != nil || r.Min > r.Max {
		return r, errors.New("want a number, or MIN:MAX")
	}
	return r, nil
}

// parseLengths reads N, MIN:MAX or lognormal:MEAN:STDDEV[:MAX].
func parseLengths(text string) (trace.Lengths, error) {
	rest, lognormal := strings.CutPrefix(text, "lognormal:")
	if !lognormal {
		r, err := parseRange(text)
		if err != nil {
			err = errors.New("want a number, MIN:MAX or lognormal:MEAN:STDDEV[:MAX]")
		}
		return r, err
	}
	const longest = "1048576" // tokens, if no other bound is given
	parts := append(strings.Split(rest, ":"), longest)
	if len(parts) != 3 && len(parts) != 4 {
		return nil, errors.New("want lognormal:MEAN:STDDEV or lognormal:MEAN:STDDEV:MAX")
	}
	mean, errMean := strconv.ParseFloat(parts[0], 64)
	deviation, errDeviation := strconv.ParseFloat(parts[1], 64)
	most, errMax := strconv.Atoi(parts[2])
	if errors.Join(errMean, errDeviation, errMax) != nil {
		return nil, errors.New("want numbers in lognormal:MEAN:STDDEV[:MAX]")
	}
	return trace.Lognormal{Mean: mean, StdDev: deviation, Max: most}, nil
}

// generation is what the flags of gen say.
type generation struct {
	trace.Gen
	rows    int
	rate    float64
	arrival string
	model   string
	output  string

	turnDelay time.Duration
}

// newGeneration describes a trace of 1,000 unrelated requests.
func newGeneration() *generation {
	return &generation{
		Gen:   trace.DefaultGen(),
		rows:  1000,
		rate:  10,
		model: setup.UnprobedModel,
	}
}

// newGenCommand makes a trace from a description.
func newGenCommand() *cobra.Command {
	g := newGeneration()
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Make a trace from a description",
		Long: "Make a trace from a description and print it, or write it to --output. Equal descriptions with " +
			"equal seeds make equal traces.",
		Example: `  fastreplay gen --rows 5000 --rate 40 --arrival gamma:0.3 \
    --input-tokens lognormal:2000:1500 > bursty.jsonl
  fastreplay gen --format bailian --rows 500 --turns 1:6 --system-tokens 800 \
    --reuse 0.6 --output chat.jsonl
  fastreplay gen --rows 20000 --rate 2000 --arrival constant \
    --input-tokens 3300 --output-tokens 20 > load.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := g.make()
			if err != nil {
				return err
			}
			t, lost, err := inWords(t, t.Format, g.Seed, g.model)
			if err != nil {
				return err
			}
			if err := writeTrace(g.output, cmd.OutOrStdout(), t, t.Format); err != nil {
				return err
			}
			say := newTerminal(cmd.ErrOrStderr())
			describeGen(say, &g.Gen, t)
			for _, note := range lost {
				say.line("note: %s", note)
			}
			return nil
		},
	}
	g.addFlags(cmd.Flags())
	return cmd
}

func (g *generation) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	addWords(f, &g.Format, "format", "format to write: "+strings.Join(trace.Written(), ", "), trace.Written()...)
	f.IntVar(&g.rows, "rows", g.rows, "requests")
	f.Float64Var(&g.rate, "rate", g.rate, "mean requests per second")
	f.StringVar(
		&g.arrival,
		"arrival",
		"",
		"spacing: poisson, constant or gamma:B, which is burstier than poisson if B is below 1 (default: poisson)",
	)
	f.IntVar(&g.Burst, "burst", 0, "of every --burst-every requests, this many share one instant")
	f.IntVar(&g.BurstEvery, "burst-every", 0, "requests from one burst to the next")
	addValue(f, &g.InputTokens, parseLengths, "LENGTHS", "256:4096", "input-tokens",
		"tokens of a conversation's first prompt: N, MIN:MAX or lognormal:MEAN:STDDEV[:MAX]; the maximum bounds "+
			"later ones too")
	addValue(f, &g.OutputTokens, parseLengths, "LENGTHS", "16:256", "output-tokens", "tokens to generate, likewise")
	f.Float64Var(&g.Reuse, "reuse", 0, "wanted share (0..1) of blocks that an earlier request had already")
	f.IntVar(&g.BlockTokens, "block-tokens", 0, "tokens a block (default: the format's)")
	addValue(f, &g.Turns, parseRange, "N|MIN:MAX", "1", "turns", "requests of a conversation")
	addValue(f, &g.TurnTokens, parseRange, "N|MIN:MAX", "16:256", "turn-tokens",
		"tokens that a later turn adds")
	addSeconds(f, &g.turnDelay, "turn-delay", "", 0, "recorded delay of later turns, in formats that have it")
	f.IntVar(&g.Active, "active", 0, "conversations that go on at once (default: one for every eight rows)")
	f.IntVar(&g.SystemTokens, "system-tokens", 0, "tokens with which all conversations begin")
	f.Uint64Var(&g.Seed, "seed", 0, "seed")
	f.StringVar(&g.model, "model", g.model, "model that whole bodies ask for, in formats that have them")
	f.StringVarP(&g.output, "output", "o", "", "`FILE` to write (default: standard output); never overwritten")
}

// make makes the trace, with its arrivals and with the delays before later turns.
func (g *generation) make() (*trace.Trace, error) {
	if g.rows < 1 {
		return nil, fmt.Errorf("--rows is %d; want at least 1", g.rows)
	}
	a := sched.Arrivals{Rate: sched.Steady(g.rate), Seed: g.Seed}
	err := setProcess(&a, g.arrival, sched.Poisson)
	if err != nil {
		return nil, err
	}
	if g.ArrivalNS, err = a.Instants(g.rows); err != nil {
		return nil, err
	}
	t, err := trace.Generate(g.Gen)
	if err != nil || g.turnDelay == 0 {
		return t, err
	}
	if t.Turn == nil {
		return nil, errors.New("--turn-delay is about conversations; give --turns, and a format that has them")
	}
	t.DelayNS = slices.Repeat([]int64{-1}, t.Len())
	for i, turn := range t.Turn {
		if turn > 1 {
			t.DelayNS[i] = int64(g.turnDelay)
		}
	}
	return t, nil
}

// writeTrace writes to a new file, or to stdout where path is empty. What a terminal would obey is escaped there.
func writeTrace(path string, stdout io.Writer, t *trace.Trace, name string) error {
	if path == "" && newTerminal(stdout).width > 0 {
		var b bytes.Buffer
		err := trace.Write(&b, t, name)
		_, errOut := stdout.Write(format.VisibleJSON(b.Bytes()))
		return errors.Join(err, errOut)
	}
	if path == "" {
		return trace.Write(stdout, t, name)
	}
	err := trace.WriteFile(path, t, name)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf(
			"--output %s: there is such a file already, and none is overwritten; remove it, or name another",
			path,
		)
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("--output: %w", err)
	}
	return err
}

// describeGen prints what was made: above all, what share of it a cache can hit.
func describeGen(say *terminal, g *trace.Gen, t *trace.Trace) {
	made := fmt.Sprintf(
		"made %s as %s, %s",
		format.Many(t.Len(), "row"),
		t.Format,
		format.Duration(t.SpanNS(), 3),
	)
	if t.BlockRefs() == 0 {
		say.line("%s: without blocks, so that no cache hits anything", made)
		return
	}
	hits := inspect.Analyse(t, inspect.Options{}).Cache.Infinite
	say.line(
		"%s: an unlimited cache would hold %s of the blocks (wanted %s) and %s of the tokens",
		made,
		format.Percent(hits.Blocks),
		format.Percent(g.Reuse),
		format.Percent(hits.Tokens),
	)
	const missed = 0.02 // a smaller share needs no remedy
	if g.Reuse-hits.Blocks > missed {
		say.line(
			"note: less is reused than wanted, since the prompts have too little in common: raise --turns, " +
				"--system-tokens or the lengths, or lower --block-tokens",
		)
	}
}

// inWords gives a trace the words that some formats need: prompts and answers. The prompts are those that a replay with
// --prompt text and the same --seed sends. It also returns what the format has no place for.
func inWords(
	t *trace.Trace,
	format string,
	seed uint64,
	model string,
) (spelled *trace.Trace, lost []string, err error) {
	// marks the words of made answers: no request's key has this bit, and no probe has it alone
	const answerDomain = 1 << 62
	source, err := prompt.NewText(seed, prompt.BuiltIn())
	if err != nil {
		return nil, nil, err
	}
	spelled = t.With(trace.Words{
		Model: model,
		Prompt: func(dst []byte, i int) []byte {
			return source.Append(
				dst,
				prompt.Spec{
					Blocks:      t.Blocks(i),
					BlockTokens: t.BlockTokens,
					Tokens:      int(t.InputTokens[i]),
					Unique:      t.Unique(i),
				},
			)
		},
		Answer: func(dst []byte, i int) []byte {
			return source.Append(dst, prompt.Spec{Tokens: int(t.OutputTokens[i]), Unique: answerDomain | t.Unique(i)})
		},
	})
	lost, err = trace.WriteNotes(spelled, format)
	return spelled, lost, err
}

// madeTrace makes a trace of KEY=VALUE,…; the keys are flags of `fastreplay gen`. Without a rate no row says when it
// leaves. It is written and read, so that all options of reading are as for a file.
func madeTrace(spec string, seed uint64, read trace.Options) (*trace.Trace, error) {
	g := newGeneration()
	f := pflag.NewFlagSet("gen", pflag.ContinueOnError)
	g.addFlags(f)
	for pair := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if flag := f.Lookup(key); !ok || flag == nil || key == "output" || key == "format" {
			return nil, fmt.Errorf(
				"%q: want KEY=VALUE with a flag of `fastreplay gen`, such as "+
					"rows=100,input-tokens=1024,output-tokens=128",
				pair,
			)
		}
		if err := f.Set(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, compat.Plain(err))
		}
	}
	if !f.Changed("seed") {
		g.Seed = seed
	}
	t, err := g.make()
	if err != nil {
		return nil, err
	}
	t.Untimed = !f.Changed("rate")
	var rows bytes.Buffer
	if err := trace.Write(&rows, t, t.Format); err != nil {
		return nil, err
	}
	if read.Format != "" && read.Format != t.Format {
		return nil, errors.New("--format is about a file")
	}
	read.Format, read.BlockTokens, read.TimeUnit = t.Format, t.BlockTokens, cmp.Or(read.TimeUnit, t.TimeUnit)
	return trace.Read(&rows, compat.Made+spec, read)
}
