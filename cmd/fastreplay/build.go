package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// built is a prepared load with its requests in memory.
type built struct {
	*prepared
	builder *workload.Builder
	ideal   workload.IdealHits
	sharded *shard.File      // nil if the run sends the whole load
	next    []record.Record  // what the next shard is to send
	history *history.History // nil if turns are sent as recorded
	seconds float64          // that building took
}

// build decides which instance gets which request, finds the exact memory that the requests need, and builds them.
func build(ctx context.Context, p *prepared) (*built, error) {
	b := &built{prepared: p}
	for _, step := range []func(context.Context) error{b.layout, b.fill, b.verify} {
		if err := orInterrupted(ctx, step(ctx)); err != nil {
			return nil, err
		}
	}
	if !b.ui.verbose { // which has printed it
		b.announce()
	}
	return b, nil
}

// layout decides where each request goes and where it lies in memory.
func (b *built) layout(ctx context.Context) error {
	if err := b.route(); err != nil {
		return err
	}
	if b.o.exact() { // lays answers and prompts out in each other
		b.TellAnswers(b.source.(*prompt.TokenIDs))
	}
	backend, err := b.o.tellingBackend(b.model, b.salt, !b.o.noStream, b.o.exact())
	if err != nil {
		return err
	}
	b.ideal = b.IdealHits()
	if err := b.takePart(backend); err != nil {
		return err
	}
	b.builder = &workload.Builder{Backend: backend, Source: b.source, RunID: b.runID, Headers: b.headers(b.o, backend, b.verbatims.shaped())}
	if b.Prebuilt, err = b.builder.Layout(ctx, b.Work); err != nil {
		return err
	}
	b.describe()
	if b.o.exact() {
		a := b.answers()
		b.ui.detail("      answers: %s are told, %s of them in the prompts of %s", format.Many(a.Told, "token"), format.Count(a.Carried), format.Many(a.Turns, "follow-up turn"))
	}
	b.noteShort()
	if b.o.sessions.past == historyLive {
		if b.history, err = history.New(b.builder, b.Work); err != nil {
			return fmt.Errorf("--history %s: %w", historyLive, err)
		}
		b.ui.detail("      live history: %s to get what the servers answer to the turns before", format.Many(b.history.Turns(), "follow-up turn"))
		b.ui.note("live history: the fingerprint and the bytes on the wire are those of the requests as recorded")
	}
	return b.checkMemory(ctx)
}

// maxNamed is how many rows a note names.
const maxNamed = 10

// noteShort lists the rows that are shorter than what the server adds to them.
func (b *built) noteShort() {
	var rows []string
	for i := range b.Requests() {
		if b.SurplusTokens(i) > 0 {
			rows = append(rows, fmt.Sprint(b.Trace.Row[i]))
		}
	}
	short := int64(len(rows))
	if short == 0 {
		return
	} else if short > maxNamed {
		rows = append(rows[:maxNamed], "…")
	}
	b.ui.note("%s of at most %d tokens, which the server adds anyway: each is sent as one token, so it gets more than recorded (rows %s, from 0)",
		format.Many(short, "prompt"), b.Overhead.Tokens(), strings.Join(rows, ", "))
}

