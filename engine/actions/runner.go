package actions

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/redact"
)

const (
	checkAhead = 3 * time.Second        // how long before an action its check is tried, which must fail then
	checkEvery = 250 * time.Millisecond // from the end of a check to the next
	checkLimit = 5 * time.Second        // of one check
	mostTimes  = 1000                   // that actions are run in all
	shownBytes = 500                    // of a command's output, the last, are results
)

// Runner runs the actions of a run. Make it with Start. A nil Runner has none.
type Runner struct {
	now    func() (ns int64, began bool)
	hide   *redact.Redactor
	told   func(text string)
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup

	all  []Action // in the order of their instants
	mu   sync.Mutex
	done []metrics.Action
	// what becomes of the undo of each of all, which each time that it runs shares; nil: it never began
	undo []*metrics.Command
}

// Start begins to run actions at their instants. now is the time since the start of the run, and whether it counts from
// there already. hide hides credentials in what results keep; told gets a sentence when a command has failed.
func Start(all []Action, now func() (int64, bool), hide *redact.Redactor, told func(string)) *Runner {
	if len(all) == 0 {
		return nil
	}
	r := &Runner{now: now, hide: hide, told: told, all: slices.Clone(all)}
	r.undo = make([]*metrics.Command, len(all))
	slices.SortStableFunc(r.all, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for i := range r.all {
		r.ended.Go(func() { r.follow(i) })
	}
	return r
}

// End kills commands that still run, undoes what began, and returns what became of each action, in the order of their
// instants. It undoes the latest first, so that what undoes one may rely on what earlier ones did. A value of hurry,
// which comes while it undoes, kills what undoes.
func (r *Runner) End(hurry <-chan struct{}) []metrics.Action {
	if r == nil {
		return nil
	}
	r.cancel()
	r.ended.Wait()
	patient, hurried := context.WithCancel(context.Background())
	defer hurried()
	go func() {
		select {
		case <-hurry:
			hurried()
		case <-patient.Done():
		}
	}()
	for i, did := range slices.Backward(r.undo) {
		if did == nil {
			continue
		}
		a := &r.all[i]
		ctx, cancel := context.WithTimeout(patient, a.Timeout)
		*did = r.command(ctx, a.Undo)
		cancel()
		r.tell("the undoing of "+a.Run, did)
	}
	slices.SortStableFunc(r.done, func(a, b metrics.Action) int { return a.Compare(&b) })
	return r.done
}

// follow runs an action each time that it is due, until the run ends.
func (r *Runner) follow(i int) {
	a := &r.all[i]
	undone := new(metrics.Command)
	for at := a.At; ; at += a.Every {
		did := r.once(a, at)
		r.mu.Lock()
		if did.Began() && a.Undo != "" {
			did.Undo = undone
			r.undo[i] = undone
		}
		r.done = append(r.done, did)
		full := len(r.done) >= mostTimes
		r.mu.Unlock()
		if a.Every == 0 || full || r.ctx.Err() != nil {
			return
		}
		for now, _ := r.now(); at+a.Every < time.Duration(now); at += a.Every { // it took longer
		}
	}
}

// once runs an action at an instant, and its check before and after.
func (r *Runner) once(a *Action, at time.Duration) metrics.Action {
	did := metrics.Action{AtS: at.Seconds(), Run: r.hide.Line(a.Run), Expect: r.hide.Line(a.Expect)}
	early := false // its check succeeds without it
	if a.Expect != "" && r.sleepUntil(at-checkAhead) {
		early = r.check(a, checkAhead)
	}
	if !r.sleepUntil(at) {
		return did
	}
	ctx, cancel := context.WithTimeout(r.ctx, a.Timeout)
	defer cancel()
	var checked sync.WaitGroup
	begun := r.seconds()
	checked.Go(func() { did.Check, did.CheckS = r.await(ctx, a, early) })
	ran := r.command(ctx, a.Run)
	checked.Wait()
	did.Ran = &ran
	ran.StartedS = begun
	r.tell(a.Run, &ran)
	return did
}

// await tries an action's check until it succeeds, and returns the finding and its instant.
func (r *Runner) await(ctx context.Context, a *Action, early bool) (finding string, atS *float64) {
	switch {
	case a.Expect == "":
		return "", nil
	case early:
		return metrics.CheckedEarly, nil
	}
	for {
		from := r.seconds()
		if r.check(a, checkLimit) {
			return metrics.CheckPassed, &from
		}
		select {
		case <-ctx.Done():
			if r.ctx.Err() != nil { // the run's end ends both
				return metrics.CheckUnfinished, nil
			}
			return metrics.CheckFailed, nil
		case <-time.After(checkEvery):
		}
	}
}

func (r *Runner) check(a *Action, limit time.Duration) (passed bool) {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	did := r.command(ctx, a.Expect)
	return did.OK()
}

// sleepUntil returns at an instant of the run; false if the run has ended first.
func (r *Runner) sleepUntil(at time.Duration) bool {
	for {
		now, began := r.now()
		left := at - time.Duration(now)
		if began && left <= 0 {
			return r.ctx.Err() == nil
		}
		if !began {
			left = max(left, 0) + time.Millisecond // until the clock counts
		}
		select {
		case <-r.ctx.Done():
			return false
		case <-time.After(left):
		}
	}
}

func (r *Runner) seconds() float64 {
	now, _ := r.now()
	return math.Max(0, float64(now)/1e9)
}

// command runs a shell command until ctx ends, and returns what became of it.
func (r *Runner) command(ctx context.Context, text string) metrics.Command {
	did := metrics.Command{StartedS: r.seconds()}
	code, output, err := host.Shell(ctx, host.BesideNice, text)
	did.TookS = r.seconds() - did.StartedS
	did.Output = r.shown(output)
	switch {
	case err == nil:
		did.ExitCode = &code
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		did.Error = "killed after " + format.Seconds(did.TookS) + ", its time limit"
	case ctx.Err() != nil:
		did.Error = "killed after " + format.Seconds(did.TookS) + ": the run had ended"
	default:
		did.Error = r.hide.Line(err.Error())
	}
	return did
}

// shown is the end of an output, without credentials.
func (r *Runner) shown(output string) string {
	text := strings.TrimSpace(r.hide.Hide(output))
	if cut := len(text) - shownBytes; cut > 0 {
		text = "…" + text[cut:]
	}
	return strings.ToValidUTF8(text, "")
}

// tell says that a command has failed.
func (r *Runner) tell(what string, did *metrics.Command) {
	if !did.OK() {
		r.told("action at " + format.Seconds(did.StartedS) + ", " + r.hide.Line(what) + ": " + did.Words())
	}
}
