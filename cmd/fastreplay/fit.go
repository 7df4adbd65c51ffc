package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/json"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// The values of --too-long.
const (
	tooLongRefuse = "refuse"
	tooLongDrop   = "drop"
	tooLongClip   = "clip"
)

// askModels asks the targets what they serve: the model where none is named, and the smallest context, so that every router may send
// any request to any of them. Only the first answer must come, and only if the model's name depends on it.
func (r *replay) askModels(ctx context.Context) error {
	if !r.o.traits.Model && r.verbatims.payloads == 0 {
		return nil
	}
	var asked map[string][]int32
	for i := range r.prober.Targets {
		t := &r.prober.Targets[i]
		models, err := r.prober.Models(ctx, t)
		unnamed := r.probed.model == "" && !r.asksNoModel()
		if err != nil && unnamed {
			return err
		}
		if err != nil {
			continue
		}
		if unnamed {
			r.probed.model = models[0].ID
			r.say.line("model: %s, from /v1/models", r.shownModel())
		}
		if asked == nil {
			asked = r.askedModels()
		}
		r.noteUnlisted(t.URL, models, asked)
		if n := models.Context(r.probed.model); n > 0 && (r.probed.context == 0 || n < r.probed.context) {
			r.probed.context = n
		}
	}
	return nil
}

// askedModels lists the rows of the requests that ask for a model, by its name.
func (r *replay) askedModels() map[string][]int32 {
	asked := map[string][]int32{}
	for i := range r.work.Requests() {
		l, name := r.trace.Verbatim(i), r.probed.model
		bodies := [][]byte{l.Extra, r.o.extra}
		if l.Kind == trace.VerbatimPayload {
			name, bodies = "", append(bodies, slices.Concat([]byte{'{'}, l.Content, []byte{'}'}))
		}
		for _, body := range bodies {
			if told := api.Field(body, []string{"model"}); told != nil {
				name = string(json.AppendUnescaped(nil, told))
				break
			}
		}
		asked[name] = append(asked[name], r.trace.Row[i])
	}
	delete(asked, "") // the server's default
	return asked
}

// noteUnlisted names models that requests ask for and a server does not list, each once.
func (r *replay) noteUnlisted(url string, models probe.Models, asked map[string][]int32) {
	flag := "--model "
	if r.verbatims.payloads > 0 {
		flag = "--extra-inputs model:"
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if rows := asked[name]; !models.Lists(name) {
			r.note("%s (the first is row %d, from 0) for the model %q, which %s/v1/models does not list; %s%s replaces it",
				format.Many(int64(len(rows)), "request"), rows[0], name, url, flag, r.prober.Secrets.Label(models[0].ID))
			delete(asked, name)
		}
	}
}

// sized is a backend whose extra inputs say how long answers may be, so that no row does.
type sized struct{ api.Backend }

func (sized) OwnLength([]byte) bool { return true }

// fit does with requests that are longer than the servers' context as --too-long says. A verbatim prompt and
// could not be counted is sent.
func (r *replay) fit(context.Context) error {
	limit, mode := r.probed.context, r.o.tooLong
	if limit == 0 {
		if r.o.pacing.given("too-long") {
			r.note("--too-long %s: no server has told how long a prompt and its output may be, so nothing is known to be too long", mode)
		}
		return nil
	}
	backend, err := r.o.backend(r.probed.model, "", false)
	if err != nil {
		return err
	}
	if api.OwnLength(r.o.api, r.o.extra) {
		backend = sized{backend}
	}
	list := r.work.TooLong(limit, backend)
	if len(list) == 0 {
		return nil
	}
	prompt, output := r.work.Lengths(int(list[0]), backend)
	needs := format.Count(int64(prompt))
	if prompt == 0 {
		needs = "an unknown number of"
	}
	words := fmt.Sprintf("%s whose prompt and output exceed the servers' context of %s (/v1/models); the first is row %d (from 0) of %s, with %s prompt and %s output tokens",
		format.Many(int64(len(list)), "request"), format.Many(int64(limit), "token"), r.trace.Row[list[0]], r.trace.Name, needs, format.Count(int64(output)))
	fixed := slices.IndexFunc(list, func(i int32) bool { return !r.work.Made(int(i)) })
	switch mode {
	case tooLongDrop:
		if len(list) == r.work.Requests() {
			return fmt.Errorf("--too-long drop: nothing is left: %s", words)
		}
		r.workload.LeftOut = int64(len(list))
		r.leftOut = r.work.LeaveOut(list, r.runID, backend, fmt.Sprintf("longer than the server's context of %d tokens: %s", limit, record.LeftOutWords))
		r.note("--too-long drop leaves out %s", words)
	case tooLongClip:
		if fixed >= 0 {
			return fmt.Errorf("--too-long clip: the prompt of row %d is verbatim, and no part of it can be left out; use --too-long drop", r.trace.Row[list[fixed]])
		}
		tokens, ok := r.work.Clip(list, limit, backend)
		if !ok {
			return fmt.Errorf("--too-long clip: a context of %d tokens has no room for a prompt beside the %d that the server adds", limit, r.work.Overhead.Tokens())
		}
		r.workload.Clipped, r.workload.ClippedOff = int64(len(list)), tokens
		r.note("--too-long clip shortens, by %s in all, %s", format.Many(tokens, "token"), words)
	default:
		advice := "leave them out with --too-long drop"
		if fixed < 0 {
			advice += ", or shorten their prompts at the end with --too-long clip"
		}
		return fmt.Errorf("the trace has %s; %s", words, advice)
	}
	r.workload.Context, r.trace = int64(limit), r.work.Trace
	r.verbatims = verbatimsOf(r.trace, r.work.Requests())
	return nil
}
