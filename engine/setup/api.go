package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// chooseAPI chooses the API by what is in the requests. It leaves out of them what the API cannot express.
func (p *Prepared) chooseAPI(context.Context) error {
	o := p.o
	if o.Sessions.History == HistoryLive && p.Trace.Verbatims() == 0 {
		return errors.New("--history live: the trace has token counts and no messages, so no turn carries an answer; " +
			"leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)")
	}
	p.verbatims = verbatimsOf(p.Trace, p.Plan.Requests)
	p.Choices = api.Choices(o.Extra)
	if err := o.chooseAPI(&p.verbatims); err != nil {
		return err
	}
	if err := p.checkAnswers(); err != nil {
		return err
	}
	switch t := o.traits; {
	case p.verbatims.onlyPayloads():
	case !t.Generates:
		silent := *p.Trace
		silent.OutputTokens = make([]int32, p.Trace.Len())
		p.Trace = &silent
	case !t.Forces && !o.NoForceOutput:
		p.note("free_lengths",
			"--api %s cannot have an answer of exactly so many tokens: answers may be shorter than recorded", o.API)
	}
	return nil
}

// chooseAPI picks the API if none is given, and what prompts are made of.
func (o *Options) chooseAPI(l *verbatims) error {
	if err := o.nameAPI(l); err != nil {
		return err
	}
	var err error
	if o.traits, err = api.TraitsOf(o.API); err != nil {
		return err
	}
	o.NoStream = o.NoStream || !o.traits.Streams
	o.Limits.ForcedOutput = o.Limits.ForcedOutput && o.traits.Forces && !api.OwnLength(o.API, o.Extra)
	if o.Prompt == "" {
		o.Prompt = PromptText
		if o.traits.TokenIDs {
			o.Prompt = PromptTokenIDs
		}
	}
	switch {
	case o.Prompt == PromptTokenIDs && !o.traits.TokenIDs && o.traits.Made:
		return fmt.Errorf("--prompt token-ids: --api %s takes text; use --api completions or --prompt text", o.API)
	case o.Prompt == PromptText && o.traits.NoText:
		return fmt.Errorf(
			"--prompt text: --api %s takes token ids and no text; use --prompt token-ids or --api completions",
			o.API,
		)
	case !o.traits.Made && !l.onlyPayloads():
		return fmt.Errorf("--api %s posts whole bodies, and the trace has rows without one", o.API)
	case o.Warmup > 0 && !o.traits.Made:
		return fmt.Errorf("--warmup: --api %s posts whole bodies, and none can be made for it", o.API)
	case o.Overhead != nil && !o.traits.Template:
		return fmt.Errorf("--chat-overhead: --api %s has no template", o.API)
	case o.Cold == probe.ColdSalt && !o.traits.Salt:
		return fmt.Errorf("--cold salt: --api %s has no cache_salt; use --cold flush or off", o.API)
	}
	if o.Resend == "" {
		o.Resend = engine.ResendSafe
		if o.traits.Stateful {
			o.Resend = engine.ResendUnread
		}
	}
	return o.Resend.Validate(o.API, o.traits)
}

// nameAPI sets the API that was asked for, or the one that the trace's requests are for.
func (o *Options) nameAPI(l *verbatims) error {
	given := o.API != ""
	switch spoken := api.AtPath(l.endpoint); {
	case given && spoken != "" && !api.Has(o.API, l.endpoint) && o.API != rawAPI:
		return fmt.Errorf("--api %s: the trace's requests are for %s, which is --api %s", o.API, l.endpoint, spoken)
	case given:
	case spoken != "" && api.Has("sglang", l.endpoint):
		return fmt.Errorf(
			"the trace's requests are for %s, which TGI and SGLang have: say whose it is, with --api tgi or --api "+
				"sglang",
			l.endpoint,
		)
	case spoken != "":
		o.API = spoken
	case l.endpoint != "" && l.onlyPayloads():
		o.API = rawAPI
	case l.endpoint != "":
		return fmt.Errorf(
			"the trace's requests are for %s, which none of the APIs has: %s",
			l.endpoint, strings.Join(api.Names(), ", "),
		)
	case l.chat:
		o.API = "chat"
	default:
		o.API = api.Names()[0]
	}
	if o.Endpoint == "" && (o.API == rawAPI || api.ModelAt(l.endpoint) != "") {
		o.Endpoint = l.endpoint
	}
	return nil
}

// rawAPI posts bodies as they are.
const rawAPI = "raw"

// backend makes the bodies of this run. If tells, they tell the server its answer.
func (o *Options) backend(model, salt string, stream, tells bool) (api.Backend, error) {
	return api.New(o.API, api.Options{
		Model:       model,
		Stream:      stream,
		ForceOutput: !o.NoForceOutput,
		Extra:       o.Extra,
		CacheSalt:   salt,
		TokenIDs:    o.Prompt == PromptTokenIDs,
		Answers:     tells,
	})
}

// probeBackend makes bodies whose answers count the tokens of a prompt.
func (p *Prepared) probeBackend(salt string) (api.Backend, error) {
	return p.o.backend(p.model, salt, !p.o.traits.Counts && p.o.traits.StreamCounts, false)
}

// runBackend makes bodies as the run's requests have them.
func (p *Prepared) runBackend(salt string) (api.Backend, error) {
	return p.o.backend(p.model, salt, !p.o.NoStream, false)
}

// tokenizeBackend makes bodies as /tokenize takes them.
func (p *Prepared) tokenizeBackend() (api.Backend, error) {
	name := "completions"
	if p.o.traits.Template {
		name = "chat"
	}
	o := api.Options{Model: p.model, TokenIDs: p.o.Prompt == PromptTokenIDs && name == "completions"}
	if name == p.o.API {
		// what shapes the template is in it, and servers ignore the rest
		o.ForceOutput = !p.o.NoForceOutput
		o.Extra = p.o.Extra
	}
	return api.New(name, o)
}

// asksNoModel reports whether no request names a model of our choice.
func (p *Prepared) asksNoModel() bool {
	return !p.o.traits.Model || p.verbatims.onlyPayloads() && p.o.Warmup == 0
}

// The values of Options.Prompt.
const (
	PromptTokenIDs = "token-ids"
	PromptText     = "text"
)
