package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// newReplayCommand is the main command.
func newReplayCommand() *cobra.Command {
	return addReplay(&cobra.Command{
		Short: "Replay a trace of LLM requests, each at its recorded moment",
		Example: `  fastreplay demo
  fastreplay --trace conversation.jsonl.zst --url http://gpu1:8000 --scale 2
  fastreplay chat.jsonl -u gpu1:8000 -u gpu2:8000 --api chat --json > summary.json`,
	}, false)
}

// addReplay makes cmd replay, with its flags and the names that other tools have for them; profile: as AIPerf's command would.
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
			err = replay(cmd.Context(), &o, newTerminal(cmd.ErrOrStderr()), cmd.OutOrStdout())
		}
		return o.line.Explain(err)
	}
	return cmd
}

// translate sets the options to what the flags mean: ours, other tools', and those of a file.
func (o *options) translate(args []string) error {
	file, fingerprint, err := readConfig(o.config, o.line.Flags)
	if err == nil {
		o.masked, o.like = unmask(file), fingerprint
		err = o.line.Translate(file, len(args) > 0)
	}
	if err != nil {
		return err
	}
	if slices.Contains(o.line.FromFile, "trace") && slices.Contains(o.traces, "-") {
		return fmt.Errorf("--config %s: its trace came from standard input, which cannot be read again; pipe it once more, as in `fastreplay - --config …`", o.config)
	}
	o.read.FileTime = o.line.FileTime
	return o.complete(args)
}

// replay is the main command. Each step returns what it found, and the next ones use it. Whatever fails before the start is an error
// of usage, trace or target.
func replay(ctx context.Context, o *options, ui *terminal, out io.Writer) (err error) {
	ctx, interrupts := catchSignals(ctx, ui)
	defer interrupts.release()
	o.probe.begin()
	ui.quiet, ui.mode = o.progress.quiet, o.progress.mode
	if ui.quiet && ui.mode == progressAuto {
		ui.mode = progressNone
	}
	if addr := o.progress.metricsAddr; addr != "" { // before anything else takes time; it stays open until the process ends
		if o.progress.listener, err = net.Listen("tcp", addr); err != nil {
			return fmt.Errorf("--metrics-addr: %w; want host:port of this machine, such as 127.0.0.1:9400", err)
		}
	}
	ui.verbose = o.verbose || o.dryRun
	o.noteFlags(ui)
	dir := ""
	if !o.dryRun { // before servers are probed and requests built for nothing
		if dir, err = report.Create(o.output, time.Now()); err != nil {
			return err
		}
		defer unmake(dir)
		if err = o.placeResults(dir); err != nil {
			return err
		}
	}
	stamps, err := o.probeStamps(ui)
	if err != nil {
		return err
	}
	group, ctx, err := o.join(ctx, ui)
	if err = orInterrupted(ctx, err); err != nil {
		return err
	}
	defer func() { group.Leave(err) }()
	load, err := readTrace(ctx, o, ui)
	if err = orInterrupted(ctx, err); err != nil {
		return err
	}
	target, err := findTarget(ctx, o, load, ui)
	defer target.close()
	if err = orInterrupted(ctx, err); err != nil {
		return err
	}
	p, err := prepare(ctx, o, load, target, ui)
	if err != nil {
		return err
	}
	b, err := build(ctx, p)
	defer load.free()
	switch {
	case err != nil || o.dryRun && !o.json:
		return err
	case o.dryRun:
		return report.EncodeJSON(out, b.known())
	}
	return send(ctx, b, dir, stamps, group, interrupts, out)
}

