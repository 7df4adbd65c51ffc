package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// probingOptions is what the flags of `fastreplay capacity` or `fastreplay sweep` say.
type probingOptions struct {
	sweep     bool // the loads are given
	at        []float64
	csv       string
	traces    []string
	urls      []string
	slo       string
	over      string
	budget    time.Duration
	output    string
	loads     [2]float64 // of --range; 0 = open
	window    time.Duration
	warmIn    time.Duration
	from      string // of --window-from
	precision float64
	seed      uint64
	json      bool
	html      string
	quiet     bool

	isSet  func(flag string) bool
	kind   loadKind
	replay []string // flags behind --
}

// loadKind is what a search varies.
type loadKind struct {
	name   string
	unit   string // of a load, behind its number
	head   string // of a column of loads
	ignore []string
	from   []string // values of --window-from, the default first
}

// loadKinds are the values of --over, with the flags of a replay that would take the effect from the load.
func loadKinds() []loadKind {
	timed := []string{capacity.FromBusiest, capacity.FromSpread, capacity.FromStart}
	return []loadKind{
		{"amplify", "× the recorded load", "× load", []string{"rate", "ramp", "concurrency"}, timed},
		{"scale", "× the recorded speed", "× speed", []string{"rate", "ramp", "concurrency"}, timed},
		{"rate", "requests/s", "load/s", []string{"scale", "ramp", "concurrency"}, timed[1:]},
		{"concurrency", "requests in flight", "in flight", []string{"rate", "ramp", "scale"}, timed[2:]},
		{"instances", "instances", "instances", nil, timed},
	}
}

func newCapacityCommand() *cobra.Command {
	var o probingOptions
	c := &cobra.Command{
		Use:   "capacity FILE --url URL --slo OBJECTIVES [flags] [-- FLAGS]",
		Short: "Find the largest load of a trace at which objectives hold",
		Long: `Find the largest load of a trace at which objectives hold, by as few and as short replays as possible.

Each probe replays a part of the trace, with a cold cache. What stands behind -- goes to each replay. The directory of a
search that was stopped or killed goes on with it if the same command is given again.`,
		Example: `  fastreplay capacity day.jsonl --url gpu1:8000 \
    --slo "ttft.p95<1s tpot.p95<50ms ok>=99.9%"
  fastreplay capacity day.jsonl --url gpu1:8000 --slo "ttft.p99<2s" \
    --over rate --budget 10m -- --api chat
  fastreplay capacity day.jsonl -u gpu1:8000 -u gpu2:8000 \
    --slo "e2e.p95<20s" --over instances`,
	}
	o.addFlags(c)
	f := c.Flags()
	addSeconds(f, &o.budget, "budget", "", 20*time.Minute, "end when the probes took this long")
	addValue(f, &o.loads, parseLoads, "FROM:TO", "", "range",
		"loads to probe `FROM:TO`; the search begins at FROM, and no probe is below it or above TO; TO may be left out")
	f.Float64Var(&o.precision, "precision", 0.04,
		"end when the 95 % interval is as narrow as this `SHARE` of the capacity")
	return c
}

// addFlags adds what a search and a sweep have in common to c, and makes it run.
func (o *probingOptions) addFlags(c *cobra.Command) {
	c.RunE = func(c *cobra.Command, args []string) error {
		at := c.ArgsLenAtDash()
		if at < 0 {
			at = len(args)
		}
		if at > 1 || at == 1 && o.traces != nil {
			return fmt.Errorf(
				"unexpected argument %q: one trace as `fastreplay %s FILE`, several as --trace FILE --trace FILE, "+
					"and flags of the replays behind --",
				args[at-1], c.Name(),
			)
		}
		o.traces = append(o.traces, args[:at]...)
		o.replay = args[at:]
		return o.run(c.Context(), c.OutOrStdout(), newTerminal(c.ErrOrStderr()))
	}
	f := c.Flags()
	f.SortFlags = false
	o.isSet = f.Changed
	f.StringArrayVar(&o.traces, "trace", nil, "trace `FILE`; repeatable, as of a replay")
	f.StringArrayVarP(&o.urls, "url", "u", nil, "`URL` of a server; repeatable")
	f.StringVar(&o.slo, "slo", "", "the `OBJECTIVES`, such as \"ttft.p95<1s ok>=99.9% class=gold ttft.p99<2s\"")
	var kinds []string
	for _, k := range loadKinds() {
		kinds = append(kinds, k.name)
	}
	o.over = kinds[0]
	addWords(f, &o.over, "over",
		"what the load is: amplify, scale, rate, concurrency, or instances, of which the fewest are found", kinds...)
	f.StringVarP(&o.output, "output", "o", "",
		"`DIR` for the results, or of a search that is to go on (default: results/<UTC time>)")
	addSeconds(f, &o.window, "window", "", 0,
		"how long each probe is measured (default: of a search a tenth of the budget, of a sweep 1m, as far as the "+
			"trace goes)")
	addWords(f, &o.from, "window-from",
		"which part of the trace is measured: its busiest, parts spread over it, or its start (default: busiest; over "+
			"a rate spread, over concurrency start)", capacity.FromBusiest, capacity.FromSpread, capacity.FromStart)
	addSeconds(f, &o.warmIn, "warm-in", "", 0,
		"how long each probe runs before it is measured (default: a fifth of the time that the trace has, at most "+
			"30s; of a sweep no longer than a --window that is given)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the first replay; each later one has the next seed")
	f.BoolVar(&o.json, "json", false, "print the answer and all probes as JSON")
	f.StringVar(&o.html, "html", "", "also write the page to `FILE`")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the answer, and errors")
}

