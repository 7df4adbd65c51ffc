package compat

import (
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// Adapt refuses a trace that the command line does not fit. For `fastreplay profile` it decides what AIPerf decides by
// the trace, and returns notes. o is what the flags mean.
func (l *Line) Adapt(t *trace.Trace, o *setup.Options) (notes []string, err error) {
	if err := l.checkLengths(t); err != nil || !l.Profile {
		return nil, err
	}
	return slices.Concat(l.pace(t, &o.Pacing), l.follow(t, o), l.otherJobs(t)), nil
}

// checkLengths refuses AIPerf's names of a length for answers if the trace leaves any open: none is made up here.
func (l *Line) checkLengths(t *trace.Trace) error {
	for _, name := range []string{"osl", "output-tokens-mean", "prompt-output-tokens-mean"} {
		for i := range t.Len() {
			if l.Given(name) && t.OutputTokens[i] == 0 && t.Verbatim(i).Kind != trace.VerbatimPayload {
				return fmt.Errorf(
					"--%s: row %d says no length of its answer, and none is made up here; give all the same with "+
						"--no-force-output --extra-inputs max_tokens:N",
					name, t.Row[i],
				)
			}
		}
	}
	return nil
}

// choose sets one of our flags to a value that it takes.
func (l *Line) choose(flag, text string) {
	if err := l.Flags.Set(flag, text); err != nil {
		panic("BUG: " + err.Error())
	}
}

// pace decides, for `fastreplay profile`, when requests leave if the flags do not: at the trace's times, with
// --concurrency as a cap. If the trace has no times, one request at a time is sent. It returns notes.
func (l *Line) pace(t *trace.Trace, p *setup.Pacing) []string {
	if l.on("fixed-schedule") || l.on("no-fixed-schedule") || p.Lanes > 0 || l.Flags.Changed("scale") {
		return nil
	}
	// of these --fixed-schedule alone keeps the times
	timed := !t.Untimed && !slices.Contains([]string{"inputs_json", "single_turn", "multi_turn"}, t.Format)
	switch {
	case timed && l.rated():
		return []string{
			"requests leave at the rate given; aiperf profile would keep the trace's times unless told " +
				"--no-fixed-schedule"}
	case timed && p.Concurrency > 0:
		l.choose("fixed-schedule", "true")
		p.KeepTimes = true
		return []string{
			fmt.Sprintf(
				"the trace's times are kept, as in aiperf profile, and --concurrency %d is a cap; "+
					"--no-fixed-schedule makes it a closed loop", p.Concurrency)}
	case !timed && !l.rated() && p.Concurrency == 0:
		l.choose("concurrency", "1")
		why := "the trace has no times"
		if !t.Untimed {
			why = "the times of " + t.Format + " are kept with --fixed-schedule only"
		}
		return []string{why +
			": one request at a time is sent, as in aiperf profile; --concurrency or --request-rate say otherwise"}
	}
	return nil
}

// follow decides, for `fastreplay profile`, how turns of a conversation follow each other if neither the flags
// nor the trace's times do. Each turn is sent after the answer to the previous one. It carries that answer if the file
// has the user's next words. It returns notes.
func (l *Line) follow(t *trace.Trace, o *setup.Options) []string {
	given := l.Flags.Changed
	if o.Pacing.Timed() || o.Pacing.Capped() || given("sessions") || !t.Graph(t.Len()).Waits() {
		return nil
	}
	l.choose("sessions", string(setup.SessionsThink))
	notes := []string{
		"a conversation's turns leave the file's delay after the end of the turn before, as in aiperf profile; " +
			"--sessions strict lets none wait"}
	able := o.API == "chat" && o.Route != setup.RouteLeastInFlight && o.WatchTargets == "" &&
		o.Sender != setup.SenderProcess
	if able && t.Format == "multi_turn" && !given("history") {
		l.choose("history", setup.HistoryLive)
		notes = append(
			notes,
			"turns carry what the servers answered, as in aiperf profile; --history recorded sends the file's own "+
				"answers",
		)
	}
	return notes
}
