package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// measureOverhead finds out what the servers add to a prompt, and how much of that precedes it.
func (p *Prepared) measureOverhead(ctx context.Context) error {
	added, err := p.Prober.Overhead(ctx, p.source)
	if err != nil {
		return err
	}
	o, origin, err := p.splitOverhead(ctx, added)
	if err != nil {
		return err
	}
	p.Overhead = o
	switch {
	case added == 0:
		p.detail("probe: each prompt token is one token there, and the server adds none")
	case o.HeadUnknown:
		p.detail(
			"probe: each prompt token is one token there; the server adds %s to every prompt",
			format.Many(added, "token"),
		)
	default:
		p.detail(
			"probe: each prompt token is one token there; the server adds %d before and %d after every prompt (%s)",
			o.Head, o.Tail, origin,
		)
	}
	return nil
}

// splitOverhead divides the tokens that a server adds into head and tail. origin is the source of the division.
func (p *Prepared) splitOverhead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	if given := p.o.Overhead; given != nil {
		if given.Tokens() != added {
			return o, "", fmt.Errorf(
				"--chat-overhead %d,%d: that makes %d tokens, the servers add %d to a prompt",
				given.Head, given.Tail, given.Tokens(), added,
			)
		}
		if said, err := p.Prober.Head(ctx, p.source, added); err == nil && said != *given {
			return o, "", fmt.Errorf(
				"--chat-overhead %d,%d: the servers say %d,%d (/tokenize)",
				given.Head, given.Tail, said.Head, said.Tail,
			)
		}
		return *given, "--chat-overhead", nil
	}
	if special, ok := p.specialTokens(); ok {
		if special.Tokens() == added {
			return special, "as " + p.tokenizer.Name() + " does", nil
		}
		p.note("overhead_differs",
			"the servers add %s to a prompt, %s would add %d; prompts are shortened by the servers' number",
			format.Many(added, "token"), p.tokenizer.Name(), special.Tokens())
	}
	if added == 0 {
		return o, "", nil
	}
	return p.askHead(ctx, added)
}

// askHead asks the servers how many of the tokens that they add come first. If they do not answer, a template leaves it
// open.
func (p *Prepared) askHead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	o, err = p.Prober.Head(ctx, p.source, added)
	switch {
	case err == nil:
		return o, "/tokenize", nil
	case ctx.Err() != nil:
		return o, "", ctx.Err()
	case errors.Is(err, probe.ErrTemplateChanges):
		return o, "", fmt.Errorf(
			"%w; fix the template, replay with --api completions, or give --chat-overhead HEAD,TAIL if only the tail "+
				"changes",
			err,
		)
	case !p.o.traits.Template:
		return workload.Overhead{Head: added}, "without a template they can only come first", nil
	}
	p.leaveOpen(
		"exact ideal (no /tokenize; --chat-overhead)",
		"how many of the chat template's %d tokens precede a prompt is unknown (%v), so the expected hits are a "+
			"range; give them with --chat-overhead HEAD,TAIL",
		added, err,
	)
	return workload.Overhead{Tail: added, HeadUnknown: true}, "", nil
}

// specialTokens returns what the model's own tokenizer adds to a text. Nothing of it is in a template, nor beside token
// ids.
func (p *Prepared) specialTokens() (o workload.Overhead, ok bool) {
	if p.tokenizer == nil || p.o.traits.Template || p.o.Prompt != PromptText {
		return o, false
	}
	o.Head, o.Tail = p.tokenizer.Special()
	return o, true
}

// assumeOverhead is for a run that cannot ask the servers, for a reason.
func (p *Prepared) assumeOverhead(why string) {
	if p.o.Overhead != nil {
		p.Overhead = *p.o.Overhead
		return
	}
	if special, ok := p.specialTokens(); ok {
		p.Overhead = special
		p.note(
			"overhead_of_tokenizer",
			"%s: they are taken to add %s to a prompt, as %s does",
			why, format.Many(special.Tokens(), "token"), p.tokenizer.Name(),
		)
		return
	}
	p.note("overhead_assumed", "%s: what they add to a prompt is taken as 0 tokens", why)
}
