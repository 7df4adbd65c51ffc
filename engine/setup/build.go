package setup

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
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// layout decides where each request goes and where it lies in memory.
func (p *Prepared) layout(ctx context.Context) error {
	if err := p.route(); err != nil {
		return err
	}
	if p.o.WatchTargets != "" {
		p.AddSpares(spareTargets)
	}
	if p.o.Sessions.ForceAnswers { // lays answers and prompts out in each other
		p.TellAnswers(p.source.(*prompt.TokenIDs))
	}
	backend, err := p.o.backend(p.model, p.salt, !p.o.NoStream, p.o.Sessions.ForceAnswers)
	if err != nil {
		return err
	}
	p.Ideal = p.IdealHits()
	if err := p.takePart(backend); err != nil {
		return err
	}
	p.Builder = &workload.Builder{
		Backend: backend,
		Source:  p.source,
		RunID:   p.RunID,
		Headers: p.headers(backend),
	}
	all := workload.Owned{Backend: backend, Headers: p.Builder.Headers}
	if p.Builder.ByOwner, err = p.byOwner(all); err != nil {
		return err
	}
	if p.Prebuilt, err = p.Builder.Layout(ctx, p.Work); err != nil {
		return err
	}
	p.describe()
	if p.o.Sessions.ForceAnswers {
		a := p.Answers()
		p.detail(
			"      answers: %s are forced, %s of them in the prompts of %s",
			format.Many(a.Forced, "token"), format.Count(a.Carried), format.Many(a.Turns, "follow-up turn"),
		)
	}
	p.noteShort()
	if p.o.Sessions.History == HistoryLive {
		if p.History, err = history.New(p.Work); err != nil {
			return fmt.Errorf("--history %s: %w", HistoryLive, err)
		}
		p.detail(
			"      live history: %s to get what the servers answer to the turns before",
			format.Many(p.History.Turns(), "follow-up turn"),
		)
		p.note("live_history",
			"live history: the fingerprint and the bytes on the wire are those of the requests as recorded")
	}
	return p.checkMemory(ctx)
}

// noteShort lists the rows that are shorter than what the server adds to them.
func (p *Prepared) noteShort() {
	var rows []string
	for i := range p.Requests() {
		if p.SurplusTokens(i) > 0 {
			rows = append(rows, fmt.Sprint(p.Trace.Row[i]))
		}
	}
	short := int64(len(rows))
	if short == 0 {
		return
	} else if short > maxNamed {
		rows = append(rows[:maxNamed], "…")
	}
	p.note("short_prompts",
		"%s of at most %d tokens, which the server adds anyway: each is sent as one token, so it gets more than "+
			"recorded (rows %s, from 0)",
		format.Many(short, "prompt"), p.Overhead.Tokens(), strings.Join(rows, ", "))
}

// fill builds every request, or as many as fit into the ring.
func (p *Prepared) fill(ctx context.Context) error {
	began := time.Now()
	filled, endProgress := p.notes.Work("building", p.Prebuilt.Bytes(), format.Bytes[int64])
	ring := p.Prebuilt.RingBytes()
	fill := p.Prebuilt.Fill
	if ring > 0 {
		fill = p.Prebuilt.FillRing
	}
	err := fill(ctx, filled)
	endProgress()
	if err != nil {
		return err
	}
	p.Facts.BuildS = time.Since(began).Seconds()
	took := format.Seconds(p.Facts.BuildS)
	if ring > 0 {
		p.detail(
			"built: the first %s in %s; the rest follows during the run, and the fingerprint with its end",
			format.Bytes(ring), took,
		)
		return nil
	}
	fingerprint := p.Prebuilt.Fingerprint()
	p.detail("built: %s in %s, fingerprint %s", format.Bytes(p.Prebuilt.Bytes()), took, fingerprint)
	switch p.o.Again.Fingerprint {
	case "":
	case fingerprint:
		p.line("       the same requests as those of %s", p.o.Again.File)
	default:
		p.note(
			"other_requests",
			"the requests are not those of %s (fingerprint %s): the trace, a flag or what the server adds to a "+
				"prompt is another",
			p.o.Again.File, p.o.Again.Fingerprint,
		)
	}
	return nil
}

// DefaultVerified is how many prompts are counted again unless told otherwise: a second's work at most.
const DefaultVerified = 64

