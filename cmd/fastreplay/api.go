package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// chooseAPI decides how the requests are put, as what is in them has it.
func (r *replay) chooseAPI() error {
	if r.o.sessions.past == historyLive && r.trace.Verbatims() == 0 {
		return errors.New("--history live: the trace has token counts and no messages, so no turn carries an answer; " +
			"leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)")
	}
	r.verbatims = verbatimsOf(r.trace, r.work.Plan.Requests)
	r.work.Choices = api.Choices(r.o.extra)
	if err := r.o.chooseAPI(&r.verbatims); err != nil {
		return err
	}
	r.fitTraits()
	return nil
}

// fitTraits leaves out of the work what the API has no words for, and says what cannot be had from it.
func (r *replay) fitTraits() {
	if r.verbatims.onlyPayloads() {
		return
	}
	switch t := r.o.traits; {
	case !t.Generates:
		silent := *r.trace
		silent.OutputTokens = make([]int32, r.trace.Len())
		r.trace = &silent
		r.work.Trace = r.trace
	case !t.Forces && !r.o.noForceOutput:
		r.note("--api %s cannot have an answer of exactly so many tokens: answers may be shorter than recorded", r.o.api)
	}
}

// chooseAPI picks what speaks for the trace where nobody has said, and what its prompts are made of.
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
	case !o.traits.Made && !l.onlyPayloads():
		return fmt.Errorf("--api %s posts whole bodies, and the trace has rows without one", o.api)
	case o.warmup > 0 && !o.traits.Made:
		return fmt.Errorf("--warmup: --api %s posts whole bodies, and none can be made for it", o.api)
	case o.overhead != nil && !o.traits.Template:
		return fmt.Errorf("--chat-overhead: --api %s has no template", o.api)
	case o.cold == probe.ColdSalt && !o.traits.Salt:
		return fmt.Errorf("--cold salt: --api %s has no cache_salt; use --cold flush or off", o.api)
	}
	return o.resend.Validate(o.api, o.traits)
}

// nameAPI is the API that was asked for, or the one that the trace speaks.
func (o *options) nameAPI(l *verbatims) error {
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
