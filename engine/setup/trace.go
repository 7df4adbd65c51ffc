package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// read reads the trace and makes as much of it as was asked for.
func (p *Prepared) read(ctx context.Context) error {
	o := p.o
	began := time.Now()
	var counted string
	open := o.Open
	if open == nil {
		open = func() (*trace.Trace, error) { return trace.OpenAll(o.Traces, o.Read) }
	}
	t, err := Await(ctx, func() (*trace.Trace, error) {
		t, err := open()
		if err == nil {
			t, counted, err = CountAnswers(t, o.Tokenizer)
		}
		return t, err
	})
	if err != nil {
		return err
	}
	if o.Adapt != nil {
		if p.adaptation, err = o.Adapt(t); err != nil {
			return err
		}
	}
	owned, made, err := o.Owning.Apply(t, o.Seed)
	if err != nil {
		return err
	}
	if t = owned; made != "" {
		p.note("tenants_made", "%s", made)
	}
	p.Facts.Selected = t.Len()
	if o.MaxMemory > 0 {
		allowed := allowance{o.MaxMemory, "--max-memory"}
		err := o.Amplify.refuse(t, allowed, float64(o.Amplify)-1, heldPerRequest, heldPerBlock)
		if err != nil {
			return err
		}
	}
	if t, p.Facts.Amplify, err = o.Amplify.Apply(t, o.Seed); err != nil {
		return err
	}
	requests := float64(o.Repeat) * float64(t.Len())
	if free, err := freeAllowance(0); err == nil && o.Repeat > 1 {
		if err := free.refuse("--repeat", o.Repeat, requests, requests*peakPerRequest); err != nil {
			return err
		}
	}
	if p.Trace, err = t.Repeat(o.Repeat); err != nil {
		return fmt.Errorf("--repeat: %w", err)
	}
	p.Facts.ReadS = time.Since(began).Seconds()
	for _, note := range p.Trace.Lint.Notes() {
		p.note("trace_lint", "trace: %s", note)
	}
	for _, head := range p.Trace.Heads {
		lost := head.LostWords()
		if lost != "none" {
			p.note("trace_lost", "trace: not all of the day is in it, so the load was higher that day; lost: %s", lost)
		}
	}
	if counted != "" {
		if o.Tokenizer == "" {
			counted += "; name the model's own with --tokenizer"
		}
		p.note("answers_counted", "trace: %s", counted)
	}
	if n := o.Read.Limit; n > p.Facts.Selected {
		p.note(
			"limit_above_rows",
			"--limit is %d, and the selection has %s; --repeat N replays it N times",
			n, format.Requests(p.Facts.Selected),
		)
	}
	return nil
}

// plan decides when each request leaves.
func (p *Prepared) plan(context.Context) error {
	o := p.o
	t := p.Trace
	for _, note := range p.adaptation {
		p.note("adapted", "%s", note)
	}
	ordered := o.Sessions.Mode == SessionsThink && t.HasDependencies() // also without times
	if t.Untimed && o.Pacing.Timed() && !ordered {
		return fmt.Errorf(
			"%s: no row says when it arrived; say when requests leave, with --rate R, --rate max, --ramp or "+
				"--concurrency N",
			t.Name,
		)
	}
	if o.Sessions.Idle.Tree > 0 && o.Pacing.Lanes == 0 {
		return errors.New("--idle-cap tree= is about jobs that run in lanes; give --sessions lanes=N, or a TIME alone")
	}
	if o.Sessions.Idle.Most > 0 && !o.Pacing.Timed() && !o.Sessions.Thinks() {
		return errors.New(
			"--idle-cap shortens the trace's times, which --rate, --ramp and --concurrency ignore; leave it out, or " +
				"give --sessions think",
		)
	}
	t, cuts := o.capIdle(t)
	t, err := p.goOn(t)
	if err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	if t, err = p.play(t); err != nil {
		return err
	}
	p.Trace = t
	plan, err := o.Pacing.Plan(t)
	if err != nil {
		return err
	}
	if plan, err = p.follow(plan, t, &cuts); err != nil {
		return fmt.Errorf("--sessions %s: %w", o.Sessions.Mode, err)
	}
	if cuts != nil {
		p.note("idle_capped", "--idle-cap: %s", strings.Join(cuts, "; "))
	}
	if plan.Requests == 0 {
		return errors.New("the selection is empty: no request lies within --duration")
	}
	if t.HasDependencies() && o.Sessions.Mode == "" {
		p.note(
			"dependencies_ignored",
			"requests of this trace depend on others, and none waits for them here (--sessions strict): gated waits, "+
				"think keeps the recorded delays, lanes=N runs N whole jobs at a time",
		)
	}
	if t.DelayNS != nil && !o.Pacing.Timed() && !o.Sessions.Thinks() {
		p.note("delays_ignored", "the trace's delays are ignored, as its times are; --sessions %s keeps them",
			SessionsThink)
	}
	p.Plan = plan
	p.Speed = o.Pacing.Scale
	if o.Sender == SenderProcess { // refused before anything is built
		err := engine.CheckSenderProcess(&plan, o.routesLate(), o.Sessions.History == HistoryLive)
		if err != nil {
			return fmt.Errorf("--sender %s: %w", SenderProcess, err)
		}
	}
	if o.Route == RouteSession && t.Session == nil {
		return errors.New("--route session: the trace has no conversations")
	}
	return nil
}

