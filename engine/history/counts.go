package history

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Counts is what follow-up turns were sent with, by the records of a run that is over; nil where all is sent as recorded.
func (h *History) Counts(records []record.Record) *metrics.History {
	if h == nil {
		return nil
	}
	found := metrics.History{MakeUS: h.took.Percentiles(1e3)}
	for i, before := range h.before {
		if before == trace.NoTurn || records[i].SentNS == record.None {
			continue
		}
		found.Turns++
		live, lack := h.sentWith(int32(i))
		found.Answers += int64(live)
		switch sentAs(live, lack) {
		case sentLive:
			found.Live++
			continue
		case sentPartly:
			found.Partly++
		case sentRecorded:
			found.Recorded++
		}
		why := &found.Why
		*[...]*int64{unanswered: &why.Late, failed: &why.Failed, noText: &why.NoText, toolCall: &why.Tools, apart: &why.Apart}[lack]++
	}
	return &found
}

// Note completes the record of request i, which has ended.
func (h *History) Note(i int32, rec *record.Record) {
	if h == nil || h.before[i] == trace.NoTurn || rec.SentNS == record.None {
		return
	}
	rec.History = sentAs(h.sentWith(i))
}

// The values of a record's history.
const (
	sentLive     = "live"     // all answers in it are
	sentPartly   = "partly"   // some are
	sentRecorded = "recorded" // none is
)

// sentAs is the record's value for what sentWith returned.
func sentAs(live int32, lack answerState) string {
	switch {
	case lack == answered:
		return sentLive
	case live > 0:
		return sentPartly
	}
	return sentRecorded
}

// sentWith returns how many live answers request i was sent with. lack is why the latest of the others was not live;
// answered = there were no others.
func (h *History) sentWith(i int32) (live int32, lack answerState) {
	t := &h.turns[i]
	switch {
	case t.place.Of == trace.NoTurn:
		return 0, apart
	case t.form.Load() == formLive:
		return t.live, t.lack
	case t.place.Fixed:
		return 0, toolCall
	}
	if lack = h.turns[t.place.Of].state.Load(); lack == answered {
		lack = unanswered // it came too late
	}
	return 0, lack
}
