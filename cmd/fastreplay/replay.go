package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// newReplayCommand is the main command.
func newReplayCommand() *cobra.Command {
	return addReplay(&cobra.Command{
		Short: "Replay a trace of LLM requests against serving endpoints",
		Long: `Replay a trace of LLM requests: each leaves at its recorded moment, with a prompt that produces the recorded
prefix-cache hits, and every latency is measured at the socket. Flags of AIPerf, GenAI-Perf, trace-replayer and vLLM's
bench are taken, too: fastreplay help compat lists them.

Without --url an embedded mock server is started and replayed against. Exit codes: 0 valid, 1 finished but INVALID,
2 bad usage, trace or target (nothing was sent), 130 interrupted.`,
		Example: `  fastreplay --trace conversation.jsonl.zst --url http://gpu1:8000 --scale 2
  fastreplay chat.jsonl --url gpu1:8000 --url gpu2:8000 --api chat --json > summary.json
  fastreplay --config nightly.yaml --rate 20`,
	}, false)
}

// addReplay makes cmd replay, with its flags and the names that other tools have for them; profile: as AIPerf's command would.
func addReplay(cmd *cobra.Command, profile bool) *cobra.Command {
	var o options
	o.addFlags(cmd.Flags())
	line := compat.NewLine(cmd.Flags(), profile)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := o.translate(line, args)
		if err == nil {
			r := &replay{o: &o, line: line, out: cmd.OutOrStdout(), say: newTerminal(cmd.ErrOrStderr())}
			err = r.run(cmd.Context())
		}
		return line.Explain(err)
	}
	return cmd
}

// replay is one invocation of the main command, step by step.
type replay struct {
	o    *options
	line *compat.Line
	out  io.Writer
	say  *terminal

	trace     *trace.Trace
	selected  int              // rows of the file that are replayed, before --amplify and --repeat
	amplify   *metrics.Amplify // nil where the load is as recorded
	verbatims verbatims
	work      *workload.Work
	builder   *workload.Builder
	source    prompt.Source
	tokenizer *tokenizer.Tokenizer // nil where none was given
	secrets   []http1.Header
	prober    *probe.Prober
	probed    probed
	mock      *embeddedMock
	runID     string
	ideal     workload.IdealHits
	stamps    wire.Stamps
	chunks    *engine.ChunkLog // nil where none is written
	history   *history.History // nil where turns are sent as recorded
	leftOut   []record.Record  // of requests that are not sent, for they are too long
	workload  metrics.Workload // what fit has found
	notes     []string
	unknown   []metrics.Unknown // what the servers do not tell
	unproven  string            // a note that the run contradicts if responses report cached tokens; "" = none
	loadS     float64
	buildS    float64
}

// run takes the steps in order. Whatever fails before the start is an error of usage, trace or target.
func (r *replay) run(ctx context.Context) error {
	ctx, interrupts := catchSignals(ctx, func(text string) { r.say.line("%s", text) })
	defer interrupts.release()
	defer r.cleanUp()
	r.runID = fmt.Sprintf("%08x", rand.Uint32())
	r.noteLine()
	for _, step := range []func(context.Context) error{r.checkOutput, r.checkStamps, r.load, r.aim, r.probe, r.countVerbatim, r.fit, r.checkMetrics, r.lay, r.build, r.verifyPrompts} {
		err := step(ctx)
		if ctx.Err() != nil { // what an interrupted step found out may be wrong
			return errInterrupted()
		}
		if err != nil {
			return err
		}
	}
	if r.o.dryRun {
		return nil
	}
	return r.send(ctx, interrupts)
}

func errInterrupted() error {
	return &exitError{exitInterrupted, "interrupted before the start; nothing was sent"}
}

func (r *replay) cleanUp() {
	if r.work != nil && r.work.Prebuilt != nil {
		_ = r.work.Prebuilt.Free()
	}
	if r.mock != nil {
		r.mock.stop()
	}
}

// translate reads what the flags say: ours, other tools', and those of a file.
func (o *options) translate(line *compat.Line, args []string) error {
	file, err := readConfig(o.config, line.Flags)
	if err == nil {
		err = line.Translate(file, len(args) > 0)
	}
	if err != nil {
		return err
	}
	o.read.FileTime = line.FileTime
	return o.complete(args)
}

