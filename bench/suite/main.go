// Command suite measures the built fastreplay beside the machine's floor and beside rivals, for scripts/bench.sh. It
// starts every process itself: fastreplay, its mock, and this program again as a rival or as the floor's waiter. What
// one client did in one run becomes a line in the format of Go benchmarks, so that benchstat summarizes and compares
// runs. Bars are printed with what was measured; nothing fails if one is not met.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/sched"
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
		}
	}
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
	return q.measure(ctx, stdout, stderr)
}

// scenario is one load with all who are measured under it.
type scenario struct {
	name  string // family/variant
	about string
	run   func(r *round) error
}

// allScenarios are in the order in which they run.
func allScenarios() []scenario {
	all := []scenario{{floorName, "lateness of the same waiter without I/O at 2,000/s, beside the main load", runFloor}}
	for _, l := range loads() {
		about := fmt.Sprintf("%d requests/s, %s, about %d live streams", l.rate, l.arrival, l.rate/5)
		if l == mainLoad {
			about += "; time.Sleep + goroutine + fasthttp and net/http beside it"
		}
		all = append(all, scenario{l.name(), about, l.measure})
	}
	all = append(
		all,
		scenario{"punctuality/conversation-x60", "the first 25 s of Mooncake's conversation trace at scale 60",
			runConversation},
		scenario{
			"burst/28x50kB",
			"bursts of 28 requests of 50 kB at one instant, 200 ms apart, from one sender and from two",
			runBurst,
		},
		scenario{
			"https/500-constant-20kB",
			fmt.Sprintf("%d requests/s of 20 kB over https, the same over http beside it", httpsLoad.rate),
			runHTTPS,
		},
		scenario{
			"window/2000-constant-20kB",
			"the main load with room for a quarter of its requests, beside all of them prebuilt",
			runWindow,
		},
	)
	for _, n := range []int{100, 500, 1000} {
		all = append(
			all,
			scenario{
				fmt.Sprintf("accuracy/%d-streams", n),
				fmt.Sprintf("%d live streams, TTFT 50 ms, ITL 10 ms: the client's stamps against the server's", n),
				func(r *round) error { return runAccuracy(r, n) },
			},
		)
	}
	const full = "64 connections at full speed, 300-byte requests, whole answers, " +
		"client and server on a core each, wrk beside it; "
	return append(
		all,
		scenario{"throughput/mock", full + "the mock", func(r *round) error {
			return runThroughput(r, r.fastreplay, "mock", "--die-with-parent",
				"--ttft", "0s", "--itl", "0s", "--cache-tokens", "0")
		}},
		scenario{
			"throughput/bare-server",
			full + "a server that does next to nothing",
			func(r *round) error { return runThroughput(r, r.self, answerCommand) },
		},
		scenario{"memory/10000-streams", "10,000 live streams: memory of the whole client for each, and drift",
			runMemory},
		scenario{
			"readiness/conversation",
			"the whole conversation trace read and built, fingerprint included: fastreplay --dry-run",
			runReady,
		},
		scenario{
			goName,
			"what has neither floor nor rival: Go benchmarks on one core of reading, parsing and building",
			runGo,
		},
	)
}

// request is what the command line selects.
type request struct {
	runs              int
	scenarios         []scenario
	list, quick, bars bool
	binaries          []string
	output            string
}

