package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/format"
)

// verbatims is how much of the work is verbatim.
type verbatims struct {
	rows, payloads int64
	bytes          int64
	texts          int64  // rows that are plain text
	all            bool   // no prompt is made
	extra          bool   // rows have members of their own for the body, which may say whether to stream
	chat           bool   // there are messages; of payloads the first one is asked
	endpoint       string // path that the rows name; "" = none
}

func verbatimsOf(t *trace.Trace, n int) verbatims {
	l := verbatims{endpoint: t.Endpoint}
	for i := range n {
		row := t.Verbatim(i)
		l.extra = l.extra || row.Extra != nil
		switch row.Kind {
		case trace.NoVerbatim:
			continue
		case trace.VerbatimText:
			l.texts++
		case trace.VerbatimMessages:
			l.chat = true
		case trace.VerbatimPayload:
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
func (l *verbatims) onlyPayloads() bool { return l.all && l.payloads == l.rows }

// shaped tells whether a row, and not only the run, may say whether its answer is a stream.
func (l *verbatims) shaped() bool { return l.rows > 0 || l.extra }

// say prints what is sent verbatim.
func (l *verbatims) say(r *replay) {
	if l.rows == 0 {
		return
	}
	size := "how many tokens that is, and how many of them a cache can hold, only the servers can tell"
	if r.work.Verbatim != nil {
		tokens := int64(0)
		for i := range r.work.Requests() {
			if !r.work.Made(i) {
				tokens += int64(r.work.ServerTokens(i))
			}
		}
		size = format.Many(tokens, "token")
	}
	r.say.line("      %s verbatim, %s: %s", format.Many(l.rows, "prompt"), format.Bytes(l.bytes), size)
	if l.payloads > 0 && r.o.model != "" {
		r.note("%s: sent as they are, with the model that they name; --extra-inputs model:%s would replace it", format.Many(l.payloads, "request body"), r.o.model)
	}
}

// mostCounting bounds how long the servers are asked for the tokens of prompts before a run.
const mostCounting = 2 * time.Minute

// countVerbatim finds out the tokens of verbatim prompts, so that ideal hits are known for them: text for
// completions with --tokenizer, all else by the servers' /tokenize, since only they know which template they use.
func (r *replay) countVerbatim(ctx context.Context) error {
	l, ids, with := &r.verbatims, r.prober.TokenIDs, "the servers' /tokenize"
	completions := r.o.api == "completions"
	switch {
	case l.rows == 0:
		return nil
	case r.o.sessions.past == historyLive:
		r.note("ideal hits of %s stay unknown: with --history live turns carry what the servers answer", format.Many(l.rows, "prompt"))
		return nil
	case completions && l.texts == l.rows && r.tokenizer != nil:
		ids, with = r.textIDs, r.tokenizer.Name()
	case r.o.noProbe || r.o.dryRun || completions && l.chat || !completions && r.o.api != "chat":
		return nil // say tells, or Layout refuses
	}
	r.say.line("counting the tokens of %s, %s, with %s, for at most %s", format.Many(l.rows, "prompt"), format.Bytes(l.bytes), with, mostCounting)
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, mostCounting, fmt.Errorf("it takes more than %s", mostCounting))
	defer cancel()
	progress := r.say.watchCount(l.rows)
	err := r.work.CountVerbatim(limited, ids, &progress.built)
	progress.end()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.note("ideal hits of %s stay unknown, after %s were counted with %s: %v", format.Many(l.rows, "prompt"), format.Count(progress.built.Load()), with, err)
	default:
		r.say.line("counted: %s with %s in %s", format.Many(l.rows, "prompt"), with, format.Duration(float64(time.Since(began)), 3))
	}
	return nil
}

// textIDs are the tokens of a text as a server of completions makes them, which puts the tokenizer's special tokens around it.
func (r *replay) textIDs(_ context.Context, l api.Verbatim) (ids []int64, err error) {
	var text string
	if err := json.Unmarshal([]byte(`"`+string(l.Content)+`"`), &text); err != nil {
		return nil, err
	}
	short, err := r.tokenizer.Append(nil, text, true)
	for _, id := range short {
		ids = append(ids, int64(id))
	}
	return ids, err
}

// noteMiscounted says where a server did not count the tokens that were counted before the start.
func (r *replay) noteMiscounted(records []record.Record) {
	if n, row, want, got := audit.Miscounted(r.work, records); n > 0 {
		r.note("the servers counted other numbers of tokens in %s than were counted before the start (row %d: %s, not %s), so their ideal hits are not to be relied on: is --tokenizer the model's own, and does /tokenize use the template of the run?",
			format.Many(int64(n), "prompt"), row, format.Count(got), format.Count(want))
	}
}