// parseLoads reads FROM:TO or FROM.
func parseLoads(text string) (loads [2]float64, err error) {
	from, to, both := strings.Cut(text, ":")
	loads[0], err = strconv.ParseFloat(from, 64)
	if both && to != "" && err == nil {
		loads[1], err = strconv.ParseFloat(to, 64)
	}
	switch {
	case err != nil || !(loads[0] > 0 && loads[1] >= 0 && loads[0]+loads[1] <= 1e9):
		err = errors.New("want FROM:TO or FROM, numbers above 0, such as 1:16")
	case loads[1] > 0 && loads[1] < loads[0]:
		err = fmt.Errorf("TO is below FROM; want %v:%v, or leave TO out", loads[1], loads[0])
	}
	return loads, err
}

// check refuses what no search can mean, and returns what a replay of the trace would be.
func (o *probingOptions) check() (r *options, objectives []capacity.Objective, err error) {
	o.kind = loadKinds()[slices.IndexFunc(loadKinds(), func(k loadKind) bool { return k.name == o.over })]
	switch {
	case len(o.traces) == 0:
		return nil, nil, errors.New("no trace; give one, as `fastreplay capacity FILE` or with --trace FILE")
	case slices.Contains(o.traces, "-"):
		return nil, nil, errors.New(
			"--trace -: each probe reads the trace, and standard input can be read once; give a file",
		)
	case len(o.urls) == 0:
		return nil, nil, errors.New("no server; give one with --url")
	case !o.sweep && o.budget <= 0:
		return nil, nil, fmt.Errorf("--budget %v: want a time above 0, such as 20m", o.budget)
	case !o.sweep && o.slo == "":
		return nil, nil, errors.New(
			"no objectives; give them with --slo, such as --slo \"ttft.p95<1s tpot.p95<50ms ok>=99.9%\"",
		)
	}
	if o.from = cmp.Or(o.from, o.kind.from[0]); !slices.Contains(o.kind.from, o.from) {
		return nil, nil, fmt.Errorf("--window-from %s: with --over %s the trace's times are ignored; want %s", o.from,
			o.over, strings.Join(o.kind.from, " or "))
	}
	if err := checkNotEmpty("url", strings.Join(o.urls, ",")); err != nil {
		return nil, nil, err
	}
	if r, err = o.replayed(); err != nil {
		return nil, nil, fmt.Errorf("behind --: %w", err)
	}
	if o.slo != "" {
		if objectives, err = capacity.ParseObjectives(o.slo, r.SLOs...); err != nil {
			return nil, nil, suggestName(fmt.Errorf("--slo: %w", err))
		}
	}
	switch o.urls = r.URLs; {
	case o.over != "instances":
	case len(o.urls) < 2:
		return nil, nil, errors.New("--over instances: one server is given; give several with --url")
	case max(o.loads[0], o.loads[1]) > float64(len(o.urls)):
		return nil, nil, fmt.Errorf("--range: %d servers are given with --url", len(o.urls))
	}
	if o.sweep {
		err = o.checkAt()
	}
	return r, objectives, err
}

// replayed is what a replay of the trace would be.
func (o *probingOptions) replayed() (*options, error) {
	r, err := parseReplay(o.replay)
	if err != nil {
		return nil, err
	}
	if rest := r.line.Flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q; want flags of a replay", rest[0])
	}
	r.URLs = o.urls
	if o.over == "rate" {
		r.pace.rate = "1" // each probe has one, which --arrival spaces
	}
	err = r.translate(o.traces[:1])
	for _, name := range slices.Concat(strings.Fields(takenBySearch), []string{o.over}, o.kind.ignore) {
		switch {
		case !r.isSet(name):
		case slices.Contains(o.kind.ignore, name):
			return nil, fmt.Errorf("with --%s the load would not be that of --over %s; leave it out", name, o.over)
		default:
			return nil, fmt.Errorf("--%s is set by the search; leave it out", name)
		}
	}
	if err == nil && r.Pacing.Lanes > 0 {
		err = fmt.Errorf("--sessions lanes: the load would not be that of --over %s; leave it out", o.over)
	}
	if err == nil && len(r.line.Results) > 0 {
		err = fmt.Errorf(
			"%s: each probe is a run of its own; leave out the name of the result file",
			r.line.Results[0].Paths[0],
		)
	}
	r.Traces = o.traces
	r.attach(&terminal{w: io.Discard})
	return r, err
}

