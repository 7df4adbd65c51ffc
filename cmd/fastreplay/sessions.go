package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// sessionMode says when the turns of a conversation leave.
type sessionMode string

const (
	sessionsStrict sessionMode = "strict" // each at its own instant
	sessionsGated  sessionMode = "gated"  // not before the turn before has ended
	sessionsThink  sessionMode = "think"  // the recorded time after the end of the turn before
)

// sessionFlags are about conversations.
type sessionFlags struct {
	mode  sessionMode
	past  string // recorded or live
	taken sched.Assumed
	given func(flag string) bool
}

func (s *sessionFlags) addFlags(f *pflag.FlagSet) {
	s.given = f.Changed
	f.StringVar((*string)(&s.mode), "sessions", string(sessionsStrict), "turns of a conversation leave at their instants (strict), not before the turn before has ended (gated), or the recorded time after its end (think)")
	f.StringVar(&s.past, "history", historyRecorded, "turns of a conversation carry the recorded answers to the turns before (recorded), or what the servers answered in this run (live)")
	f.DurationVar(&s.taken.TTFT, "assume-ttft", assumedTTFT, "time to the first token when the trace was recorded, where it says no delays (--sessions think), or of a request in flight (--route prefix)")
	f.DurationVar(&s.taken.TPOT, "assume-tpot", assumedTPOT, "likewise, time for each further token")
}

// check refuses what cannot be meant; routed: a router reckons with the assumed times.
func (s *sessionFlags) check(p *pacing, routed bool) error {
	switch {
	case s.mode != sessionsStrict && s.mode != sessionsGated && s.mode != sessionsThink:
		return fmt.Errorf("--sessions %q: want %s, %s or %s", s.mode, sessionsStrict, sessionsGated, sessionsThink)
	case s.past != historyRecorded && s.past != historyLive:
		return fmt.Errorf("--history %q: want %s or %s", s.past, historyRecorded, historyLive)
	case (s.given("assume-ttft") || s.given("assume-tpot")) && s.mode != sessionsThink && !routed:
		return fmt.Errorf("--assume-ttft and --assume-tpot are about --sessions %s and --route %s", sessionsThink, routePrefix)
	case s.mode != sessionsStrict && p.capped():
		return fmt.Errorf("--sessions %s: a cap holds requests back in their order, so no turn can wait for another; leave out --concurrency, or what it is beside", s.mode)
	}
	return s.taken.Validate()
}

// follow makes turns of the plan wait for each other, as far as the mode has it.
func (s *sessionFlags) follow(plan sched.Plan, t *trace.Trace, speed float64) (sched.Plan, error) {
	if s.mode == sessionsStrict {
		return plan, nil
	}
	before := t.TurnsBefore(t.Len())
	if !followUps(before) {
		return plan, errors.New("no request of the selection follows another in a conversation; leave it out")
	}
	before = before[:plan.Requests]
	turns := &sched.Turns{After: before}
	if s.mode == sessionsThink {
		turns.ThinkNS = workload.ThinkTimes(t, before, s.taken, speed)
	}
	return plan.Following(turns)
}

// followUps tells whether a request follows another; before has for each the one before it, as trace.TurnsBefore does.
func followUps(before []int32) bool {
	return slices.ContainsFunc(before, func(j int32) bool { return j != trace.NoTurn })
}

// leftOutNotes say how many turns waited for others until --duration was over.
func (r *replay) leftOutNotes(out []int32) []string {
	if r.work.Plan.Turns == nil {
		return nil
	}
	turns := int64(0)
	for _, i := range out {
		if r.work.Plan.Turns.After[i] != trace.NoTurn {
			turns++
		}
	}
	if turns == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--duration %v was over before %s could leave: not released, and no part of the run", r.o.pacing.duration, format.Many(turns, "follow-up turn"))}
}

// words say when turns that follow others leave.
func (s *sessionFlags) words() string {
	if s.mode == sessionsThink {
		return "a conversation's turns leave the recorded time after the end of the turn before"
	}
	return "a conversation's turns wait for the end of the turn before"
}

// The values of --history.
const (
	historyRecorded = "recorded"
	historyLive     = "live"
)

// carryHistory prepares the turns that get what the servers answer.
func (r *replay) carryHistory() (err error) {
	if r.o.sessions.past == historyRecorded {
		return nil
	}
	if r.history, err = history.New(r.builder, r.work); err != nil {
		return fmt.Errorf("--history %s: %w", historyLive, err)
	}
	r.say.line("      live history: %s to get what the servers answer to the turns before", format.Many(int64(r.history.Turns()), "follow-up turn"))
	r.note("live history: the fingerprint and the bytes on the wire are those of the requests as recorded")
	return nil
}
