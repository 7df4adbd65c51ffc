package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// measureOverhead finds out what the servers add to a prompt, and how much of that precedes it.
func (r *replay) measureOverhead(ctx context.Context) error {
	added, err := r.prober.Overhead(ctx, r.source)
	if err != nil {
		return err
	}
	o, origin, err := r.splitOverhead(ctx, added)
	if err != nil {
		return err
	}
	r.work.Overhead = o
	switch {
	case added == 0:
		r.say.line("probe: each prompt token is one token there, and the server adds none")
	case o.HeadUnknown:
		r.say.line("probe: each prompt token is one token there; the server adds %s to every prompt", format.Many(int64(added), "token"))
	default:
		r.say.line("probe: each prompt token is one token there; the server adds %d before and %d after every prompt (%s)", o.Head, o.Tail, origin)
	}
	return nil
}

// splitOverhead divides the tokens that a server adds into head and tail, and says by what.
func (r *replay) splitOverhead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	if given := r.o.overhead; given != nil {
		if given.Tokens() != added {
			return o, "", fmt.Errorf("--chat-overhead %d,%d: that makes %d tokens, the servers add %d to a prompt", given.Head, given.Tail, given.Tokens(), added)
		}
		return *given, "--chat-overhead", r.contradict(ctx, *given)
	}
	if special, ok := r.specialTokens(); ok {
		if special.Tokens() == added {
			return special, "as " + r.tokenizer.Name() + " does", nil
		}
		r.note("the servers add %s to a prompt, %s would add %d; prompts are shortened by the servers' number",
			format.Many(int64(added), "token"), r.tokenizer.Name(), special.Tokens())
	}
	if added == 0 {
		return o, "", nil
	}
	return r.askHead(ctx, added)
}

// contradict is an error if the servers can tell that the given division is wrong.
func (r *replay) contradict(ctx context.Context, given workload.Overhead) error {
	told, err := r.prober.Head(ctx, r.source, given.Tokens())
	if err != nil || told == given {
		return nil
	}
	return fmt.Errorf("--chat-overhead %d,%d: the servers say %d,%d (/tokenize)", given.Head, given.Tail, told.Head, told.Tail)
}

// askHead asks the servers how many of the tokens that they add come first. Where they do not tell, a template leaves it open.
func (r *replay) askHead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	o, err = r.prober.Head(ctx, r.source, added)
	switch {
	case err == nil:
		return o, "/tokenize", nil
	case ctx.Err() != nil:
		return o, "", ctx.Err()
	case errors.Is(err, probe.ErrTemplateChanges):
		return o, "", fmt.Errorf("%w; fix the template, replay with --api completions, or give --chat-overhead HEAD,TAIL if only the tail changes", err)
	case !r.o.traits.Template:
		return workload.Overhead{Head: added}, "without a template they can only come first", nil
	}
	r.leaveOpen("exact ideal (no /tokenize; --chat-overhead)", "how many of the chat template's %d tokens precede a prompt is unknown (%v), so the expected hits are a range; give them with --chat-overhead HEAD,TAIL", added, err)
	return workload.Overhead{Tail: added, HeadUnknown: true}, "", nil
}

// specialTokens is what the model's own tokenizer adds to a text. Nothing of it is in a template, nor beside token ids.
func (r *replay) specialTokens() (o workload.Overhead, ok bool) {
	if r.tokenizer == nil || r.o.traits.Template || r.o.prompt != promptText {
		return o, false
	}
	o.Head, o.Tail = r.tokenizer.Special()
	return o, true
}

// assumeOverhead is for a run that cannot ask the servers, for a reason.
func (r *replay) assumeOverhead(why string) {
	if r.o.overhead != nil {
		r.work.Overhead = *r.o.overhead
		return
	}
	if special, ok := r.specialTokens(); ok {
		r.work.Overhead = special
		r.note("%s: they are taken to add %s to a prompt, as %s does", why, format.Many(int64(special.Tokens()), "token"), r.tokenizer.Name())
		return
	}
	r.note("%s: what they add to a prompt is taken as 0 tokens", why)
}

// parseOverhead reads HEAD,TAIL as a flag has it; nil of nothing.
func parseOverhead(flag, text string) (*workload.Overhead, error) {
	if text == "" {
		return nil, nil
	}
	head, tail, ok := strings.Cut(text, ",")
	h, err1 := strconv.ParseUint(strings.TrimSpace(head), 10, 20)
	t, err2 := strconv.ParseUint(strings.TrimSpace(tail), 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%s %q: want HEAD,TAIL in tokens, such as 20,5", flag, text)
	}
	return &workload.Overhead{Head: int(h), Tail: int(t)}, nil
}
