package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/tty"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// newReplayCommand is the main command.
func newReplayCommand() *cobra.Command {
	return addReplay(&cobra.Command{
		Short: "Replay a trace of LLM requests, each at its recorded moment",
		Example: `  fastreplay demo
  fastreplay --trace conversation.jsonl.zst --url http://gpu1:8000 --scale 2
  fastreplay chat.jsonl --url gpu1:8000 --api chat --json > summary.json`,
	}, false)
}

// addReplay makes cmd replay, with its flags and the names that other tools have for them; profile: as AIPerf's command
// would.
func addReplay(cmd *cobra.Command, profile bool) *cobra.Command {
	var o options
	o.addFlags(cmd.Flags())
	o.line = compat.NewLine(cmd.Flags(), profile)
	cmd.Args = cobra.ArbitraryArgs
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at := cmd.ArgsLenAtDash(); profile && at >= 0 && at < len(args) && strings.HasPrefix(args[at], "-") {
			dropped := strings.Join(args[at:], " ")
			o.line.Notes = append(o.line.Notes, "what stands behind -- is for perf_analyzer, and left out: "+dropped)
			args = args[:at]
		}
		err := checkWords(cmd, args)
		if err == nil {
			err = o.translate(args)
		}
		if err == nil {
			err = replayTrace(cmd.Context(), &o, newTerminal(cmd.ErrOrStderr()), cmd.OutOrStdout())
		}
		return o.line.Explain(err)
	}
	return cmd
}

// translate sets the options to what the flags mean: ours, other tools', and those of a file.
func (o *options) translate(args []string) error {
	file, own, err := readConfig(o.config, o.line.Flags)
	if err == nil {
		o.Again = setup.Again{File: o.config, Headers: unmask(file)}
		err = o.line.Translate(file, len(args) > 0)
	}
	if err != nil {
		return err
	}
	if own != nil {
		ofFile := func(flag string) bool { return slices.Contains(o.line.FromFile, flag) }
		o.Again.Fingerprint = own.Workload.Fingerprint
		o.Again.Strangers = ofFile("url") || ofFile("targets") || ofFile("endpoint") && o.Endpoint == ""
	}
	if slices.Contains(o.line.FromFile, "trace") && slices.Contains(o.Traces, "-") {
		return fmt.Errorf(
			"--config %s: its trace came from standard input, which cannot be read again; pipe it once more, as in "+
				"`fastreplay - --config …`",
			o.config,
		)
	}
	o.Read.FileTime = o.line.FileTime
	if err := o.complete(args); err != nil {
		return err
	}
	return o.checkMasked()
}

// orInterrupted returns err, unless ctx has ended: what an interrupted step found may be wrong.
func orInterrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause // another shard failed
	}
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, "interrupted before the start; nothing was sent"}
	}
	return err
}

// replayTrace is the main command: it runs, and says how it goes and what came of it.
func replayTrace(ctx context.Context, o *options, ui *terminal, out io.Writer) (err error) {
	ctx, interrupts := catchSignals(ctx, ui)
	defer interrupts.release()
	ui.quiet = o.progress.quiet
	ui.mode = o.progress.mode
	ui.verbose = o.verbose || o.DryRun
	if ui.quiet && ui.mode == progressAuto {
		ui.mode = progressNone
	}
	w := &watcher{terminal: ui, o: o, interrupts: interrupts}
	// before anything else takes time; it stays open until the process ends
	if addr := o.progress.metricsAddr; addr != "" {
		if w.metrics, err = net.Listen("tcp", addr); err != nil {
			return fmt.Errorf("--metrics-addr: %w; want host:port of this machine, such as 127.0.0.1:9400", err)
		}
	}
	if o.config != "" {
		set := "nothing"
		if len(o.line.FromFile) > 0 {
			set = "--" + strings.Join(o.line.FromFile, ", --")
		}
		ui.detail("config: %s sets %s", o.config, set)
	}
	o.Keys = !slices.Contains(o.Traces, "-") && tty.Foreground(os.Stdin) // standard input may be the trace
	o.attach(ui)
	if o.start.asked {
		o.AskStart = func() (time.Time, error) { return askStart(out, interrupts) }
	}
	var mock *child
	o.Fallback = func(ctx context.Context) (url string, err error) {
		mock, url, err = startMock(ctx)
		if err == nil && !o.demo { // which says it first
			ui.line("no --url: a demo, against the embedded mock, %s, in a process of its own", url)
		}
		return url, err
	}
	defer func() {
		if mock != nil {
			mock.stop()
		}
	}()
	if o.DryRun {
		plan, err := replay.Plan(ctx, &o.Config, w)
		if err != nil || !o.json {
			return orInterrupted(ctx, err)
		}
		return report.EncodeJSON(out, plan)
	}
	summary, err := replay.Run(ctx, &o.Config, w)
	if summary == nil {
		return orInterrupted(ctx, err)
	}
	page := func(to io.Writer) error { return w.run.WritePage(to, summary) }
	bad := ui.show(summary, w.run.Dir, page, o.full, o.json, out) // last, so that it stays on the screen
	if bad != nil {
		return bad
	}
	stopped := summary.Run.Partial && summary.Run.SenderDied == "" && summary.Run.PrimerFailed == ""
	return ending(stopped, summary, err)
}

// traceDoubt begins what is said of a trace even if only errors are wanted.
const traceDoubt = "trace: "

