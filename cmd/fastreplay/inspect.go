package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// inspection is what the flags of inspect say.
type inspection struct {
	html    string
	json    bool
	amplify setup.Amplify
	seed    uint64
	o       inspect.Options
}

// newInspectCommand prints what is in traces, without traffic.
func newInspectCommand() *cobra.Command {
	i := &inspection{}
	c := &cobra.Command{
		Use:   "inspect TRACE…",
		Short: "Print what is in a trace: rates, lengths, cache hits, faults",
		Long: `Print what is in a trace, without traffic: rates and bursts, lengths, types,
conversations, the hits that prefix caches of any size would have had, what a
replay would need, and everything that is wrong with it. Several traces stand
side by side.

A trace that a replay would refuse is shown as well, with the reason first. The
exit code is then 1; it is 2 for a trace that cannot be read at all.`,
		Example: `  fastreplay inspect conversation.jsonl.zst
  fastreplay inspect --cache-tokens 3M,10M --max-model-len 131072 chat.jsonl
  fastreplay inspect --tiers 3M,30M,inf --policy lru,belady chat.jsonl
  fastreplay inspect --html traces.html monday.jsonl tuesday.jsonl`,
		Args: someTraces,
		RunE: func(c *cobra.Command, args []string) error { return i.run(c, args) },
	}
	f := c.Flags()
	f.SortFlags = false
	addReadFlags(f, &i.o.Read)
	addAmplify(f, &i.amplify)
	f.Uint64Var(&i.seed, "seed", 0, "seed of --amplify")
	addValue(f, &i.o.CacheTokens, parseTokenList, "", "", "cache-tokens",
		"capacities of the LRU caches in tokens, a `LIST` such as 3M,10M (default: by the size of the trace)")
	addValue(f, &i.o.Tiers, parseTokenList, "", "", "tiers",
		"what a cache of several tiers would serve, a `LIST` of capacities in tokens such as 3M,30M,inf")
	f.StringSliceVar(&i.o.Policies, "policy", nil,
		"what full tiers let go, a `LIST` of lru, fifo, s3fifo and belady, which knows the future (default lru)")
	f.Int64Var(&i.o.KVBytes, "kv-bytes", 0,
		"bytes of one token in the cache, for the GB/s of --tiers (`N` = layers × 2 × KV heads × head size × bytes)")
	f.IntVar(&i.o.MaxModelLen, "max-model-len", 0, "count the rows whose input and output exceed this many tokens")
	f.IntVar(&i.o.Instances, "instances", 0,
		"compare what routers in front of `N` instances would make of the prefix hits, with caches without a limit "+
			"and of each --cache-tokens")
	f.Float64Var(&i.o.LoadBound, "load-bound", route.DefaultBound,
		"with --instances: the router with a bound passes over an instance that would have more than this many times "+
			"its share of the requests in flight")
	addAssumed(f, &i.o.Assumed)
	f.BoolVar(&i.json, "json", false, "print the numbers as JSON")
	f.StringVar(&i.html, "html", "", "also write a self-contained HTML page to `FILE`")
	return c
}

func (i *inspection) run(c *cobra.Command, args []string) error {
	if c.Flags().Changed("load-bound") && i.o.Instances == 0 {
		return errors.New("--load-bound is about --instances; give that, too")
	}
	i.o.Read.Collect = true
	if err := i.o.Validate(); err != nil {
		return err
	}
	var reports []*inspect.Report
	var failed error
	refused := false
	for _, path := range args {
		t, err := trace.Open(path, i.o.Read)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		t, counted, err := setup.CountAnswers(t, "")
		if err != nil {
			return err
		}
		if counted != "" {
			newTerminal(c.ErrOrStderr()).line("note: %s: %s", path, counted)
		}
		t, amplified, err := i.amplify.Copies(t, i.seed)
		if err != nil {
			return err
		}
		r := inspect.Analyse(t, i.o)
		if amplified != nil {
			amplified.After = r.Load()
			r.Amplify = amplified
		}
		refused = refused || !r.Replayable
		reports = append(reports, r)
	}
	if len(reports) > 0 {
		if err := i.write(c.OutOrStdout(), reports); err != nil {
			return err
		}
	}
	if failed == nil && refused {
		return &exitError{code: exitInvalid}
	}
	return failed
}

// parseTokenList reads numbers of tokens such as 500000,3M,inf and sorts them.
func parseTokenList(list string) ([]int64, error) {
	if list == "" {
		return nil, nil
	}
	var all []int64
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		n, err := parseTokens(text)
		switch {
		case text == "inf":
			n = inspect.Unlimited
		case err != nil:
			return nil, err
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (i *inspection) write(out io.Writer, reports []*inspect.Report) error {
	if i.html != "" {
		if err := report.WriteWhole(i.html, func(w io.Writer) error { return inspect.HTML(w, reports) }); err != nil {
			return err
		}
	}
	if i.json {
		return report.EncodeJSON(out, inspect.Document{Schema: 1, Traces: reports})
	}
	return inspect.Print(out, reports, newTerminal(out).width)
}
