package main

import (
	"context"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// exact reports whether servers are told what to answer.
func (o *options) exact() bool { return o.sessions.told == metrics.AnswersExact }

// checkAnswers refuses --answers exact where no server can be told its answers.
func (o *options) checkAnswers(l *load) error {
	switch {
	case !o.exact():
		return nil
	case !o.traits.Answers:
		return fmt.Errorf("--answers %s: a server of --api %s cannot be told which tokens to answer; use --api vllm-generate (vLLM with --enable-trace-replay), "+
			"or --history live for a trace with messages, which puts what the servers answer into later turns", metrics.AnswersExact, o.api)
	case l.verbatims.all:
		return fmt.Errorf("--answers %s: the trace has its requests verbatim, and no prompt is made of tokens", metrics.AnswersExact)
	case o.sessions.past == historyLive:
		return fmt.Errorf("--answers %s tells servers the answers that the trace's later prompts have: leave out --history %s", metrics.AnswersExact, historyLive)
	case l.Choices > 1:
		return fmt.Errorf("--answers %s: each request asks for %d answers, and one can be told", metrics.AnswersExact, l.Choices)
	}
	return nil
}

// probeAnswers asks the servers for one answer that they are told.
func (p *prepared) probeAnswers(ctx context.Context) error {
	source, ok := p.source.(*prompt.TokenIDs)
	if !p.o.exact() || !ok {
		return nil
	}
	backend, err := p.o.tellingBackend(p.model, "", false, true)
	if err != nil {
		return err
	}
	if err := p.prober.Answers(ctx, backend, source); err != nil {
		return fmt.Errorf("--answers %s: %w", metrics.AnswersExact, err)
	}
	p.ui.detail("answers: the servers make the tokens that they are told, proven with one short answer each")
	return nil
}

// answers is what is known of the answers before the run; nil where no prompt made of tokens can have any.
func (b *built) answers() *metrics.Answers {
	if !b.o.exact() && (b.verbatims.rows > 0 || !b.o.traits.Generates || b.Trace.Parent == nil) {
		return nil
	}
	a := &metrics.Answers{Mode: b.o.sessions.told}
	a.Carried, a.Turns = b.Carried()
	for i := range b.Requests() {
		if b.Made(i) {
			a.Prompt += int64(b.Trace.InputTokens[i])
		}
		if told, ok := b.AnswerOf(i); ok {
			a.Told += int64(told.Tokens)
		}
	}
	return a
}