// noteLine says what a file has set, and what has become of the flags of other tools.
func (r *replay) noteLine() {
	if r.o.config != "" {
		set := "nothing"
		if len(r.line.FromFile) > 0 {
			set = "--" + strings.Join(r.line.FromFile, ", --")
		}
		r.say.line("config: %s sets %s", r.o.config, set)
	}
	for _, note := range r.line.Notes {
		r.note("%s", note)
	}
}

// checkOutput makes sure that the results will have a place, before servers are probed and requests built for nothing.
func (r *replay) checkOutput(context.Context) error {
	if r.o.output == "" || r.o.dryRun {
		return nil
	}
	return report.Vacant(r.o.output)
}

// lay decides which instance gets which request and finds the exact memory that the images need.
func (r *replay) lay(ctx context.Context) error {
	if err := r.route(); err != nil {
		return err
	}
	backend, err := r.o.backend(r.probed.model, r.probed.salt, !r.o.noStream)
	if err != nil {
		return err
	}
	r.builder = &workload.Builder{
		Backend: backend, Source: r.source, RunID: r.runID,
		Headers: append(r.ownHeaders(backend), r.secrets...),
	}
	if r.work.Prebuilt, err = r.builder.Layout(ctx, r.work); err != nil {
		return err
	}
	r.ideal = r.work.IdealHits()
	r.describeWork()
	r.noteShort()
	if err := r.carryHistory(); err != nil {
		return err
	}
	return r.checkMemory()
}

// maxNamed is how many rows a note names.
const maxNamed = 10

// noteShort names the rows that are shorter than what the server adds to them.
func (r *replay) noteShort() {
	short, rows := int64(0), []string(nil)
	for i := range r.work.Requests() {
		if r.work.SurplusTokens(i) <= 0 {
			continue
		}
		if short++; short <= maxNamed {
			rows = append(rows, fmt.Sprint(r.trace.Row[i]))
		}
	}
	switch {
	case short == 0:
		return
	case short > maxNamed:
		rows = append(rows, "…")
	}
	r.note("%s of at most %d tokens, which the server adds anyway: each is sent as one token, so it gets more than recorded (rows %s, from 0)",
		format.Many(short, "prompt"), r.work.Overhead.Tokens(), strings.Join(rows, ", "))
}

func (r *replay) ownHeaders(backend api.Backend) []http1.Header {
	accept := "text/event-stream"
	switch {
	case r.verbatims.shaped():
		accept = "text/event-stream, application/json" // a row may ask for the one or the other
	case r.o.noStream:
		accept = "application/json"
	}
	headers := []http1.Header{
		{Name: "User-Agent", Value: "fastreplay/" + buildVersion()}, {Name: "Accept", Value: accept}, {Name: "Content-Type", Value: "application/json"},
	}
	for _, h := range backend.Headers() {
		headers = append(headers, http1.Header(h))
	}
	return headers
}

func (r *replay) checkMemory() error {
	need := r.work.Prebuilt.Bytes()
	kept := r.kept()
	allowed, err := r.o.allowance(kept)
	if err != nil {
		r.note("free memory is unknown (%v); give --max-memory to bound the request images", err)
		return nil
	}
	if free, of, err := host.FreeMemory(); err == nil && r.o.maxBytes > 0 && min(need, allowed.bytes)+kept > free {
		r.note("--max-memory %s and about %s that the run takes besides are more than %s, %s: the run may be killed", format.Bytes(allowed.bytes), format.Bytes(kept), format.Bytes(free), of)
	}
	if need > allowed.bytes {
		r.say.line("      more than the %s allowed (%s): requests are built during the run, each ahead of its instant", format.Bytes(allowed.bytes), allowed.origin)
		if err := r.builder.UseRing(r.work, r.work.Prebuilt, allowed.bytes); err != nil {
			return fmt.Errorf("%w (%s, and about %s for the run besides); raise --max-memory, or replay less with --limit, --from/--to or --duration", err, allowed.origin, format.Bytes(kept))
		}
		return nil
	}
	r.say.line("      memory for them: %s of %s allowed (%s)", format.Bytes(need), format.Bytes(allowed.bytes), allowed.origin)
	return nil
}

