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
	backend, err := b.tellAnswers(b.salt, !b.o.noStream)
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
	if err := b.carryHistory(); err != nil {
		return err
	}
	return b.checkMemory(ctx)
}

// maxNamed is how many rows a note names.
const maxNamed = 10

// noteShort lists the rows that are shorter than what the server adds to them.
func (b *built) noteShort() {
	short, rows := int64(0), []string(nil)
	for i := range b.Requests() {
		if b.SurplusTokens(i) <= 0 {
			continue
		}
		if short++; short <= maxNamed {
			rows = append(rows, fmt.Sprint(b.Trace.Row[i]))
		}
	}
	switch {
	case short == 0:
		return
	case short > maxNamed:
		rows = append(rows, "…")
	}
	b.ui.note("%s of at most %d tokens, which the server adds anyway: each is sent as one token, so it gets more than recorded (rows %s, from 0)",
		format.Many(short, "prompt"), b.Overhead.Tokens(), strings.Join(rows, ", "))
}

func (b *built) checkMemory(ctx context.Context) error {
	kept := b.kept()
	allowed, err := b.o.allowance(kept)
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
	filled, endProgress := b.ui.watchWork("building", b.Prebuilt.Bytes(), format.Bytes)
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
	b.compareFingerprint(fingerprint)
	return nil
}

// compareFingerprint notes whether the requests are those of the run whose flags --config has.
func (b *built) compareFingerprint(fingerprint string) {
	switch b.o.like {
	case "":
	case fingerprint:
		b.ui.line("       the same requests as those of %s", b.o.config)
	default:
		b.ui.note("the requests are not those of %s (fingerprint %s): the trace, a flag or what the server adds to a prompt is another", b.o.config, b.o.like)
	}
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
		check = countIDs(b.tokenizer.Ordinary())
	}
	n, err := b.builder.Verify(ctx, b.Work, b.o.verifyPrompts, check)
	if wrong := (*workload.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w, counted with %s; nothing was sent. This is a bug: please report it; meanwhile replay without --tokenizer", wrong, b.tokenizer.Name())
	}
	if err != nil {
		return err
	}
	b.ui.detail("verified: %s of %s counted again with %s, each exact, in %s", format.Count(int64(n)),
		format.Many(int64(b.Requests()), "prompt"), b.tokenizer.Name(), format.Duration(float64(time.Since(began)), 3))
	return nil
}

// countIDs counts the ids of a prompt and refuses those that are none of the vocabulary's ordinary ones.
func countIDs(ordinary []int) func([]byte) (int, error) {
	return func(prompt []byte) (n int, err error) {
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

// The values of --history.
const (
	historyRecorded = "recorded"
	historyLive     = "live"
)

// carryHistory prepares the turns that get what the servers answer.
func (b *built) carryHistory() (err error) {
	if b.o.sessions.past == historyRecorded {
		return nil
	}
	if b.history, err = history.New(b.builder, b.Work); err != nil {
		return fmt.Errorf("--history %s: %w", historyLive, err)
	}
	b.ui.detail("      live history: %s to get what the servers answer to the turns before", format.Many(int64(b.history.Turns()), "follow-up turn"))
	b.ui.note("live history: the fingerprint and the bytes on the wire are those of the requests as recorded")
	return nil
}

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
	case plan.Turns != nil && plan.Turns.Job != nil:
		what += fmt.Sprintf(" of %s in %s", format.Many(int64(plan.Turns.Jobs()), "job"), format.Many(int64(plan.Concurrency), "lane"))
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
	b.ui.detail("      %s output tokens", format.Count(output))
	if load.Peak != nil {
		b.ui.detail("      at most %s in one second", format.Many(*load.Peak, "request"))
	}
	if plan.Cap > 0 {
		b.ui.detail("      at most %s in flight; the rest is held back", format.Count(int64(plan.Cap)))
	}
	if plan.Turns != nil {
		b.ui.detail("      %s", b.o.sessions.words())
	}
	b.describeVerbatims()
	b.ui.detail("      %s on the wire, built in memory; largest request %s", format.Bytes(b.Prebuilt.Bytes()), format.Bytes(int64(b.Prebuilt.Largest())))
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
		where = format.Many(int64(n), "server")
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