// verify counts built prompts again with the model's own tokenizer. It stops the run at the first that has another
// number of tokens than it should.
func (p *Prepared) verify(ctx context.Context) error {
	if p.tokenizer == nil || p.o.VerifyPrompts == 0 || p.verbatims.all {
		return nil
	}
	began := time.Now()
	check := func(prompt []byte) (int, error) { return p.tokenizer.Count(string(prompt), false) }
	if p.o.Prompt == PromptTokenIDs {
		ordinary := p.tokenizer.Ordinary() // of which alone prompts are made
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
	n, err := p.Prebuilt.Verify(ctx, p.o.VerifyPrompts, check)
	if wrong := (*workload.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf(
			"%w, counted with %s; nothing was sent. This is a bug: please report it; meanwhile replay without "+
				"--tokenizer",
			wrong, p.tokenizer.Name(),
		)
	}
	if err != nil {
		return err
	}
	p.detail("verified: %s of %s counted again with %s, each exact, in %s", format.Count(n),
		format.Many(p.Requests(), "prompt"), p.tokenizer.Name(), format.Duration(time.Since(began), 3))
	return nil
}

// longRunS is how long a run takes that people may not have meant to start, in s. The public traces of Mooncake and
// Azure last just below.
const longRunS = 3600

// largeLoad is how many bytes of requests take half a second to build: 4.25 GB of Weka's public trace took 6.7 s on 2
// cores.
const largeLoad = 1 << 28

// describe prints in a line what is about to happen, and its details if they are wanted.
func (p *Prepared) describe() {
	plan := p.Plan
	load := p.Load()
	var input, output, several int64
	for i := range plan.Requests {
		if p.AskedChoices(i) > 1 {
			several++
		}
		output += int64(p.Trace.OutputTokens[i])
		if p.Made(i) {
			input += int64(p.Trace.InputTokens[i])
		}
	}
	what := format.Requests(load.Requests)
	switch {
	case load.RequestsPerS != nil:
		what += fmt.Sprintf(" over %s (%s/s)", format.Span(load.SpanS), format.Rate(*load.RequestsPerS))
	case plan.Dependencies != nil && plan.Dependencies.Job != nil:
		what += fmt.Sprintf(
			" of %s in %s",
			format.Many(plan.Dependencies.Jobs(), "job"), format.Many(plan.Concurrency, "lane"),
		)
	case !plan.Open():
		what += fmt.Sprintf(", %d at a time", plan.Concurrency)
	}
	if p.Facts.Amplify != nil {
		what += fmt.Sprintf(", load ×%g", p.Facts.Amplify.Factor)
	}
	if input > 0 {
		what += ", " + format.Short(float64(input)) + " input tok"
	}
	if load.HitRatio != nil {
		what += ", ideal hits " + format.Percent(*load.HitRatio)
		if p.Ideal.Expected == nil {
			_, most := p.idealShare()
			what += " to " + format.Percent(most)
		}
	}
	p.line("%s", what)
	p.describePlays()
	if load.SpanS > longRunS && p.o.Pacing.Duration == 0 {
		shorter := "--limit replays less"
		if p.o.Pacing.Timed() {
			shorter = "--from and --to replay a part, --idle-cap shortens idle times"
		}
		p.note("long_run", "this takes %s or longer; %s, --duration ends it sooner", format.Span(load.SpanS), shorter)
	}
	p.detail("      %s output tokens", format.Count(output))
	if load.Peak != nil {
		p.detail("      at most %s in one second", format.Requests(*load.Peak))
	}
	if plan.Cap > 0 {
		p.detail("      at most %s in flight; the rest is held back", format.Count(plan.Cap))
	}
	if plan.Dependencies != nil {
		p.detail("      %s", p.o.Sessions.Words())
	}
	p.describeVerbatims()
	p.detail(
		"      %s on the wire, built in memory; largest request %s",
		format.Bytes(p.Prebuilt.Bytes()), format.Bytes(p.Prebuilt.Largest()),
	)
	inTurns := !plan.Open() && plan.Dependencies != nil
	if p.o.Pacing.Duration > 0 && inTurns && p.passes == 0 && p.Prebuilt.Bytes() > largeLoad {
		p.note(
			"large_load",
			"all %s are built, %s: nobody knows how many are answered within --duration; --limit builds fewer",
			format.Requests(load.Requests), format.Bytes(p.Prebuilt.Bytes()),
		)
	}
	if several > 0 {
		p.line(
			"note: several choices are asked for (n or best_of) in %s: TPOT and gaps are by choice, completion "+
				"tokens those of all choices",
			format.Requests(several),
		)
	}
}

// announce prints what the servers were asked.
func (p *Prepared) announce() {
	if p.o.NoProbe {
		p.notes.Say(Brief, "", "not probed: %s", strings.Join(p.URLs(), ", "))
		return
	}
	caches := "caches as they are"
	switch {
	case p.Facts.Flushed:
		caches = "caches flushed"
	case p.Facts.NoteUnlessReported != "":
		caches = "caches cold if the salt is honoured"
	case p.salt != "":
		caches = "caches cold by a salt"
	}
	where := p.URLs()[0]
	if n := len(p.URLs()); n > 1 {
		where = format.Many(n, "server")
	}
	p.notes.Say(Brief, "", "probed: %s at %s, %s", cmp.Or(p.shownModel(), "the server"), where, caches)
}
