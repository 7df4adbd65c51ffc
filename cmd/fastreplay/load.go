package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// load reads the trace, decides when its requests leave and how they are put, and says so.
func (r *replay) load(ctx context.Context) error {
	for _, step := range []func() error{func() error { return r.read(ctx) }, r.plan, r.checkSender, r.checkRouted, r.chooseAPI} {
		if err := step(); err != nil {
			return err
		}
	}
	r.announce()
	return nil
}

// read reads the trace and makes as much of it as was asked for.
func (r *replay) read(ctx context.Context) error {
	began := time.Now()
	var counted string
	t, err := await(ctx, func() (*trace.Trace, error) {
		t, err := trace.OpenAll(r.o.traces, r.o.read)
		if err == nil {
			t, counted, err = countAnswers(t, r.o.tokenizer)
		}
		return t, err
	})
	if err != nil {
		return err
	}
	if err := checkLengths(r.line, t); err != nil {
		return err
	}
	r.selected = t.Len()
	if r.o.maxBytes > 0 {
		if err := r.o.amplify.checkHeld(t, allowance{r.o.maxBytes, "--max-memory"}); err != nil {
			return err
		}
	}
	if t, r.amplify, err = r.o.amplify.apply(t, r.o.seed); err != nil {
		return err
	}
	if r.trace, err = r.o.pacing.repeated(t); err != nil {
		return err
	}
	r.loadS = time.Since(began).Seconds()
	r.noteTrace(counted)
	return nil
}

// checkLengths refuses AIPerf's names of a length for answers if the trace leaves any open: none is made up here.
func checkLengths(line *compat.Line, t *trace.Trace) error {
	for _, name := range []string{"osl", "output-tokens-mean", "prompt-output-tokens-mean"} {
		for i := range t.Len() {
			if line.Given(name) && t.OutputTokens[i] == 0 && t.Verbatim(i).Kind != trace.VerbatimPayload {
				return fmt.Errorf("--%s: row %d says no length of its answer, and none is made up here; give all the same with --no-force-output --extra-inputs max_tokens:N", name, t.Row[i])
			}
		}
	}
	return nil
}

// noteTrace notes what is worth knowing about the rows; counted: with what the tokens of answers were counted, "" = they were not.
func (r *replay) noteTrace(counted string) {
	for _, note := range r.trace.Lint.Notes() {
		r.note("trace: %s", note)
	}
	if counted != "" {
		if r.o.tokenizer == "" {
			counted += "; name the model's own with --tokenizer"
		}
		r.note("trace: %s", counted)
	}
	if n := r.o.read.Limit; n > r.selected {
		r.note("--limit is %d, and the selection has %s; --repeat N replays it N times", n, format.Many(int64(r.selected), "request"))
	}
}

// plan decides when each request leaves.
func (r *replay) plan() error {
	t := r.trace
	if r.line.Profile {
		for _, note := range append(paceLikeAIPerf(r.line, &r.o.pacing, t), talkLikeAIPerf(r.line, r.o, t)...) {
			r.note("%s", note)
		}
	}
	if err := r.o.pacing.checkTimes(t); err != nil {
		return err
	}
	plan, err := r.o.pacing.plan(t)
	if err != nil {
		return err
	}
	if plan, err = r.o.sessions.follow(plan, t, r.o.pacing.scale); err != nil {
		return fmt.Errorf("--sessions %s: %w", r.o.sessions.mode, err)
	}
	if plan.Requests == 0 {
		return errors.New("the selection is empty: no request lies within --duration")
	}
	if t.DelayNS != nil && !r.o.pacing.timed() && r.o.sessions.mode != sessionsThink {
		r.note("the trace's delays are ignored, as its times are; --sessions %s keeps them", sessionsThink)
	}
	r.work = &workload.Work{Trace: t, Plan: plan}
	return nil
}

// announce says what was read.
func (r *replay) announce() {
	t, sent := r.trace, min(r.work.Plan.Requests, r.selected)
	units := "no timestamps"
	if !t.Untimed {
		units = "timestamps in " + trace.UnitName(t.TimeUnit)
	}
	if t.BlockRefs() > 0 {
		units += fmt.Sprintf(", %d tokens a block", t.BlockTokens)
	}
	r.say.line("trace: %s, read as %s (%s): %s of %s rows in %s",
		t.Name, t.Format, units, format.Count(int64(sent)), format.Count(int64(t.FileRows)), format.Seconds(r.loadS))
	r.say.amplified(r.amplify)
	if n := r.o.pacing.repeat; n > 1 {
		r.say.line("      %d times in a row: from the second time on the servers' caches may hold all of it", n)
	}
}

// countAnswers counts the tokens of recorded answers where the file does not, with a tokenizer by name, or the built-in one for
// "", and says so. Where there is nothing to count it returns the trace and says nothing.
func countAnswers(t *trace.Trace, name string) (counted *trace.Trace, said string, err error) {
	answers := int64(t.Uncounted())
	if answers == 0 {
		return t, "", nil
	}
	name = cmp.Or(name, tokenizer.CL100K)
	began := time.Now()
	tok, err := tokenizer.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("--tokenizer %s: %w", name, err)
	}
	counted, err = t.CountAnswers(func(text []byte) (int, error) { return tok.Count(string(text), false) })
	if err != nil {
		return nil, "", err
	}
	return counted, fmt.Sprintf("the tokens of %s were counted with %s in %s",
		format.Many(answers, "recorded answer"), name, format.Duration(float64(time.Since(began)), 2)), nil
}
