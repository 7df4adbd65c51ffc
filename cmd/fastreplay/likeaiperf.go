package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// likeAIPerf gives `fastreplay profile` the defaults of `aiperf profile`, where ours differ, and says so.
func (h *hands) likeAIPerf(o *options) error {
	if !h.profile {
		return nil
	}
	given, p := h.flags.Changed, &o.pacing
	whole := o.noStream || !given("no-stream")
	return h.defaults("aiperf profile", []usual{
		{"url", "localhost:8000", "--url localhost:8000", !given("url") && !given("targets")},
		{"api", "chat", "--endpoint-type chat", !given("api")},
		{"no-stream", "true", "whole responses, so no TTFT or TPOT (--streaming asks for streams)", !given("no-stream")},
		{"idle-timeout", o.timeout.String(), "no limit on the time between two bytes of a whole response but --timeout",
			whole && !given("idle-timeout")},
		{"duration-grace", "30s", "--benchmark-grace-period 30", given("duration") && !given("duration-grace")},
		{"concurrency", "1", "--concurrency 1", p.notFixed && p.rate == "" && p.ramp == "" && !given("concurrency")},
	})
}

// usual is what another tool does unless told otherwise: a value of our flag, how the tool says that ("" = it goes without saying),
// and whether nothing else was asked for.
type usual struct {
	flag, text, words string
	wanted            bool
}

// defaults sets what is wanted of another tool's defaults, and says so.
func (h *hands) defaults(tool string, all []usual) error {
	var set []string
	for _, d := range all {
		if !d.wanted {
			continue
		}
		if err := h.flags.Set(d.flag, d.text); err != nil {
			return err
		}
		if d.words != "" {
			set = append(set, d.words)
		}
	}
	if len(set) > 0 {
		h.note("as %s does unless told otherwise: %s", tool, strings.Join(set, "; "))
	}
	return nil
}

// paceLikeAIPerf decides, for `fastreplay profile`, when requests leave where the flags leave it open: what a trace's times say,
// with --concurrency as a cap, and one request at a time where it has none. It returns what is worth a note.
func (h *hands) paceLikeAIPerf(p *pacing, t *trace.Trace) []string {
	if !h.profile || p.fixed || p.notFixed || p.given("scale") {
		return nil
	}
	timed := !t.Untimed && !slices.Contains(unscheduledByAIPerf(), t.Format)
	rated := p.rate != "" || p.ramp != ""
	switch {
	case timed && rated:
		return []string{"requests leave at the rate given; aiperf profile would keep the trace's times unless told --no-fixed-schedule"}
	case timed && p.concurrency > 0:
		h.assume("fixed-schedule", "true")
		return []string{fmt.Sprintf("the trace's times are kept, as in aiperf profile, and --concurrency %d is a cap; --no-fixed-schedule makes it a closed loop", p.concurrency)}
	case !timed && !rated && p.concurrency == 0:
		h.assume("concurrency", "1")
		why := "the trace has no times"
		if !t.Untimed {
			why = "the times of " + t.Format + " are kept with --fixed-schedule only"
		}
		return []string{why + ": one request at a time is sent, as in aiperf profile; --concurrency or --request-rate say otherwise"}
	}
	return nil
}

// talkLikeAIPerf decides, for `fastreplay profile`, how the turns of a conversation follow each other where neither the flags nor the
// trace's times say it: each after the answer to the one before, which it carries where the file has the user's side to go on from.
// It returns what is worth a note.
func (h *hands) talkLikeAIPerf(o *options, t *trace.Trace) []string {
	p := &o.pacing
	if !h.profile || p.timed() || p.capped() || h.flags.Changed("sessions") || !followUps(t.TurnsBefore(t.Len())) {
		return nil
	}
	h.assume("sessions", string(sessionsThink))
	notes := []string{"a conversation's turns leave the file's delay after the end of the turn before, as in aiperf profile; --sessions strict lets none wait"}
	able := o.api == "chat" && o.route != routeLeastInFlight && o.lane != laneProcess
	if able && t.Format == "multi_turn" && !h.flags.Changed("history") {
		h.assume("history", historyLive)
		notes = append(notes, "turns carry what the servers answered, as in aiperf profile; --history recorded sends the file's own answers")
	}
	return notes
}

// assume sets a flag that was not given, so that the results have it among those that were.
func (h *hands) assume(flag, text string) {
	if err := h.flags.Set(flag, text); err != nil {
		panic("BUG: a flag does not take " + text + ": " + err.Error())
	}
}