// build makes every request's bytes.
func (r *replay) build(ctx context.Context) error {
	began := time.Now()
	progress := r.say.watchBuild(r.work.Prebuilt.Bytes())
	ring, fill := r.work.Prebuilt.RingBytes(), r.builder.Fill
	if ring > 0 {
		fill = r.builder.FillRing
	}
	err := fill(ctx, r.work, r.work.Prebuilt, &progress.built)
	progress.end()
	if err != nil {
		return err
	}
	r.buildS = time.Since(began).Seconds()
	took := format.Seconds(r.buildS)
	if ring > 0 {
		r.say.line("built: the first %s in %s; the rest follows during the run, and the fingerprint with its end", format.Bytes(ring), took)
		return nil
	}
	r.say.line("built: %s in %s, fingerprint %s", format.Bytes(r.work.Prebuilt.Bytes()), took, r.work.Prebuilt.Fingerprint(r.work))
	return nil
}

// send is the run itself: connections, cold start, replay, results.
func (r *replay) send(ctx context.Context, interrupts *interrupts) error {
	dir, err := report.Create(r.o.output, time.Now())
	if err != nil {
		return err
	}
	res, err := newResults(dir, r)
	if err != nil {
		return err
	}
	limit, err := r.raiseDescriptors()
	if err != nil {
		return err
	}
	endChunkLog, err := r.openChunkLog()
	if err != nil {
		return errors.Join(err, res.discard())
	}
	run := engine.New(r.config(limit), r.work, r.runID, r.ideal, res)
	if err := run.SenderErr(); err != nil && r.o.sender == senderProcess {
		return errors.Join(fmt.Errorf("--sender process: %w", err), res.discard())
	}
	interrupts.onRun(run)
	if err := r.getReady(ctx, run, res); err != nil {
		return errors.Join(err, res.discard())
	}
	for i := range r.leftOut {
		res.Record(&r.leftOut[i], -1)
	}
	res.servers.start(run)
	progress := r.say.watchRun(run, res.collector.DriftP99NS, r.work.Plan.SpanNS())
	found, err := run.Do(ctx)
	progress.end()
	endChunkLog()
	res.servers.end()
	if err != nil {
		return errors.Join(err, res.discard())
	}
	return res.conclude(found, run.Records())
}

// getReady is what comes after the servers were asked and before the first request: warm-up, cold caches, a first look at the
// servers' metrics, connections.
func (r *replay) getReady(ctx context.Context, run *engine.Run, res *results) error {
	err := r.warmUp(ctx)
	if err == nil {
		err = r.startCold(ctx)
	}
	if err == nil {
		res.servers, err = r.watchServers(ctx, res.dir)
	}
	if err == nil {
		run.Connect(ctx)
	}
	if ctx.Err() != nil {
		return errInterrupted()
	}
	return err
}

// raiseDescriptors takes as many as the run may need, and says where there are fewer. It returns the limit.
func (r *replay) raiseDescriptors() (limit int, err error) {
	wanted := min(1<<20, descriptorsBesides+2*r.work.Requests()) // one for every request, up to what one process can use
	if limit, err = host.RaiseDescriptors(wanted); err != nil {
		return 0, err
	}
	if need := r.descriptorsNeeded(); limit < need {
		r.note("the descriptor limit of %s may not hold the requests in flight; raise it with `ulimit -n %d`", format.Count(int64(limit)), need)
	}
	return limit, nil
}

// descriptorsBesides are for all but requests in flight.
const descriptorsBesides = 1 << 10

// longAnswer is a response time beyond which a run that lacks descriptors is no surprise.
const longAnswer = 2 * time.Second

// descriptorsNeeded is room for the requests in flight if each took longAnswer.
func (r *replay) descriptorsNeeded() int {
	most := r.work.Plan.PeakWithin(longAnswer)
	if limit := r.work.Plan.Cap; limit > 0 {
		most = min(most, limit)
	}
	return descriptorsBesides + most
}

