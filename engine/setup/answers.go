package setup

import (
	"context"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// exact reports whether servers are told what to answer.
func (o *Options) exact() bool { return o.Sessions.Answers == metrics.AnswersExact }

// checkAnswers refuses --answers exact where no server can be told its answers.
func (p *Prepared) checkAnswers() error {
	o := p.o
	switch {
	case !o.exact():
		return nil
	case !o.traits.Answers:
		return fmt.Errorf("--answers %s: a server of --api %s cannot be told which tokens to answer; use --api vllm-generate (vLLM with --enable-trace-replay), "+
			"or --history live for a trace with messages, which puts what the servers answer into later turns", metrics.AnswersExact, o.API)
	case p.verbatims.all:
		return fmt.Errorf("--answers %s: the trace has its requests verbatim, and no prompt is made of tokens", metrics.AnswersExact)
	case o.Sessions.History == HistoryLive:
		return fmt.Errorf("--answers %s tells servers the answers that the trace's later prompts have: leave out --history %s", metrics.AnswersExact, HistoryLive)
	case p.Choices > 1:
		return fmt.Errorf("--answers %s: each request asks for %d answers, and one can be told", metrics.AnswersExact, p.Choices)
	}
	return nil
}

// probeAnswers asks the servers for one answer that they are told.
func (p *Prepared) probeAnswers(ctx context.Context) error {
	source, ok := p.source.(*prompt.TokenIDs)
	if !p.o.exact() || !ok {
		return nil
	}
	backend, err := p.o.tellingBackend(p.model, "", false, true)
	if err != nil {
		return err
	}
	if err := p.Prober.Answers(ctx, backend, source); err != nil {
		return fmt.Errorf("--answers %s: %w", metrics.AnswersExact, err)
	}
	p.detail("answers: the servers make the tokens that they are told, proven with one short answer each")
	return nil
}

// Answers is what is known of the answers before the run; nil where no prompt made of tokens can have any.
func (p *Prepared) Answers() *metrics.Answers {
	if !p.o.exact() && (p.verbatims.rows > 0 || !p.o.traits.Generates || p.Trace.Parent == nil) {
		return nil
	}
	a := &metrics.Answers{Mode: p.o.Sessions.Answers}
	a.Carried, a.Turns = p.Carried()
	for i := range p.Requests() {
		if p.Made(i) {
			a.Prompt += int64(p.Trace.InputTokens[i])
		}
		if told, ok := p.AnswerOf(i); ok {
			a.Told += int64(told.Tokens)
		}
	}
	return a
}