func (b *built) checkMemory(ctx context.Context) error {
	kept := keptForRun + int64(b.Requests())*keptForRequest + int64(b.descriptorsNeeded()-descriptorsBesides)*keptForConnection
	allowed, err := freeAllowance(kept)
	if b.o.maxBytes > 0 {
		allowed, err = allowance{b.o.maxBytes, "--max-memory"}, nil
	}
	if err != nil {
		b.ui.note("free memory is unknown (%v); give --max-memory to bound the memory of requests", err)
		return nil
	}
	if b.Prebuilt.Held() > allowed.bytes {
		b.builder.ShareFor(ctx, b.Work, b.Prebuilt, allowed.bytes)
	}
	need := b.Prebuilt.Held()
	if free, of, err := host.FreeMemory(); err == nil && b.o.maxBytes > 0 && min(need, allowed.bytes)+kept > free {
		b.ui.note("--max-memory %s and about %s that the run takes besides are more than %s, %s: the run may be killed", format.Bytes(allowed.bytes), format.Bytes(kept), format.Bytes(free), of)
	}
	if need > allowed.bytes {
		b.ui.detail("      more than the %s allowed (%s): requests are built during the run, each ahead of its planned time", format.Bytes(allowed.bytes), allowed.origin)
		if err := b.builder.UseRing(b.Work, b.Prebuilt, allowed.bytes); err != nil {
			return fmt.Errorf("%w (%s, and about %s for the run besides)", err, allowed.origin, format.Bytes(kept))
		}
		return nil
	}
	once := ""
	if need < b.Prebuilt.Bytes() {
		once = ", blocks that prompts share held once"
	}
	b.ui.detail("      memory for them: %s of %s allowed (%s)%s", format.Bytes(need), format.Bytes(allowed.bytes), allowed.origin, once)
	return nil
}

// fill builds every request, or as many as fit into the ring.
func (b *built) fill(ctx context.Context) error {
	began := time.Now()
	filled, endProgress := b.ui.watchWork("building", b.Prebuilt.Bytes(), format.Bytes[int64])
	ring, fill := b.Prebuilt.RingBytes(), b.builder.Fill
	if ring > 0 {
		fill = b.builder.FillRing
	}
	err := fill(ctx, b.Work, b.Prebuilt, filled)
	endProgress()
	if err != nil {
		return err
	}
	b.seconds = time.Since(began).Seconds()
	took := format.Seconds(b.seconds)
	if ring > 0 {
		b.ui.detail("built: the first %s in %s; the rest follows during the run, and the fingerprint with its end", format.Bytes(ring), took)
		return nil
	}
	fingerprint := b.Prebuilt.Fingerprint(b.Work)
	b.ui.detail("built: %s in %s, fingerprint %s", format.Bytes(b.Prebuilt.Bytes()), took, fingerprint)
	switch b.o.like {
	case "":
	case fingerprint:
		b.ui.line("       the same requests as those of %s", b.o.config)
	default:
		b.ui.note("the requests are not those of %s (fingerprint %s): the trace, a flag or what the server adds to a prompt is another", b.o.config, b.o.like)
	}
	return nil
}

// defaultVerified is how many prompts are counted again unless told otherwise: a second's work at most.
const defaultVerified = 64

// parseVerified reads how many prompts are to be counted again; -1 = all.
func parseVerified(text string) (int, error) {
	switch text {
	case "":
		return defaultVerified, nil
	case "all":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errors.New("want a number of prompts, or all")
	}
	return n, nil
}

// verify counts built prompts again with the model's own tokenizer. It stops the run at the first that has another number of tokens
// than it should.
func (b *built) verify(ctx context.Context) error {
	if b.tokenizer == nil || b.o.verifyPrompts == 0 || b.verbatims.all {
		return nil
	}
	began := time.Now()
	check := func(prompt []byte) (int, error) { return b.tokenizer.Count(string(prompt), false) }
	if b.o.prompt == promptTokenIDs {
		ordinary := b.tokenizer.Ordinary() // of which alone prompts are made
		check = func(prompt []byte) (n int, err error) {
			for text := range bytes.SplitSeq(prompt, []byte{','}) {
				id, err := strconv.Atoi(string(text))
				if err != nil {
					return n, err
				}
				if _, ok := slices.BinarySearch(ordinary, id); !ok {
					return n, fmt.Errorf("token %d is id %d, which is no ordinary one", n, id)
				}
				n++
			}
			return n, nil
		}
	}
	n, err := b.builder.Verify(ctx, b.Work, b.o.verifyPrompts, check)
	if wrong := (*workload.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w, counted with %s; nothing was sent. This is a bug: please report it; meanwhile replay without --tokenizer", wrong, b.tokenizer.Name())
	}
	if err != nil {
		return err
	}
	b.ui.detail("verified: %s of %s counted again with %s, each exact, in %s", format.Count(n),
		format.Many(b.Requests(), "prompt"), b.tokenizer.Name(), format.Duration(time.Since(began), 3))
	return nil
}

