package workload

import (
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// Literal is what request i has word for word; ok is false where its prompt is made of tokens, beside which it may have extra
// members.
func (w *Work) Literal(i int) (l api.Literal, ok bool) {
	t := w.Trace.Literal(i)
	l = api.Literal{Content: t.Content, Tools: t.Tools, Extra: t.Extra}
	switch t.Kind {
	case trace.TextLiteral:
		l.Form = api.Text
	case trace.MessagesLiteral:
		l.Form = api.Messages
	case trace.PayloadLiteral:
		l.Form = api.Payload
	default:
		return l, false
	}
	return l, true
}

// Made tells whether request i's prompt is made of tokens, and so known to the token.
func (w *Work) Made(i int) bool { return w.Trace.Literal(i).Kind == trace.NoLiteral }

// LiteralError is a row that an API cannot send.
type LiteralError struct {
	Row int // in the trace file, from 0
	Why error
}

// Error names the row.
func (e *LiteralError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Why) }

// Unwrap is the reason.
func (e *LiteralError) Unwrap() error { return e.Why }

// checkLiterals is the LiteralError of the first row that the backend cannot send.
func (r *Recipe) checkLiterals(w *Work) error {
	traits := r.Backend.Traits()
	for i := range w.Requests() {
		l, _ := w.Literal(i)
		if traits.Sized && w.Trace.OutputTokens[i] <= 0 && l.Form != api.Payload && !r.Backend.OwnLength(l.Extra) {
			return &LiteralError{int(w.Trace.Row[i]), errors.New("it has no output length, which this API must be given; use --extra-inputs max_tokens:N")}
		}
		if err := r.Backend.Takes(l); err != nil {
			return &LiteralError{int(w.Trace.Row[i]), err}
		}
	}
	return nil
}

// backend makes the body of a request of which the prompt is made.
func (r *Recipe) backend(w *Work, i int) api.Backend {
	if extra := w.Trace.Literal(i).Extra; extra != nil {
		return r.Backend.With(extra)
	}
	return r.Backend
}

// bodySize is the exact size of request i's body in bytes.
func (r *Recipe) bodySize(w *Work, i int) int {
	output := int(w.Trace.OutputTokens[i])
	if l, ok := w.Literal(i); ok {
		return r.Backend.LiteralSize(l, output)
	}
	return r.backend(w, i).Size(r.Source.Size(r.spec(w, i)), output)
}

// appendBody appends request i's body.
func (r *Recipe) appendBody(dst []byte, w *Work, i int) []byte {
	output := int(w.Trace.OutputTokens[i])
	if l, ok := w.Literal(i); ok {
		return r.Backend.AppendLiteral(dst, l, output)
	}
	backend := r.backend(w, i)
	dst = r.Source.Append(backend.AppendPrefix(dst), r.spec(w, i))
	return backend.AppendSuffix(dst, output)
}
