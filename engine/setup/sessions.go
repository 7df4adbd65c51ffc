package setup

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// SessionMode says when requests that depend on others leave, such as the turns of a conversation.
type SessionMode string

const (
	SessionsStrict SessionMode = "strict" // each at its own instant
	SessionsGated  SessionMode = "gated"  // not before those that it depends on have ended
	SessionsThink  SessionMode = "think"  // the recorded time after those have ended
	SessionsLanes  SessionMode = "lanes"  // likewise, in jobs of which so many run at a time
)

// The values of Sessions.History.
const (
	HistoryRecorded = "recorded"
	HistoryLive     = "live"
)

// Sessions are about conversations and jobs.
type Sessions struct {
	Mode         SessionMode // "" = SessionsStrict, which nobody chose
	History      string      // answers in later turns: HistoryRecorded or HistoryLive
	Idle         IdleCap
	ForceAnswers bool // servers are told which tokens to answer: those that later prompts have
	// Of lanes: where they begin in their first jobs (nil = with the first request). And whether they take jobs again,
	// each time behind a new marker.
	Snapshot *workload.Snapshot
	Recycle  bool
}

// IdleCap is the longest idle time, at the speed of the replay; 0 = any.
type IdleCap struct {
	Most   time.Duration
	System bool          // Most is of all jobs together, not of each
	Tree   time.Duration // of each job while it runs in a lane: how long nothing of it is in flight
}

// AtRun reports whether idle times are cut as they come: when nothing is in flight is known only during the run.
func (s *Sessions) AtRun() bool { return (s.Idle.System || s.Idle.Tree > 0) && s.Thinks() }

// Waits reports whether a request may wait for others.
func (s *Sessions) Waits() bool { return s.Mode != "" && s.Mode != SessionsStrict }

// Thinks reports whether requests leave some time after what they depend on.
func (s *Sessions) Thinks() bool { return s.Mode == SessionsThink || s.Mode == SessionsLanes }

// SessionsText is the mode of sessions as it is given.
func (o *Options) SessionsText() string {
	if n := o.Pacing.Lanes; n > 0 {
		return fmt.Sprintf("%s=%d", SessionsLanes, n)
	}
	return string(cmp.Or(o.Sessions.Mode, SessionsStrict))
}

// Words describes when requests that depend on others leave.
func (s *Sessions) Words() string {
	switch s.Mode {
	case SessionsThink:
		return "requests leave the recorded time after the end of those that they depend on"
	case SessionsLanes:
		return "each lane runs a whole job, and then takes the next; within jobs requests leave the recorded time " +
			"after the end of those that they depend on"
	}
	return "requests wait for the end of those that they depend on"
}

// capIdle moves the trace's instants so that its idle times are no longer than --idle-cap, and says what that cut.
func (o *Options) capIdle(t *trace.Trace) (*trace.Trace, []string) {
	idle := o.Sessions.Idle
	if idle.Most == 0 || o.Sessions.AtRun() || !o.Pacing.Timed() && o.Pacing.Lanes == 0 {
		return t, nil
	}
	t, cut := workload.CapIdle(t, int64(float64(idle.Most)*o.Pacing.Scale), idle.System, o.Assumed)
	if cut.Gaps == 0 {
		return t, []string{fmt.Sprintf("no idle time is longer than %v: nothing is cut", idle.Most)}
	}
	of := "single jobs"
	if idle.System {
		of = "the whole trace"
	}
	return t, []string{fmt.Sprintf(
		"%s of %s of more than %v cut, by %s in all at recorded speed; the trace's span is %s, was %s",
		format.Many(cut.Gaps, "idle time"), of, idle.Most, format.Span(float64(cut.CutNS)/1e9),
		format.Span(float64(cut.SpanNS)/1e9), format.Span(float64(cut.FromNS)/1e9),
	)}
}

// followPolicy is how requests follow others.
func (o *Options) followPolicy() workload.FollowPolicy {
	return workload.FollowPolicy{
		Think:   o.Sessions.Thinks(),
		Bounded: o.Pacing.Timed(),
		Jobs:    o.Pacing.Lanes > 0,
		Speed:   o.Pacing.Scale,
		Assumed: o.Assumed,
	}
}

// follow makes requests of the plan wait for each other, as far as the mode has it. It adds to cuts what it cut of
// delays.
func (p *Prepared) follow(plan sched.Plan, t *trace.Trace, cuts *[]string) (sched.Plan, error) {
	o := p.o
	if !o.Sessions.Waits() {
		return plan, nil
	}
	policy := o.followPolicy()
	if p.plays != nil {
		policy = p.plays.Follow(policy)
	}
	turns := policy.Dependencies(t, plan.Requests)
	if most, tree := o.Sessions.Idle.Most, o.Sessions.Idle.Tree; o.Sessions.AtRun() {
		turns.IdleNS = int64(most)
		turns.TreeIdleNS = int64(tree)
		if tree > 0 {
			*cuts = append(*cuts, fmt.Sprintf(
				"whenever nothing of a job is in flight for %v, all that is still to come of it comes earlier", tree))
		}
		if most > 0 {
			*cuts = append(*cuts, fmt.Sprintf(
				"whenever nothing is in flight for %v, all that is still to come comes earlier; the summary says by "+
					"how much",
				most,
			))
		}
	} else if n, cut := workload.CapDelays(turns, cmp.Or(int64(most), math.MaxInt64)); n > 0 {
		*cuts = append(*cuts, fmt.Sprintf(
			"%s of more than %v that the trace has between requests shortened, by %s in all at replay speed",
			format.Many(n, "delay"), most, format.Span(float64(cut)/1e9),
		))
	}
	if len(turns.List) == 0 && turns.Job == nil {
		return plan, errors.New("no request of the selection depends on another; leave it out")
	}
	plan.Concurrency = min(plan.Concurrency, cmp.Or(turns.Jobs(), plan.Concurrency))
	return plan.Following(turns)
}
