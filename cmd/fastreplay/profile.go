package main

import (
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// paceLikeAIPerf decides, for `fastreplay profile`, when requests leave if the flags do not: at the trace's times, with
// --concurrency as a cap. If the trace has no times, one request at a time is sent. It returns notes.
func paceLikeAIPerf(o *options, t *trace.Trace) []string {
	line, p := o.line, &o.pace
	if p.fixed || p.notFixed || o.Pacing.Lanes > 0 || o.isSet("scale") {
		return nil
	}
	// of these --fixed-schedule alone keeps the times
	timed := !t.Untimed && !slices.Contains([]string{"inputs_json", "single_turn", "multi_turn"}, t.Format)
	rated := p.rate != "" || p.ramp != ""
	switch {
	case timed && rated:
		return []string{
			"requests leave at the rate given; aiperf profile would keep the trace's times unless told " +
				"--no-fixed-schedule"}
	case timed && o.Pacing.Concurrency > 0:
		noBug(line.Flags.Set("fixed-schedule", "true"))
		o.Pacing.KeepTimes = true
		return []string{
			fmt.Sprintf(
				"the trace's times are kept, as in aiperf profile, and --concurrency %d is a cap; "+
					"--no-fixed-schedule makes it a closed loop", o.Pacing.Concurrency)}
	case !timed && !rated && o.Pacing.Concurrency == 0:
		noBug(line.Flags.Set("concurrency", "1"))
		why := "the trace has no times"
		if !t.Untimed {
			why = "the times of " + t.Format + " are kept with --fixed-schedule only"
		}
		return []string{why +
			": one request at a time is sent, as in aiperf profile; --concurrency or --request-rate say otherwise"}
	}
	return nil
}

// talkLikeAIPerf decides, for `fastreplay profile`, how turns of a conversation follow each other if neither the flags
// nor the trace's times do. Each turn is sent after the answer to the previous one. It carries that answer if the file
// has the user's next words. It returns notes.
func talkLikeAIPerf(o *options, t *trace.Trace) []string {
	line := o.line
	if o.Pacing.Timed() || o.Pacing.Capped() || o.isSet("sessions") || !t.Graph(t.Len()).Waits() {
		return nil
	}
	noBug(line.Flags.Set("sessions", string(setup.SessionsThink)))
	notes := []string{
		"a conversation's turns leave the file's delay after the end of the turn before, as in aiperf profile; " +
			"--sessions strict lets none wait"}
	able := o.API == "chat" && o.Route != setup.RouteLeastInFlight && o.WatchTargets == "" &&
		o.Sender != setup.SenderProcess
	if able && t.Format == "multi_turn" && !o.isSet("history") {
		noBug(line.Flags.Set("history", setup.HistoryLive))
		notes = append(
			notes,
			"turns carry what the servers answered, as in aiperf profile; --history recorded sends the file's own "+
				"answers",
		)
	}
	return notes
}
