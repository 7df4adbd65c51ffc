package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// chooseAPI chooses the API by what is in the requests. It leaves out of them what the API cannot express.
func (l *load) chooseAPI(o *options, ui *terminal) error {
	if o.sessions.past == historyLive && l.Trace.Verbatims() == 0 {
		return errors.New("--history live: the trace has token counts and no messages, so no turn carries an answer; " +
			"leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)")
	}
	l.verbatims, l.Choices = verbatimsOf(l.Trace, l.Plan.Requests), api.Choices(o.extra)
	if err := o.chooseAPI(&l.verbatims); err != nil {
		return err
	}
	if err := o.checkAnswers(l); err != nil {
		return err
	}
	switch t := o.traits; {
	case l.verbatims.onlyPayloads():
	case !t.Generates:
		silent := *l.Trace
		silent.OutputTokens = make([]int32, l.Trace.Len())
		l.Trace = &silent
	case !t.Forces && !o.noForceOutput:
		ui.note("--api %s cannot have an answer of exactly so many tokens: answers may be shorter than recorded", o.api)
	}
	return nil
}

// chooseAPI picks the API if none is given, and what prompts are made of.
func (o *options) chooseAPI(l *verbatims) error {
	if err := o.nameAPI(l); err != nil {
		return err
	}
	var err error
	if o.traits, err = api.TraitsOf(o.api); err != nil {
		return err
	}
	o.noStream = o.noStream || !o.traits.Streams
	o.limits.ForcedOutput = o.limits.ForcedOutput && o.traits.Forces && !api.OwnLength(o.api, o.extra)
	if o.prompt == "" {
		o.prompt = map[bool]string{true: promptTokenIDs, false: promptText}[o.traits.TokenIDs]
	}
	switch {
	case o.prompt == promptTokenIDs && !o.traits.TokenIDs && o.traits.Made:
		return fmt.Errorf("--prompt token-ids: --api %s takes text; use --api completions or --prompt text", o.api)
	case o.prompt == promptText && o.traits.NoText:
		return fmt.Errorf("--prompt text: --api %s takes token ids and no text; use --prompt token-ids or --api completions", o.api)
	case !o.traits.Made && !l.onlyPayloads():
		return fmt.Errorf("--api %s posts whole bodies, and the trace has rows without one", o.api)
	case o.warmup > 0 && !o.traits.Made:
		return fmt.Errorf("--warmup: --api %s posts whole bodies, and none can be made for it", o.api)
	case o.overhead != nil && !o.traits.Template:
		return fmt.Errorf("--chat-overhead: --api %s has no template", o.api)
	case o.cold == probe.ColdSalt && !o.traits.Salt:
		return fmt.Errorf("--cold salt: --api %s has no cache_salt; use --cold flush or off", o.api)
	}
	if o.traits.Stateful && !o.given("resend") {
		o.resend = engine.ResendUnread
	}
	return o.resend.Validate(o.api, o.traits)
}

// nameAPI sets the API that was asked for, or the one that the trace's requests are for.
func (o *options) nameAPI(l *verbatims) error {
	given := o.given("api")
	switch spoken := api.AtPath(l.endpoint); {
	case given && spoken != "" && !api.Has(o.api, l.endpoint) && o.api != rawAPI:
		return fmt.Errorf("--api %s: the trace's requests are for %s, which is --api %s", o.api, l.endpoint, spoken)
	case given:
	case spoken != "" && api.Has("sglang", l.endpoint):
		return fmt.Errorf("the trace's requests are for %s, which TGI and SGLang have: say whose it is, with --api tgi or --api sglang", l.endpoint)
	case spoken != "":
		o.api = spoken
	case l.endpoint != "" && l.onlyPayloads():
		o.api = rawAPI
	case l.endpoint != "":
		return fmt.Errorf("the trace's requests are for %s, which none of the APIs has: %s", l.endpoint, strings.Join(api.Names(), ", "))
	case l.chat:
		o.api = "chat"
	}
	if o.endpoint == "" && (o.api == rawAPI || api.ModelAt(l.endpoint) != "") {
		o.endpoint = l.endpoint
	}
	return nil
}

// rawAPI posts bodies as they are.
const rawAPI = "raw"

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

// shaped reports whether a row, and not only the run, may ask for a stream or not.
func (l *verbatims) shaped() bool { return l.rows > 0 || l.extra }

// describeVerbatims prints what is sent verbatim.
func (b *built) describeVerbatims() {
	l := &b.verbatims
	if l.rows == 0 {
		return
	}
	size := "how many tokens that is, and how many of them a cache can hold, only the servers can tell"
	if b.Verbatim != nil {
		tokens := int64(0)
		for i := range b.Requests() {
			if !b.Made(i) {
				tokens += int64(b.ServerTokens(i))
			}
		}
		size = format.Many(tokens, "token")
	}
	b.ui.detail("      %s verbatim, %s: %s", format.Many(l.rows, "prompt"), format.Bytes(l.bytes), size)
	if l.payloads > 0 && b.o.model != "" {
		b.ui.note("%s: sent as they are, with the model that they name; --extra-inputs model:%s would replace it", format.Many(l.payloads, "request body"), b.o.model)
	}
}

// mostCounting bounds how long the servers are asked for the tokens of prompts before a run.
const mostCounting = 2 * time.Minute

// countVerbatim counts the tokens of verbatim prompts, so that their ideal hits are known. Text for completions is counted with
// --tokenizer, all else by the servers' /tokenize, since only servers have the template that they use.
func (p *prepared) countVerbatim(ctx context.Context) error {
	l, ids, with := &p.verbatims, p.prober.TokenIDs, "the servers' /tokenize"
	completions := p.o.api == "completions"
	switch {
	case l.rows == 0:
		return nil
	case p.o.sessions.past == historyLive:
		p.ui.note("ideal hits of %s stay unknown: with --history live turns carry what the servers answer", format.Many(l.rows, "prompt"))
		return nil
	case completions && l.texts == l.rows && p.tokenizer != nil:
		ids, with = p.textIDs, p.tokenizer.Name()
	case p.o.noProbe || p.o.dryRun || completions && l.chat || !completions && p.o.api != "chat":
		return nil // describeVerbatims prints it, or Layout refuses
	}
	p.ui.line("counting the tokens of %s, %s, with %s, for at most %s", format.Many(l.rows, "prompt"), format.Bytes(l.bytes), with, mostCounting)
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, mostCounting, fmt.Errorf("it takes more than %s", mostCounting))
	defer cancel()
	counted, endProgress := p.ui.watchWork("counting", l.rows, func(n int64) string { return format.Many(n, "prompt") })
	err := p.CountVerbatim(limited, ids, counted)
	endProgress()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		p.ui.note("ideal hits of %s stay unknown, after %s were counted with %s: %v", format.Many(l.rows, "prompt"), format.Count(counted.Load()), with, err)
	default:
		p.ui.detail("counted: %s with %s in %s", format.Many(l.rows, "prompt"), with, format.Duration(time.Since(began), 3))
	}
	return nil
}

// textIDs returns the tokens of a text as a server of completions makes them, which puts the tokenizer's special tokens around it.
func (p *prepared) textIDs(_ context.Context, l api.Verbatim) (ids []int64, err error) {
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