// goOn returns the trace with passes of it behind it, each with content of its own. There are as many as --until may
// take before --duration is over. Without a duration nothing but the trace bounds a run, so there are none. Lanes that
// take jobs again (--recycle) go on by themselves.
func (p *Prepared) goOn(t *trace.Trace) (*trace.Trace, error) {
	o := p.o
	switch {
	case o.Limits.Until == "" || o.Pacing.Duration == 0 || t.Len() == 0,
		o.Repeat > 1 || o.Amplify != 1 || o.Sessions.PlansPlays(), // they say what follows
		o.Pacing.AtOnce || o.Pacing.Timed() && t.PeriodNS() == 0:
		return t, nil
	case t.Verbatims() > 0:
		p.note("until_verbatim", "--until: verbatim prompts cannot get other content, so the run ends with the trace")
		return t, nil
	}
	most := math.MaxInt32 / t.Len()
	if free, err := freeAllowance(keptForRun); err == nil {
		each := keptForRequest*int64(t.Len()) + peakPerBlock*int64(t.BlockRefs())
		most = int(min(int64(most), free.bytes/playsShare/each))
	}
	passes, err := o.passes(t, most)
	if err != nil {
		return nil, err
	}
	p.passes = min(passes, most)
	if p.passes < 2 {
		p.passes = 0
		return t, nil
	}
	p.note("until_passes",
		"--until: where the trace ends it begins again with other content, up to %d times in all", p.passes)
	if most < passes {
		p.note("passes_short", "--until: there is memory for %d passes, and --duration has time for more", most)
	}
	p.Played = true // as with plays, to hash all bytes would take too long
	return t.Passes(p.passes)
}

// passes is how many passes of a trace can begin before --duration is over; above most it is any such number. In a
// closed loop it is not known how fast servers are, so it is as many as the fastest could take.
func (o *Options) passes(t *trace.Trace, most int) (int, error) {
	ns := float64(o.Pacing.Duration)
	rows := t.Len()
	switch a := o.Pacing.Arrivals; {
	case o.Pacing.Closed():
		pass := 0.0
		for _, output := range t.OutputTokens {
			pass += float64(workload.QuickestNS(o.Assumed, output))
		}
		return int(math.Ceil(ns * float64(max(o.Pacing.Lanes, o.Pacing.Concurrency)) / pass)), nil
	case a != nil:
		for n := rows; ; n *= 2 {
			plan, err := sched.FromArrivals(n, *a, o.Pacing.Duration)
			if err != nil || plan.Requests < n || n > most*rows {
				return (plan.Requests + rows - 1) / rows, err
			}
		}
	}
	return int(math.Ceil(ns * o.Pacing.Scale / float64(t.PeriodNS()))), nil
}

// describeTrace tells what was read.
func (p *Prepared) describeTrace(context.Context) error {
	t := p.Trace
	sent := min(p.Plan.Requests, p.Facts.Selected)
	units := "no timestamps"
	if !t.Untimed {
		units = "timestamps in " + trace.UnitName(t.TimeUnit)
	}
	if t.BlockRefs() > 0 {
		units += fmt.Sprintf(", %d tokens a block", t.BlockTokens)
	}
	p.detail("trace: %s, read as %s (%s): %s of %s rows in %s",
		t.Name, t.Format, units, format.Count(sent), format.Count(t.FileRows), format.Seconds(p.Facts.ReadS))
	if p.Facts.Amplify != nil {
		p.detail("%s", inspect.Amplified(p.Facts.Amplify, p.o.Columns))
	}
	if n := p.o.Repeat; n > 1 {
		p.detail("      %d times in a row: from the second time on the servers' caches may hold all of it", n)
	}
	return nil
}

// CountAnswers counts the tokens of recorded answers where the file does not, with the named tokenizer, or
// the built-in one for "". It returns what it did as a note, "" if there was nothing to count.
func CountAnswers(t *trace.Trace, name string) (counted *trace.Trace, said string, err error) {
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
		format.Many(answers, "recorded answer"), name, format.Duration(time.Since(began), 2)), nil
}
