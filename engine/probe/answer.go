package probe

import (
	"context"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
)

// Lengths of the question whether servers make the tokens that they are told.
const (
	toldPrompt = 16
	toldTokens = 8
)

// Answers has one short answer told to every target. The error is why a server does not make those tokens: its refusal, in its own
// words, or what it made instead. The backend is that of the run's bodies, but for a whole answer.
func (b *Prober) Answers(ctx context.Context, backend api.Backend, source *prompt.TokenIDs) error {
	for i := range b.Targets {
		t := &b.Targets[i]
		told := prompt.Answer{Tokens: toldTokens, Own: probeDomain | b.Nonce}
		body := backend.AppendSuffix(append(backend.AppendPrefix(nil), b.newPrompt(source, toldPrompt)...), toldTokens)
		at := len(body) - backend.AnswerEnd()
		end := string(body[at:])
		body = append(source.AppendAnswer(body[:at], told), end...)
		d, err := b.exchange(ctx, t, t.Endpoints[0], backend, body)
		if err != nil {
			return err
		}
		k := 0
		for id, rest, ok := api.NextID(d.IDs); ok; id, rest, ok = api.NextID(rest) {
			if k >= toldTokens || id != source.AnswerToken(&told, k) {
				return fmt.Errorf("%w: %s was told its answer's tokens and made others (token %d is %d): it may decode speculatively; use --answers free", ErrProbe, t.URL, k, id)
			}
			k++
		}
		if k < toldTokens {
			return fmt.Errorf("%w: %s was told an answer of %d tokens and sent %d ids; use --answers free", ErrProbe, t.URL, toldTokens, k)
		}
	}
	return nil
}
