package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// measureOverhead finds out what the servers add to a prompt, and how much of that precedes it.
func (r *replay) measureOverhead(ctx context.Context, nonce uint64) error {
	added, err := r.prober.Overhead(ctx, r.source, nonce)
	if err != nil {
		return err
	}
	o, origin, err := r.splitOverhead(ctx, added, nonce+1<<31)
	if err != nil {
		return err
	}
	r.work.Overhead = o
	switch {
	case added == 0:
		r.say.line("probe: each prompt token is one token there, and the server adds none")
	case o.HeadHidden:
		r.say.line("probe: each prompt token is one token there; the server adds %s to every prompt", human.Many(int64(added), "token"))
		r.note("how many of the chat template's %d tokens precede a prompt is unknown (%s), so the expected hits are a range; give them with --chat-overhead HEAD,TAIL", added, origin)
	default:
		r.say.line("probe: each prompt token is one token there; the server adds %d before and %d after every prompt (%s)", o.Head, o.Tail, origin)
	}
	return nil
}

// splitOverhead divides the tokens that a server adds into head and tail, and says by what.
func (r *replay) splitOverhead(ctx context.Context, added int, nonce uint64) (o engine.Overhead, origin string, err error) {
	if r.o.chatOverhead != "" {
		o, err = parseOverhead(r.o.chatOverhead)
		if err == nil && o.Tokens() != added {
			err = fmt.Errorf("--chat-overhead %s: that makes %d tokens, the servers add %d to a prompt", r.o.chatOverhead, o.Tokens(), added)
		}
		return o, "--chat-overhead", err
	}
	if r.tokenizer != nil && r.o.api != "chat" {
		head, tail := r.tokenizer.Special()
		if head+tail == added {
			return engine.Overhead{Head: head, Tail: tail}, "as " + r.tokenizer.Name() + " does", nil
		}
		r.note("the servers add %s to a prompt where %s adds %d: the prompts are cut by what the servers add", human.Many(int64(added), "token"), r.tokenizer.Name(), head+tail)
	}
	if added == 0 {
		return o, "", nil
	}
	o, err = r.prober.Head(ctx, r.source, added, nonce)
	switch {
	case err == nil:
		return o, "/tokenize", nil
	case r.o.api != "chat":
		return engine.Overhead{Head: added}, "without a template they can only come first", nil
	}
	return engine.Overhead{Tail: added, HeadHidden: true}, err.Error(), nil
}

// assumeOverhead is for a run that asks no server.
func (r *replay) assumeOverhead() {
	if r.o.chatOverhead != "" {
		r.work.Overhead, _ = parseOverhead(r.o.chatOverhead) // checked with the flags
		return
	}
	if r.tokenizer != nil && r.o.api != "chat" && r.o.prompt == promptText {
		r.work.Overhead.Head, r.work.Overhead.Tail = r.tokenizer.Special()
		r.note("the servers are not asked: they are taken to add %s to a prompt, as %s does", human.Many(int64(r.work.Overhead.Tokens()), "token"), r.tokenizer.Name())
		return
	}
	r.note("the servers are not asked: what they add to a prompt is taken as 0 tokens")
}

// parseOverhead reads HEAD,TAIL.
func parseOverhead(text string) (engine.Overhead, error) {
	head, tail, ok := strings.Cut(text, ",")
	h, err1 := strconv.ParseUint(strings.TrimSpace(head), 10, 20)
	t, err2 := strconv.ParseUint(strings.TrimSpace(tail), 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return engine.Overhead{}, fmt.Errorf("--chat-overhead %q: want HEAD,TAIL in tokens, such as 20,5", text)
	}
	return engine.Overhead{Head: int(h), Tail: int(t)}, nil
}
