package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
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

// onlyPayloads reports whether every request is a whole body that the trace has.
func (l *verbatims) onlyPayloads() bool { return l.all && l.payloads == l.rows }

// describeVerbatims prints what is sent verbatim.
func (p *Prepared) describeVerbatims() {
	l := &p.verbatims
	if l.rows == 0 {
		return
	}
	size := "how many tokens that is, and how many of them a cache can hold, only the servers can tell"
	if p.Verbatim != nil {
		var tokens int64
		for i := range p.Requests() {
			if !p.Made(i) {
				tokens += int64(p.ServerTokens(i))
			}
		}
		size = format.Many(tokens, "token")
	}
	p.detail("      %s verbatim, %s: %s", format.Many(l.rows, "prompt"), format.Bytes(l.bytes), size)
	if l.payloads > 0 && p.o.Model != "" {
		p.note(
			"model_in_bodies",
			"%s: sent as they are, with the model that they name; --extra-inputs model:%s would replace it",
			format.Many(l.payloads, "request body"), p.o.Model,
		)
	}
}

// mostCounting bounds how long the servers are asked for the tokens of prompts before a run.
const mostCounting = 2 * time.Minute

// countVerbatim counts the tokens of verbatim prompts, so that their ideal hits are known. Text for completions is
// counted with --tokenizer, all else by the servers' /tokenize, since only servers have the template that they use.
func (p *Prepared) countVerbatim(ctx context.Context) error {
	l := &p.verbatims
	ids := p.Prober.TokenIDs
	with := "the servers' /tokenize"
	completions := p.o.API == "completions"
	switch {
	case l.rows == 0:
		return nil
	case p.o.Sessions.History == HistoryLive:
		p.note(
			"ideal_unknown_live",
			"ideal hits of %s stay unknown: with --history live turns carry what the servers answer",
			format.Many(l.rows, "prompt"),
		)
		return nil
	case completions && l.texts == l.rows && p.tokenizer != nil:
		ids = p.textIDs
		with = p.tokenizer.Name()
	case p.o.NoProbe || p.o.DryRun || completions && l.chat || !completions && p.o.API != "chat":
		return nil // describeVerbatims prints it, or Layout refuses
	}
	p.line(
		"counting the tokens of %s, %s, with %s, for at most %s",
		format.Many(l.rows, "prompt"), format.Bytes(l.bytes), with, mostCounting,
	)
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, mostCounting, fmt.Errorf("it takes more than %s", mostCounting))
	defer cancel()
	counted, endProgress := p.notes.Work("counting", l.rows, func(n int64) string { return format.Many(n, "prompt") })
	err := p.CountVerbatim(limited, ids, counted)
	endProgress()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		p.note(
			"ideal_unknown_uncounted",
			"ideal hits of %s stay unknown, after %s were counted with %s: %v",
			format.Many(l.rows, "prompt"), format.Count(counted.Load()), with, err,
		)
	default:
		p.detail(
			"counted: %s with %s in %s",
			format.Many(l.rows, "prompt"), with, format.Duration(time.Since(began), 3),
		)
	}
	return nil
}

// textIDs returns the tokens of a text as a server of completions makes them, which puts the tokenizer's special tokens
// around it.
func (p *Prepared) textIDs(_ context.Context, l api.Verbatim) (ids []int64, err error) {
	var text string
	if err := json.Unmarshal([]byte(`"`+string(l.Content)+`"`), &text); err != nil {
		return nil, err
	}
	short, err := p.tokenizer.Append(nil, text, true)
	for _, id := range short {
		ids = append(ids, int64(id))
	}
	return ids, err
}

// Shaped reports whether a row, and not only the run, may ask for a stream or not.
func (p *Prepared) Shaped() bool { return p.verbatims.rows > 0 || p.verbatims.extra }
