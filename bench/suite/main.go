package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command is the suite, or one of the processes that it starts.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case rivalCommand:
			return rivalMain(args[1:])
		case waitCommand:
			return wait(args[1:], stdout)
		case answerCommand:
			return answerAll(os.Stdin, stdout)
		case refuseCommand:
			return refuse(args[1:])
		}
	}
	return suite(ctx, args, stdout, stderr)
}

// allScenarios are in the order in which they run.
func allScenarios() []scenario {
	var all []scenario
	for _, family := range [][]scenario{
		floorScenarios(), punctualityScenarios(), burstScenarios(), besideScenarios(), accuracyScenarios(), throughputScenarios(), sseScenarios(),
		readinessScenarios(), memoryScenarios(), hotpathScenarios(),
	} {
		all = append(all, family...)
	}
	return all
}

// request is what the command line asks for.
type request struct {
	runs               int
	scenarios          []scenario
	list, quick, bars  bool
	fastreplay, output string
}

// defaultRuns is what the bars are medians of.
const defaultRuns = 5

func parse(args []string, stderr io.Writer) (request, error) {
	q := request{runs: defaultRuns}
	f := flag.NewFlagSet("bench.sh", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&q.list, "list", false, "list the scenarios")
	f.BoolVar(&q.bars, "bars", false, "only scenarios that a bar is about")
	f.BoolVar(&q.quick, "quick", false, "short versions, to see that everything works; the numbers mean little")
	f.StringVar(&q.output, "output", "", "directory for the tables and JSON (default: bench/results; none with --quick)")
	f.StringVar(&q.fastreplay, "fastreplay", "", "the binary to measure (bench.sh builds it)")
	f.Usage = func() {
		fmt.Fprintf(stderr, "Usage: scripts/bench.sh [FLAGS] [RUNS] [SCENARIO…]\n\nRUNS (default %d) times every SCENARIO (name or its beginning; default: all).\n", defaultRuns)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return q, err
	}
	rest := f.Args()
	if len(rest) > 0 {
		if n, err := strconv.Atoi(rest[0]); err == nil {
			if n < 1 {
				return q, fmt.Errorf("%d runs; want at least 1", n)
			}
			q.runs, rest = n, rest[1:]
		}
	}
	if q.output == "" && !q.quick {
		q.output = filepath.Join("bench", "results")
	}
	all := allScenarios()
	if q.bars {
		all = barred(all)
	}
	var err error
	q.scenarios, err = choose(all, rest)
	return q, err
}

// barred keeps the scenarios that a bar is about.
func barred(all []scenario) []scenario {
	named := map[string]bool{}
	for _, b := range allBars() {
		named[b.of.Scenario], named[b.by.Scenario], named[b.beside.Scenario] = true, true, true
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return !named[s.name] })
}

// choose keeps the scenarios that any of names begins; all without names.
func choose(all []scenario, names []string) ([]scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []scenario
	used := make([]bool, len(names))
	for _, s := range all {
		wanted := false
		for i, name := range names {
			if strings.HasPrefix(s.name, name) {
				wanted, used[i] = true, true
			}
		}
		if wanted {
			chosen = append(chosen, s)
		}
	}
	for i, name := range names {
		if !used[i] {
			return nil, fmt.Errorf("no scenario %q; --list names them", name)
		}
	}
	return chosen, nil
}

func suite(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	q, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if q.list {
		for _, s := range q.scenarios {
			fmt.Fprintf(stdout, "%-34s %s\n", s.name, s.about)
		}
		return nil
	}
	l, err := newLab(ctx, q, stderr)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(l.work) }()
	m := thisMachine(shown(args))
	r := newResults()
	failed := measureAll(l, q, r, m, stderr)
	fmt.Fprint(stdout, r.markdown(m, allBars()))
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted; what is above was measured until then")
	}
	if failed > 0 {
		return fmt.Errorf("%s failed", plural(failed, "measurement"))
	}
	return nil
}

// shown leaves out of the command what bench.sh adds.
func shown(args []string) []string {
	if len(args) > 1 && args[0] == "--fastreplay" {
		return args[2:]
	}
	return args
}

func newLab(ctx context.Context, q request, log io.Writer) (*lab, error) {
	if q.fastreplay == "" {
		return nil, errors.New("--fastreplay names no binary; run scripts/bench.sh")
	}
	binary, err := filepath.Abs(q.fastreplay)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	help := ""
	for _, args := range [][]string{{"--help"}, {"mock", "--help"}} {
		out, err := exec.CommandContext(ctx, binary, args...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", binary, strings.Join(args, " "), err)
		}
		help += string(out)
	}
	work, err := os.MkdirTemp("", "fastreplay-bench-")
	if err != nil {
		return nil, err
	}
	return &lab{ctx: ctx, fastreplay: binary, self: self, work: work, traces: os.Getenv("FASTREPLAY_TRACES"), quick: q.quick, log: log,
		help: help, made: map[string]string{}}, nil
}

// measureAll runs every scenario once, then again; what is there is saved after each run. It returns how many failed: a
// failure costs its number, not the rest.
func measureAll(l *lab, q request, r *results, m machine, stderr io.Writer) (failed int) {
	began := time.Now()
	for run := range q.runs {
		for _, s := range q.scenarios {
			if l.ctx.Err() != nil {
				return failed
			}
			start := time.Now()
			err := undisturbed(&round{lab: l, scenario: s.name, number: run, results: r}, s)
			if err != nil && l.ctx.Err() == nil {
				fmt.Fprintf(stderr, "%s: %v\n", s.name, err)
				r.skip(s.name, fmt.Sprintf("run %d failed: %s", run+1, firstLine(err.Error())))
				failed++
			}
			fmt.Fprintf(stderr, "%s, run %d: %.1f s\n", s.name, run+1, time.Since(start).Seconds())
		}
		fmt.Fprintf(stderr, "run %d of %d done after %v\n", run+1, q.runs, time.Since(began).Round(time.Second))
		if err := save(r, m, q.output); err != nil {
			fmt.Fprintln(stderr, "saving:", err)
			failed++
		}
	}
	return failed
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// save writes the tables and their JSON twin, named by the date.
func save(r *results, m machine, dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := r.json(m, allBars())
	if err != nil {
		return err
	}
	name := filepath.Join(dir, m.Date.Format("2006-01-02T150405Z"))
	return errors.Join(os.WriteFile(name+".json", append(text, '\n'), 0o644), os.WriteFile(name+".md", []byte(r.markdown(m, allBars())), 0o644))
}
