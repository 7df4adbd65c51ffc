package main

import (
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// literals is how much of the work is there word for word.
type literals struct {
	rows, payloads int64
	bytes          int64
	all            bool   // no prompt is made
	extra          bool   // rows have members of their own for the body, which may say whether to stream
	chat           bool   // there are messages; of payloads the first one is asked
	endpoint       string // path that the rows name; "" = none
}

func literalsOf(t *trace.Trace, n int) literals {
	l := literals{endpoint: t.Endpoint}
	for i := range n {
		row := t.Literal(i)
		l.extra = l.extra || row.Extra != nil
		switch row.Kind {
		case trace.NoLiteral:
			continue
		case trace.MessagesLiteral:
			l.chat = true
		case trace.PayloadLiteral:
			if l.payloads == 0 {
				l.chat = l.chat || t.HasMessages(i)
			}
			l.payloads++
		}
		l.rows++
		l.bytes += int64(len(row.Content))
	}
	l.all = l.rows == int64(n)
	return l
}

// onlyPayloads tells whether no request is ours to shape.
func (l *literals) onlyPayloads() bool { return l.all && l.payloads == l.rows }

// shaped tells whether a row, and not only the run, may say whether its answer is a stream.
func (l *literals) shaped() bool { return l.rows > 0 || l.extra }

// say names what is sent word for word.
func (l *literals) say(r *replay) {
	if l.rows == 0 {
		return
	}
	r.say.line("      %s word for word, %s: how many tokens that is, and how many of them a cache can hold, only the servers can tell", human.Many(l.rows, "prompt"), human.Bytes(l.bytes))
	if l.payloads > 0 && r.o.model != "" {
		r.note("%s: sent as they are, with the model that they name; --extra-inputs model:%s would replace it", human.Many(l.payloads, "request body"), r.o.model)
	}
}