func (r *replay) config(descriptors int) engine.Config {
	return engine.Config{
		Backend: r.builder.Backend, Stream: !r.o.noStream || r.verbatims.shaped(), Timeout: r.o.timeout, IdleTimeout: r.o.idleTimeout, ConnectTimeout: r.o.connectTimeout,
		Grace: r.o.grace, CancelAfter: r.o.cutAfter(), Resend: r.o.resend, Realtime: r.o.realtime, Spin: time.Duration(r.o.spin), Senders: r.o.senders, SenderCommand: r.o.senderCommandLine(), TLS: r.prober.TLS, Descriptors: descriptors, Secrets: r.prober.Secrets,
		Stamps: r.stamps, Chunks: r.chunks, History: r.history, InstanceHeaders: r.o.headersNamed(), InstanceField: r.o.instancePath(),
		OnSenderDeath: func(why string) { r.say.line("%s: nothing more is sent; what is in flight may end (--grace)", why) },
	}
}

// note says something worth knowing now and again in the summary.
func (r *replay) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, text)
	r.say.line("note: %s", text)
}

// leaveOpen notes what the servers do not tell, in a few words and in whole sentences; probe says it.
func (r *replay) leaveOpen(what, format string, args ...any) {
	r.unknown = append(r.unknown, metrics.Unknown{What: what, Note: fmt.Sprintf(format, args...)})
}

// describeWork says what is about to happen: the whole of a dry run's answer.
func (r *replay) describeWork() {
	plan, t := r.work.Plan, r.trace
	var input, output, several int64
	for i := range plan.Requests {
		if r.work.AskedChoices(i) > 1 {
			several++
		}
		output += int64(t.OutputTokens[i])
		if r.work.Made(i) {
			input += int64(t.InputTokens[i])
		}
	}
	what := format.Many(int64(plan.Requests), "request")
	if !r.verbatims.all {
		what += fmt.Sprintf(", %s input tokens", format.Count(input))
	}
	if output > 0 {
		what += fmt.Sprintf(", %s output tokens", format.Count(output))
	}
	r.say.line("work: %s", what)
	if plan.Open() {
		mean := ""
		if plan.SpanNS() > 0 {
			mean = fmt.Sprintf("mean %s requests/s, ", format.Rate(float64(plan.Requests)/(float64(plan.SpanNS())/1e9)))
		}
		r.say.line("      over %s: %speak %s in one second", format.Duration(float64(plan.SpanNS()), 4), mean, format.Count(int64(plan.PeakWithin(time.Second))))
		if plan.Cap > 0 {
			r.say.line("      at most %s in flight; the rest is held back", format.Count(int64(plan.Cap)))
		}
	} else {
		r.say.line("      in a closed loop of %d", plan.Concurrency)
	}
	if plan.Turns != nil {
		r.say.line("      %s", r.o.sessions.words())
	}
	r.verbatims.say(r)
	r.say.line("      %s on the wire, built in memory; largest request %s", format.Bytes(r.work.Prebuilt.Bytes()), format.Bytes(int64(r.work.Prebuilt.Largest())))
	r.describeIdeal()
	if several > 0 {
		r.say.line("note: several choices are asked for (n or best_of) in %s: TPOT and gaps are by choice, completion tokens those of all choices", format.Many(several, "request"))
	}
}

// describeIdeal says how much of the prompts that are made an ideal cache would hold.
func (r *replay) describeIdeal() {
	if r.verbatims.all && r.work.Verbatim == nil {
		return
	}
	var built, least, most int64
	for i := range r.work.Requests() {
		if tokens := r.work.ServerTokens(i); tokens > 0 {
			built += int64(tokens)
			least += r.ideal.Least[i]
			most += r.ideal.Most[i]
		}
	}
	share := format.Percent(float64(least) / float64(max(1, built)))
	if r.ideal.Expected == nil {
		share += " to " + format.Percent(float64(most)/float64(max(1, built)))
	}
	whose := "the input tokens"
	if r.verbatims.rows > 0 && r.work.Verbatim == nil {
		whose = "the tokens of prompts that are made"
	}
	placed := ""
	if r.work.Routing.LeastInFlight {
		placed = ", were they sent in turn"
	}
	r.say.line("      an ideal prefix cache would hold %s of %s%s", share, whose, placed)
}