func parse(args []string, stderr io.Writer) (request, error) {
	q := request{runs: 5} // what the bars are medians of
	f := flag.NewFlagSet("bench.sh", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&q.list, "list", false, "list the scenarios")
	f.BoolVar(&q.bars, "bars", false, "only scenarios that a bar is about")
	f.BoolVar(&q.quick, "quick", false, "short versions, to see that everything works; the numbers mean little")
	f.StringVar(&q.output, "output", "", "directory for the measured lines (default: bench/results; none with --quick)")
	const binary = "a `binary` to measure (bench.sh builds one); given twice, the second alternates with the first"
	f.Func("fastreplay", binary, func(path string) error {
		path, err := filepath.Abs(path)
		q.binaries = append(q.binaries, path)
		return err
	})
	f.Usage = func() {
		fmt.Fprintf(
			stderr,
			"Usage: scripts/bench.sh [FLAGS] [RUNS] [SCENARIO…]\n\n"+
				"RUNS (default %d) times every SCENARIO (name or its beginning; default: all).\n",
			q.runs,
		)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return q, err
	}
	rest := f.Args()
	if len(rest) > 0 {
		if n, err := strconv.Atoi(rest[0]); err == nil {
			q.runs = n
			rest = rest[1:]
		}
	}
	if q.runs < 1 {
		return q, fmt.Errorf("%d runs; want at least 1", q.runs)
	}
	if q.output == "" && !q.quick {
		q.output = filepath.Join("bench", "results")
	}
	named := map[string]bool{}
	for _, b := range allBars() {
		named[b.of.scenario] = true
		named[b.by.scenario] = true
	}
	for _, s := range allScenarios() {
		begins := func(name string) bool { return strings.HasPrefix(s.name, name) }
		if (!q.bars || named[s.name]) && (len(rest) == 0 || slices.ContainsFunc(rest, begins)) {
			q.scenarios = append(q.scenarios, s)
		}
	}
	for _, name := range rest {
		if !slices.ContainsFunc(q.scenarios, func(s scenario) bool { return strings.HasPrefix(s.name, name) }) {
			return q, fmt.Errorf("no scenario %q; --list names them", name)
		}
	}
	return q, nil
}

// measure runs every scenario once, then again, with each binary in turn. A failure costs its numbers, not the rest.
func (q *request) measure(ctx context.Context, stdout, stderr io.Writer) error {
	if len(q.binaries) == 0 {
		return errors.New("--fastreplay names no binary; run scripts/bench.sh")
	}
	var labs []*lab
	began := time.Now().UTC().Format("2006-01-02T150405Z")
	for i, binary := range q.binaries {
		l, err := newLab(ctx, binary, q.quick, stderr)
		if err != nil {
			return err
		}
		defer os.RemoveAll(l.work)
		name := began
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		if err := l.results.open(stdout, q.output, name); err != nil {
			return err
		}
		labs = append(labs, l)
	}
	failed := 0
	for run := range q.runs {
		for _, s := range q.scenarios {
			for i := range labs {
				l := labs[(i+run)%len(labs)]
				start := time.Now()
				err := undisturbed(&round{lab: l, scenario: s.name, number: run}, s)
				if ctx.Err() != nil {
					return errors.New("interrupted; what is above was measured until then")
				}
				if err != nil {
					l.results.skip("%s, run %d failed: %v", s.name, run+1, err)
					failed++
				}
				fmt.Fprintf(stderr, "%s, run %d of %d: %.1f s\n", s.name, run+1, q.runs, time.Since(start).Seconds())
			}
		}
	}
	for _, l := range labs {
		l.results.printBars(allBars())
		if l.results.file != nil {
			if err := l.results.file.Close(); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

const (
	// mostStolen of a measurement's time may be stolen before it is repeated: two requests in a hundred would be late
	// by that alone.
	mostStolen = 0.02
	// mostRepeats bounds that: some hosts are never quiet.
	mostRepeats = 2
	// restTime lets a host that counts credits give more.
	restTime = 15 * time.Second
)

// undisturbed measures a scenario, again where the host took too much; the last measurement counts.
func undisturbed(r *round, s scenario) error {
	for repeats := 0; ; repeats++ {
		r.lines = nil
		watch := host.NewWatch(sched.NewMonotonic(), nil)
		err := s.run(r)
		for _, server := range r.servers {
			_ = server.stop() // some have ended
		}
		ended := make(chan struct{})
		close(ended)
		watch.Run(ended) // the last sample
		share := *cmp.Or(watch.Machine().StolenShare, new(float64))
		r.put("machine", "stolen", share)
		r.put("machine", "repeated", float64(repeats))
		if err != nil || share <= mostStolen || repeats == mostRepeats || r.quick {
			r.results.add(r.lines)
			return err
		}
		fmt.Fprintf(
			r.log,
			"  %s, run %d: again, for the host took %.1f %% of the CPU time\n",
			r.scenario,
			r.number+1,
			100*share,
		)
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(restTime):
		}
	}
}