// parseReplay reads the flags of a replay that this process makes; translate says what they mean.
func parseReplay(args []string) (*options, error) {
	r := &options{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.addFlags(flags)
	r.line = compat.NewLine(flags, false)
	if err := flags.Parse(compat.Expand(args, flags, false)); err != nil {
		return nil, explainFlag(&cobra.Command{}, err)
	}
	return r, nil
}

// run is the whole search.
func (o *probingOptions) run(ctx context.Context, out io.Writer, ui *terminal) error {
	ui.quiet = o.quiet
	if o.quiet {
		ui.mode = progressNone
	}
	ctx, interrupts := catchSignals(ctx, ui)
	defer interrupts.release()
	r, objectives, err := o.check()
	if err != nil {
		return err
	}
	t, err := setup.Read(ctx, &r.Options)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	for _, note := range t.Lint.Notes() {
		ui.note("trace: %s", note)
	}
	s := &searching{o: o, ui: ui, objectives: objectives, requests: t.Len(), timeline: capacity.Places(t.Len())}
	switch {
	case s.requests == 0:
		return errors.New("the selection is empty")
	case !t.Untimed:
		s.spanS = float64(t.ArrivalNS[s.requests-1]) / 1e9
		s.arrivals = t.ArrivalNS
		if o.kind.from[0] == capacity.FromBusiest {
			s.timeline = s.arrivals
		}
	case o.over == "amplify" || o.over == "scale":
		return fmt.Errorf(
			"--over %s: the trace does not say when its requests came; give --over rate or --over concurrency",
			o.over,
		)
	}
	if s.shares, err = capacity.Shares(objectives, t); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.open(s.settings(resolvedFlags(r))); err != nil {
		return err
	}
	if s.o.sweep {
		s.ui.line("%s", s.plan())
	}
	if err := s.probeAll(ctx); err != nil {
		if len(s.outcomes) > 0 {
			s.prober.Stop("It ended with an error: " + err.Error() + ".")
			return errors.Join(s.conclude(out, false), err) // what is known by then
		}
		_ = os.Remove(filepath.Join(s.dir, settingsName))
		_ = os.Remove(s.dir) // if it is empty
		return err
	}
	return s.conclude(out, ctx.Err() != nil)
}

// begin makes the search or the sweep.
func (s *searching) begin() (err error) {
	config := s.config()
	if s.o.sweep {
		s.prober = capacity.NewSweep(config, s.o.at)
		return nil
	}
	if err := s.afford(&config); err != nil {
		return err
	}
	s.search, err = capacity.New(config)
	s.prober = s.search
	return err
}

// config is what the search is bounded by.
func (s *searching) config() capacity.Config {
	o := s.o
	c := capacity.Config{
		WindowS:    cmp.Or(o.window, time.Minute).Seconds(), // of each load of a sweep
		Objectives: s.objectives,
		Least:      o.loads[0],
		From:       o.loads[0],
		Most:       o.loads[1],
		Precision:  o.precision,
		Budget:     o.budget,
		Load:       s.load,
	}
	switch o.over {
	case "instances":
		c.Whole, c.Falling, c.Most = true, true, cmp.Or(c.Most, float64(len(o.urls)))
		c.Least = cmp.Or(c.Least, c.Most)
	case "concurrency":
		c.Whole, c.Least = true, cmp.Or(c.Least, 8)
	case "rate":
		c.Least = cmp.Or(c.Least, s.recordedRate(), 1)
	}
	c.Least = cmp.Or(c.Least, 1)
	return c
}

// afford sets how long windows are, and refuses a budget in which no probe can tell whether an objective is met.
func (s *searching) afford(c *capacity.Config) error {
	warmS, perS, _ := s.paces(c.Least)
	c.BesidesS = warmS + usualBesides.Seconds()
	c.WindowS = cmp.Or(s.o.window.Seconds(), s.o.budget.Seconds()/windowsInBudget)
	for i := range s.objectives {
		o := &s.objectives[i]
		requests := float64(o.LeastRequests())
		if perS == 0 {
			continue // nobody knows
		}
		needS := requests / (perS * s.shares[i])
		if !s.o.isSet("window") {
			c.WindowS = max(c.WindowS, needS)
		}
		if needS+c.BesidesS > c.Budget.Seconds() {
			return fmt.Errorf("--budget %v: %s needs %s without a late one: %s at %s requests/s, and a probe takes %s "+
				"besides; give a larger one", s.o.budget, o.Text, format.Requests(int64(requests)),
				format.Span(needS), format.Rate(perS), format.Span(c.BesidesS))
		}
	}
	return nil
}

// recordedRate is in requests per s; 0 if no row says when it arrived.
func (s *searching) recordedRate() float64 {
	if s.spanS == 0 {
		return 0
	}
	return float64(s.requests) / s.spanS
}
