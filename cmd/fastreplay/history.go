package main

import (
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/history"
)

// The values of --history.
const (
	historyRecorded = "recorded"
	historyLive     = "live"
)

var errNoMessages = errors.New("--history live: the trace has token counts and no messages, so no turn carries an answer; " +
	"leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)")

// checkHistory refuses a trace that has nothing to carry answers in.
func (s *sessionFlags) checkHistory(t *trace.Trace) error {
	if s.past == historyLive && t.Literals() == 0 {
		return errNoMessages
	}
	return nil
}

// carryHistory prepares the turns that get what the servers answer.
func (r *replay) carryHistory() (err error) {
	if r.o.sessions.past == historyRecorded {
		return nil
	}
	if r.history, err = history.NewHistory(r.recipe, r.work); err != nil {
		return fmt.Errorf("--history %s: %w", historyLive, err)
	}
	r.say.line("      live history: %s to get what the servers answer to the turns before", format.Many(int64(r.history.Turns()), "follow-up turn"))
	r.note("live history: the fingerprint and the bytes on the wire are those of the requests as recorded")
	return nil
}