// The values of --history.
const (
	historyRecorded = "recorded"
	historyLive     = "live"
)

// longRunS is how long a run takes that people may not have meant to start, in s. The public traces of Mooncake and Azure last just below.
const longRunS = 3600

// largeLoad is how many bytes of requests take half a second to build: 4.25 GB of Weka's public trace took 6.7 s on 2 cores.
const largeLoad = 1 << 28

// describe prints in a line what is about to happen, and its details if they are wanted.
func (b *built) describe() {
	plan, load := b.Plan, b.size()
	var input, output, several int64
	for i := range plan.Requests {
		if b.AskedChoices(i) > 1 {
			several++
		}
		output += int64(b.Trace.OutputTokens[i])
		if b.Made(i) {
			input += int64(b.Trace.InputTokens[i])
		}
	}
	what := format.Many(load.Requests, "request")
	switch {
	case load.RequestsPerS != nil:
		what += fmt.Sprintf(" over %s (%s/s)", format.Span(load.SpanS), format.Rate(*load.RequestsPerS))
	case plan.Dependencies != nil && plan.Dependencies.Job != nil:
		what += fmt.Sprintf(" of %s in %s", format.Many(plan.Dependencies.Jobs(), "job"), format.Many(plan.Concurrency, "lane"))
	case !plan.Open():
		what += fmt.Sprintf(", %d at a time", plan.Concurrency)
	}
	if b.amplify != nil {
		what += fmt.Sprintf(", load ×%g", b.amplify.Factor)
	}
	if input > 0 {
		what += ", " + format.Short(float64(input)) + " input tok"
	}
	if load.HitRatio != nil {
		what += ", ideal hits " + format.Percent(*load.HitRatio)
		if _, most := b.idealShare(); b.ideal.Expected == nil {
			what += " to " + format.Percent(most)
		}
	}
	b.ui.line("%s", what)
	if load.SpanS > longRunS && b.o.pacing.duration == 0 {
		shorter := "--limit replays less"
		if b.o.pacing.timed() {
			shorter = "--from and --to replay a part, --idle-cap shortens idle times"
		}
		b.ui.note("this takes %s or longer; %s, --duration ends it sooner", format.Span(load.SpanS), shorter)
	}
	b.ui.detail("      %s output tokens", format.Count(output))
	if load.Peak != nil {
		b.ui.detail("      at most %s in one second", format.Many(*load.Peak, "request"))
	}
	if plan.Cap > 0 {
		b.ui.detail("      at most %s in flight; the rest is held back", format.Count(plan.Cap))
	}
	if plan.Dependencies != nil {
		b.ui.detail("      %s", b.o.sessions.words())
	}
	b.describeVerbatims()
	b.ui.detail("      %s on the wire, built in memory; largest request %s", format.Bytes(b.Prebuilt.Bytes()), format.Bytes(b.Prebuilt.Largest()))
	if b.o.pacing.duration > 0 && !plan.Open() && b.Prebuilt.Bytes() > largeLoad {
		b.ui.note("all %s are built, %s: nobody knows how many are answered within --duration; --limit builds fewer", format.Many(load.Requests, "request"), format.Bytes(b.Prebuilt.Bytes()))
	}
	if several > 0 {
		b.ui.line("note: several choices are asked for (n or best_of) in %s: TPOT and gaps are by choice, completion tokens those of all choices", format.Many(several, "request"))
	}
}