// attach adds to the configuration what depends on the command line.
func (o *options) attach(ui *terminal) {
	o.Version = buildVersion()
	o.Notes = o.line.Notes
	o.Named = o.line.Results
	o.Columns = ui.width
	if self, err := os.Executable(); err == nil && o.Sender != setup.SenderThread {
		o.SenderCommand = []string{self, senderCommand}
	}
	o.Flags = func() map[string]any { return resolvedFlags(o) }
	o.Open = o.openTraces
	o.Adapt = func(t *trace.Trace) ([]string, error) {
		if doubt := t.Lint.UnitDoubt; doubt != "" && ui.quiet { // what is said of this load may be true of no other
			ui.alert(traceDoubt+"%s", doubt)
		}
		return o.line.Adapt(t, &o.Options)
	}
}

// askStart says that the run is ready, and reads from standard input when it begins. If standard input ends before the
// run does, whoever drives the run has gone: that counts as an interrupt.
func askStart(out io.Writer, interrupts *interrupts) (time.Time, error) {
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return time.Time{}, err
	}
	in := bufio.NewReader(os.Stdin)
	text, err := in.ReadString('\n')
	var start startMoment
	if err == nil {
		start, err = parseStart(text)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("--start-at -: standard input gave no moment: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		interrupts.interrupt(false)
	}()
	return start.at, nil
}

// watcher shows a run to people. It is the run's Observer.
type watcher struct {
	*terminal
	o          *options
	interrupts *interrupts
	metrics    net.Listener    // of --metrics-addr; nil = nobody is served
	run        *replay.Running // nil before the requests are built
}

// Built implements replay.Observer.
func (w *watcher) Built(r *replay.Running) {
	w.run = r
	w.interrupts.onRun(r)
}

// Begun implements replay.Observer. The key q interrupts the run, once.
func (w *watcher) Begun(r *replay.Running) (end func()) {
	if w.metrics != nil {
		go serveMetrics(w.metrics, func() []byte { return r.Snapshot().Metrics() })
	}
	v := view{
		screen: func(width, height int) string { return live.Screen(r.Snapshot(), width, height) },
		line:   func() string { return live.Line(r.Snapshot()) },
	}
	if w.o.Keys {
		v.quit = func() { w.interrupts.interrupt(true) }
	}
	return w.watch(v)
}

// serveMetrics serves the page of metrics on l until it is closed.
func serveMetrics(l net.Listener, page func() []byte) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" && r.URL.Path != "/" {
			http.Error(w, "the metrics are at /metrics", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page()) // who asks may have gone
	}
	server := &http.Server{
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 10 * time.Second,
		ErrorLog:     log.New(io.Discard, "", 0), // what its clients do wrong
		Handler:      http.HandlerFunc(answer),
	}
	_ = server.Serve(netutil.LimitListener(l, 16 /* connections */)) // until it is closed
}

// Record implements replay.Observer.
func (w *watcher) Record(*record.Record) {}

// Tick implements replay.Observer.
func (w *watcher) Tick(*replay.Running, bool) {}

// demoTrace describes the trace of a demo: 700 requests in 5 s, so that p99 can be judged, of conversations behind one
// system prompt.
const demoTrace = compat.Made +
	"rows=700,rate=140,input-tokens=1100:6000,output-tokens=20:100,reuse=1," +
	"turns=1:5,turn-tokens=200:1500,active=150,system-tokens=1024,seed=2"

// newDemoCommand replays a small trace that needs no file against a server that needs no machine.
func newDemoCommand() *cobra.Command {
	var o options
	all := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	o.addFlags(all)
	o.line = compat.NewLine(all, false)
	o.demo = true
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
			ui.quiet = o.progress.quiet
			const words = "Demo: 700 requests of a made-up chat service leave at their recorded moments, within 5 s. " +
				"A mock server answers: the first token after 25 ms, then one every 5 ms, with a prefix cache as " +
				"real servers have it. You should see these times below, and prefix hits near the ideal."
			for _, line := range format.Fill(words, cmp.Or(ui.width, 80)) {
				ui.line("%s", line)
			}
			return replayTrace(c.Context(), &o, ui, c.OutOrStdout())
		},
	}
	for _, name := range []string{"output", "scale", "goodput", "require", "full", "json", "verbose", "progress",
		"quiet"} {
		if flag := all.Lookup(name); flag != nil {
			flag.Hidden = name == "goodput" || name == "require" // refused, with the reason
			c.Flags().AddFlag(flag)
		}
	}
	return c
}

// senderCommand is the name by which a replay starts the process of its senders.
const senderCommand = "sender"

// newSenderCommand returns the command that a replay starts by itself; nobody else can.
func newSenderCommand() *cobra.Command {
	return &cobra.Command{
		Use:    senderCommand,
		Short:  "The process that sends a replay's requests; a replay starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return engine.ServeSender() },
	}
}

// newProfileCommand is the main command for those who know `aiperf profile` or `genai-perf profile`.
func newProfileCommand() *cobra.Command {
	return addReplay(&cobra.Command{
		Hidden: true, // in the list: those who come from AIPerf know its name
		Use:    "profile --input-file FILE [flags]",
		Short:  "Replay a trace, given AIPerf's or GenAI-Perf's command line",
		Example: `  fastreplay profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming \
    -u localhost:8000 --input-file t.jsonl --custom-dataset-type mooncake_trace`,
	}, true)
}

// openTraces reads the traces, or makes the one that is described.
func (o *options) openTraces() (*trace.Trace, error) {
	spec, made := strings.CutPrefix(o.Traces[0], compat.Made)
	if !made {
		return trace.OpenAll(o.Traces, o.Read)
	}
	if len(o.Traces) > 1 {
		return nil, fmt.Errorf("--trace %s%s: a trace that is made stands alone", compat.Made, spec)
	}
	t, err := madeTrace(spec, o.Seed, o.Read)
	if err != nil {
		return nil, fmt.Errorf("--trace %s%s: %w", compat.Made, spec, err)
	}
	return t, nil
}
