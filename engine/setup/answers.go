package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// checkAnswers refuses --force-answers where no server can be told its answers.
func (p *Prepared) checkAnswers() error {
	o := p.o
	switch {
	case !o.Sessions.ForceAnswers:
		return nil
	case !o.traits.Answers:
		return fmt.Errorf(
			"--force-answers: a server of --api %s cannot be told which tokens to answer; use --api vllm-generate "+
				"(vLLM with --enable-trace-replay), or --history live for a trace with messages, which puts what the "+
				"servers answer into later turns",
			o.API,
		)
	case p.verbatims.all:
		return errors.New("--force-answers: the trace has its requests verbatim, and no prompt is made of tokens")
	case o.Sessions.History == HistoryLive:
		return fmt.Errorf(
			"--force-answers tells servers the answers that the trace's later prompts have: leave out --history %s",
			HistoryLive,
		)
	case p.Choices > 1:
		return fmt.Errorf("--force-answers: each request asks for %d answers, and one can be told", p.Choices)
	}
	return nil
}

// probeAnswers asks the servers for one answer that they are told.
func (p *Prepared) probeAnswers(ctx context.Context) error {
	source, ok := p.source.(*prompt.TokenIDs)
	if !p.o.Sessions.ForceAnswers || !ok {
		return nil
	}
	backend, err := p.o.backend(p.model, "", false, true)
	if err != nil {
		return err
	}
	if err := p.Prober.Answers(ctx, backend, source); err != nil {
		return fmt.Errorf("--force-answers: %w", err)
	}
	p.detail("answers: the servers make the tokens that they are told, proven with one short answer each")
	return nil
}

// Answers is what is known of the answers before the run; nil where no prompt made of tokens can have any.
func (p *Prepared) Answers() *metrics.Answers {
	if !p.o.Sessions.ForceAnswers && (p.verbatims.rows > 0 || !p.o.traits.Generates || p.Trace.Parent == nil) {
		return nil
	}
	a := &metrics.Answers{Mode: metrics.AnswersFree}
	if p.o.Sessions.ForceAnswers {
		a.Mode = metrics.AnswersForced
	}
	a.Carried, a.Turns = p.Carried()
	for i := range p.Requests() {
		if p.Made(i) {
			a.Prompt += int64(p.Trace.InputTokens[i])
		}
		if forced, ok := p.AnswerOf(i); ok {
			a.Forced += int64(forced.Tokens)
		}
	}
	return a
}
