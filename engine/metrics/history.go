package metrics

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// History is what follow-up turns had of what the servers answered in the
// run. It counts those that were sent: turns = live + partly + recorded.
type History struct {
	Turns    int64 `json:"turns"`    // follow-up turns that were sent
	Live     int64 `json:"live"`     // turns in which all earlier answers are live
	Partly   int64 `json:"partly"`   // turns in which some are; the others are as recorded
	Recorded int64 `json:"recorded"` // turns in which none is
	Answers  int64 `json:"answers"`  // live answers in all turns

	// Why the latest answer that was not live was not: of the turns of partly and recorded.
	Why HistoryGaps `json:"not_live"` // turns by why the latest answer that is not live is not

	MakeUS *stats.Percentiles `json:"make_us"` // time from the end of a turn until the body of the next one was made
}

// HistoryGaps counts turns by why an answer in them is not live.
type HistoryGaps struct {
	Late   int64 `json:"late"`       // the turn left before the answer was there
	Failed int64 `json:"failed"`     // the request before failed
	NoText int64 `json:"no_text"`    // the server answered without a text
	Tools  int64 `json:"tool_calls"` // the server called a tool, or the recorded answer does
	Apart  int64 `json:"apart"`      // the turn's messages do not begin with those of a turn before
}

// historyNotes say why turns were not sent with what was answered in the run.
func historyNotes(h *History) []string {
	if h == nil || h.Why == (HistoryGaps{}) {
		return nil
	}
	var why []string
	for _, w := range []struct {
		n    int64
		what string
	}{
		{h.Why.Late, "left before an earlier turn had ended (--sessions gated or think wait for it)"},
		{h.Why.Failed, "follow one that failed"},
		{h.Why.NoText, "follow an answer without text"},
		{h.Why.Tools, "follow a tool call"},
		{h.Why.Apart, "do not begin with the messages of a turn before"},
	} {
		if w.n > 0 {
			why = append(why, format.Count(w.n)+" "+w.what)
		}
	}
	return []string{fmt.Sprintf("live history: %s of %s were sent with what the file has in place of an answer: %s",
		format.Count(h.Partly+h.Recorded), format.Many(h.Turns, "follow-up turn"), strings.Join(why, ", "))}
}
