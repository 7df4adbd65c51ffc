package main

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
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

// chooseAPI picks what speaks for the trace where nobody has said, and what its prompts are made of.
func (o *options) chooseAPI(l *literals) error {
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
	case !o.traits.Made && !l.onlyPayloads():
		return fmt.Errorf("--api %s posts whole bodies, and the trace has rows without one", o.api)
	case o.warmup > 0 && !o.traits.Made:
		return fmt.Errorf("--warmup: --api %s posts whole bodies, and none can be made for it", o.api)
	case o.overhead != nil && !o.traits.Template:
		return fmt.Errorf("--chat-overhead: --api %s has no template", o.api)
	case o.cold == engine.ColdSalt && !o.traits.Salt:
		return fmt.Errorf("--cold salt: --api %s has no cache_salt; use --cold flush or off", o.api)
	}
	return nil
}

// nameAPI is the API that was asked for, or the one that the trace speaks.
func (o *options) nameAPI(l *literals) error {
	given := o.pacing.given("api")
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