// unmake removes the directory of a run that did not start.
func unmake(dir string) {
	if exists(filepath.Join(dir, report.PlanName)) {
		return
	}
	if os.Remove(dir) == nil && filepath.Dir(dir) == report.DefaultRoot {
		_ = os.Remove(report.DefaultRoot) // only if it is empty
	}
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

// noteFlags prints what a file has set, and what has become of the flags of other tools.
func (o *options) noteFlags(ui *terminal) {
	if o.config != "" {
		set := "nothing"
		if len(o.line.FromFile) > 0 {
			set = "--" + strings.Join(o.line.FromFile, ", --")
		}
		ui.detail("config: %s sets %s", o.config, set)
	}
	for _, note := range o.line.Notes {
		ui.note("%s", note)
	}
}

// send is the run itself: warm-up, cold start, connections, replay, results.
func send(ctx context.Context, b *built, dir string, stamps wire.Stamps, group *shard.Group, interrupts *interrupts, out io.Writer) (err error) {
	sink, err := newResults(b, dir, out)
	if err != nil {
		return err
	}
	sent := false
	defer func() {
		if !sent {
			err = errors.Join(err, sink.discard())
		}
	}()
	cfg, err := b.config(stamps)
	if err != nil {
		return err
	}
	chunks, endChunkLog, err := openChunkLog(b.o.chunkLog, b.ui)
	if err != nil {
		return err
	}
	cfg.Chunks = chunks
	run := engine.New(cfg, b.Work, b.runID, b.ideal, sink)
	sink.run = run
	if err := run.SenderErr(); err != nil && b.o.sender == senderProcess {
		return fmt.Errorf("--sender process: %w", err)
	}
	interrupts.onRun(run)
	if err := getReady(ctx, b, run, sink); err != nil {
		return err
	}
	if err := sink.awaitStart(ctx, group, interrupts); err != nil {
		return orInterrupted(ctx, err)
	}
	for i := range b.leftOut {
		sink.Record(&b.leftOut[i], -1)
	}
	sink.servers.start(run, sink.meter)
	if b.o.progress.listener != nil {
		go serveMetrics(b.o.progress.listener, func() []byte { return sink.meter.Snapshot(counts(run)).Metrics() })
	}
	endProgress := b.watchRun(run, sink.meter, interrupts)
	found, err := run.Do(ctx)
	endProgress()
	endChunkLog()
	sink.servers.end()
	if err != nil {
		return err
	}
	sent = true
	if group != nil {
		b.sharded.Clock = group.End()
	}
	return sink.conclude(found, run.Records())
}

// getReady is what comes after the servers were asked and before the first request: warm-up, cold caches, a first look at the
// servers' metrics, connections.
func getReady(ctx context.Context, b *built, run *engine.Run, sink *results) error {
	err := b.warmUp(ctx)
	if err == nil && b.flushed { // what probes and waiting have left in the caches, at the last moment
		_, err = b.prober.Flush(ctx)
	}
	if err == nil {
		sink.servers, err = b.watchServers(ctx, sink.dir)
	}
	if err == nil {
		run.Connect(ctx)
	}
	return orInterrupted(ctx, err)
}

// demoTrace describes the trace of a demo: 700 requests in 5 s, so that p99 can be judged, of conversations behind one system prompt.
const demoTrace = compat.Made + "rows=700,rate=140,input-tokens=1100:6000,output-tokens=20:100,reuse=1,turns=1:5,turn-tokens=200:1500,active=150,system-tokens=1024,seed=2"

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
			ui := newTerminal(c.ErrOrStderr())
			ui.quiet = o.progress.quiet
			const words = "Demo: 700 requests of a made-up chat service leave at their recorded moments, within 5 s. A mock server answers: the first " +
				"token after 25 ms, then one each 5 ms, with a prefix cache as real servers have it. Watch TTFT, TPOT and prefix hits come out so."
			for _, line := range fillLines(words, cmp.Or(ui.width, 80)) {
				ui.line("%s", line)
			}
			return replay(c.Context(), &o, ui, c.OutOrStdout())
		},
	}
	for _, name := range []string{"output", "scale", "goodput", "require", "full", "json", "verbose", "progress", "quiet"} {
		if flag := all.Lookup(name); flag != nil {
			flag.Hidden = name == "goodput" || name == "require" // refused, with the reason
			c.Flags().AddFlag(flag)
		}
	}
	return c
}