// announce prints what the servers were asked.
func (b *built) announce() {
	if b.o.noProbe {
		b.ui.line("not probed: %s", strings.Join(b.URLs(), ", "))
		return
	}
	caches := "caches as they are"
	switch {
	case b.flushed:
		caches = "caches flushed"
	case b.salt != "":
		caches = "caches cold by a salt"
	}
	where := b.URLs()[0]
	if n := len(b.URLs()); n > 1 {
		where = format.Many(n, "server")
	}
	b.ui.line("probed: %s at %s, %s", cmp.Or(b.shownModel(), "the server"), where, caches)
}

// size is how large the load is. The ideal hits are the least that they can be.
func (b *built) size() metrics.Load {
	l := metrics.Load{Requests: int64(b.Requests()), SpanS: float64(b.Plan.SpanNS()) / 1e9}
	if b.Plan.Open() {
		l.Peak = new(int64(b.Plan.PeakWithin(time.Second)))
		if l.SpanS > 0 {
			l.RequestsPerS = new(float64(l.Requests) / l.SpanS)
		}
	}
	if !b.verbatims.all || b.Verbatim != nil {
		least, _ := b.idealShare()
		l.HitRatio = &least
	}
	return l
}

// idealShare returns the share of the input tokens that an ideal cache would hold, at least and at most.
func (b *built) idealShare() (least, most float64) {
	var tokens, low, high int64
	for i := range b.Requests() {
		if n := b.ServerTokens(i); n > 0 {
			tokens, low, high = tokens+int64(n), low+b.ideal.Least[i], high+b.ideal.Most[i]
		}
	}
	return float64(low) / float64(max(1, tokens)), float64(high) / float64(max(1, tokens))
}

// exact reports whether servers are told what to answer.
func (o *options) exact() bool { return o.sessions.told == metrics.AnswersExact }

// checkAnswers refuses --answers exact where no server can be told its answers.
func (o *options) checkAnswers(l *load) error {
	switch {
	case !o.exact():
		return nil
	case !o.traits.Answers:
		return fmt.Errorf("--answers %s: a server of --api %s cannot be told which tokens to answer; use --api vllm-generate (vLLM with --enable-trace-replay), "+
			"or --history live for a trace with messages, which puts what the servers answer into later turns", metrics.AnswersExact, o.api)
	case l.verbatims.all:
		return fmt.Errorf("--answers %s: the trace has its requests verbatim, and no prompt is made of tokens", metrics.AnswersExact)
	case o.sessions.past == historyLive:
		return fmt.Errorf("--answers %s tells servers the answers that the trace's later prompts have: leave out --history %s", metrics.AnswersExact, historyLive)
	case l.Choices > 1:
		return fmt.Errorf("--answers %s: each request asks for %d answers, and one can be told", metrics.AnswersExact, l.Choices)
	}
	return nil
}

// probeAnswers asks the servers for one answer that they are told.
func (p *prepared) probeAnswers(ctx context.Context) error {
	source, ok := p.source.(*prompt.TokenIDs)
	if !p.o.exact() || !ok {
		return nil
	}
	backend, err := p.o.tellingBackend(p.model, "", false, true)
	if err != nil {
		return err
	}
	if err := p.prober.Answers(ctx, backend, source); err != nil {
		return fmt.Errorf("--answers %s: %w", metrics.AnswersExact, err)
	}
	p.ui.detail("answers: the servers make the tokens that they are told, proven with one short answer each")
	return nil
}

// answers is what is known of the answers before the run; nil where no prompt made of tokens can have any.
func (b *built) answers() *metrics.Answers {
	if !b.o.exact() && (b.verbatims.rows > 0 || !b.o.traits.Generates || b.Trace.Parent == nil) {
		return nil
	}
	a := &metrics.Answers{Mode: b.o.sessions.told}
	a.Carried, a.Turns = b.Carried()
	for i := range b.Requests() {
		if b.Made(i) {
			a.Prompt += int64(b.Trace.InputTokens[i])
		}
		if told, ok := b.AnswerOf(i); ok {
			a.Told += int64(told.Tokens)
		}
	}
	return a
}
