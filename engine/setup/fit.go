package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// The values of Options.TooLong.
const (
	TooLongRefuse = "refuse"
	TooLongDrop   = "drop"
	TooLongClip   = "clip"
	TooLongSend   = "send" // as the others; a server that refuses one ends its agent, in lanes
)

// sized is a backend whose extra inputs bound the answers, so that no row does.
type sized struct{ api.Backend }

func (sized) OwnLength([]byte) bool { return true }

// fit treats requests that are longer than the servers' context as --too-long asks. A verbatim prompt that could not be
// counted is sent.
func (p *Prepared) fit(context.Context) error {
	if err := p.leaveOut(); err != nil {
		return err
	}
	limit := p.context
	mode := p.o.TooLong
	if mode == TooLongSend {
		return nil
	}
	if limit == 0 {
		if mode != "" {
			p.note(
				"context_unknown",
				"--too-long %s: no server reports how long a prompt and its output may be, so nothing is known to be "+
					"too long",
				mode,
			)
		}
		return nil
	}
	backend, err := p.o.backend(p.model, "", false, false)
	if err != nil {
		return err
	}
	if api.OwnLength(p.o.API, p.o.Extra) {
		backend = sized{backend}
	}
	list := p.TooLong(limit, backend)
	if len(list) == 0 {
		return nil
	}
	prompt, output := p.Lengths(int(list[0]), backend)
	needs := format.Count(prompt)
	if prompt == 0 {
		needs = "an unknown number of"
	}
	words := fmt.Sprintf(
		"%s whose prompt and output exceed the servers' context of %s (/v1/models); the first is row %d (from 0) of "+
			"%s, with %s prompt and %s output tokens",
		format.Requests(len(list)), format.Many(limit, "token"), p.Trace.Row[list[0]], p.Trace.Name, needs,
		format.Count(output),
	)
	fixed := slices.IndexFunc(list, func(i int32) bool { return !p.Made(int(i)) })
	switch mode {
	case TooLongDrop:
		if len(list) == p.Requests() {
			return fmt.Errorf("--too-long drop: nothing is left: %s", words)
		}
		why := fmt.Sprintf("longer than the server's context of %d tokens: %s", limit, record.LeftOutWords)
		long := p.LeaveOut(list, p.RunID, backend, why)
		for i := range long {
			if long[i].Phase == record.Profiled {
				p.fitted.LeftOut++
			}
		}
		p.LeftOut = append(p.LeftOut, long...)
		p.note("too_long_dropped", "--too-long drop leaves out %s", words)
	case TooLongClip:
		if fixed >= 0 {
			return fmt.Errorf(
				"--too-long clip: the prompt of row %d is verbatim, and no part of it can be left out; use "+
					"--too-long drop",
				p.Trace.Row[list[fixed]],
			)
		}
		tokens, ok := p.Clip(list, limit, backend)
		if !ok {
			return fmt.Errorf(
				"--too-long clip: a context of %d tokens has no room for a prompt beside the %d that the server adds",
				limit, p.Overhead.Tokens(),
			)
		}
		p.fitted.Clipped = int64(len(list))
		p.fitted.ClippedOff = tokens
		p.note("too_long_clipped", "--too-long clip shortens, by %s in all, %s", format.Many(tokens, "token"), words)
	default:
		advice := "leave them out with --too-long drop"
		if fixed < 0 {
			advice += ", or shorten their prompts at the end with --too-long clip"
		}
		return fmt.Errorf("the trace has %s; %s", words, advice)
	}
	p.fitted.Context = int64(limit)
	p.verbatims = verbatimsOf(p.Trace, p.Requests())
	return nil
}
