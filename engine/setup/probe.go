package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/json"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// leaveOpen notes what the servers do not report, in a few words and in whole sentences; probe prints it.
func (p *Prepared) leaveOpen(what, format string, args ...any) {
	p.Facts.Unknown = append(p.Facts.Unknown, metrics.Unknown{What: what, Note: fmt.Sprintf(format, args...)})
}

// UnprobedModel is the model's name where nobody gave one and nobody may be asked.
const UnprobedModel = "model"

// probe asks the servers whether they answer, for the model and the overhead, and how to start cold.
func (p *Prepared) probe(ctx context.Context) error {
	defer func() {
		if note := p.Trace.ModelsNote(); note != "" {
			p.note("models_recorded", "trace: %s", note)
		}
	}()
	if p.o.Cold == probe.ColdSalt && p.verbatims.onlyPayloads() {
		return errors.New(
			"--cold salt: bodies are sent as they are, without a cache_salt; give --cold flush or off, or put one " +
				"into each with --extra-inputs cache_salt:… and --cold off",
		)
	}
	if p.o.NoProbe || p.o.DryRun {
		p.skipProbe()
		return nil
	}
	notes, err := p.Prober.Alive(ctx)
	if err != nil {
		return err
	}
	for _, note := range notes {
		p.note("server", "%s", note)
	}
	if err := p.askModels(ctx); err != nil {
		return err
	}
	p.Prober.Backend = p.probeBackend
	switch { // verbatim prompts need no proof
	case p.verbatims.all:
	case !p.o.traits.Counts && !p.o.traits.StreamCounts:
		p.assumeOverhead(
			"the servers of --api " + p.o.API + " do not report how many tokens a prompt has, so that each word is " +
				"one is taken on trust (--tokenizer proves it)",
		)
	default: // the servers must count the tokens of our prompts as we do
		if err := p.measureOverhead(ctx); err != nil {
			if p.listed != "" {
				err = fmt.Errorf("%w; listed there: %s", err, p.listed)
			}
			return err
		}
	}
	if err := p.probeAnswers(ctx); err != nil {
		return err
	}
	caches, engines := p.Prober.PrefixCaches(ctx)
	if engines > 1 {
		p.note(
			"several_engines",
			"a server stands for %d engines with a prefix cache each: which of them a request meets is its own "+
				"choice, so hits below the ideal stay unexplained",
			engines,
		)
	}
	p.sizeCaches(caches)
	err = p.chooseCold(ctx)
	for _, note := range metrics.Fold(p.Facts.Unknown) {
		p.line("note: %s", note.Text)
	}
	return err
}

// shownModel is the model's name as results have it.
func (p *Prepared) shownModel() string {
	if p.o.Model != "" {
		return p.o.Model
	}
	return p.Prober.Secrets.Label(p.model)
}

// skipProbe notes what is assumed if no server is asked.
func (p *Prepared) skipProbe() {
	if !p.verbatims.all {
		p.assumeOverhead("the servers are not asked")
	}
	p.sizeCaches(nil)
	if p.model == "" && !p.asksNoModel() {
		p.model = UnprobedModel
		p.note("model_unknown", "the servers are not asked: the model is sent as %q (set --model)", UnprobedModel)
	}
	if p.o.DryRun {
		return
	}
	switch p.o.Cold {
	case probe.ColdFlush:
		p.Facts.Flushed = !p.o.Follows() // getReady flushes, or fails
	case probe.ColdSalt:
		p.takeSalt()
	default:
		p.note(
			"cold_not_asked",
			"cold: the servers are not asked to flush, and no cache_salt is sent; blocks of earlier runs with this "+
				"seed may still be cached (--cold flush or salt)",
		)
	}
}

// askModels asks the targets what they serve: the model if none is named, and the smallest context. So every router may
// send any request to any of them. Only the first answer must come, and only if the model's name depends on it.
func (p *Prepared) askModels(ctx context.Context) error {
	if !p.o.traits.Model && p.verbatims.payloads == 0 {
		return nil
	}
	var asked map[string][]int32
	recorded := p.Trace.RecordedModels && p.o.Model == "" && p.o.traits.Model // and all servers list those
	for i := range p.Prober.Targets {
		t := &p.Prober.Targets[i]
		models, err := p.Prober.Models(ctx, t)
		unnamed := p.model == "" && !p.asksNoModel()
		if err != nil && unnamed {
			return err
		}
		recorded = recorded && err == nil && !slices.ContainsFunc(p.Trace.Owners, func(o rows.Owner) bool {
			return o.Model != "" && !models.Lists(o.Model)
		})
		if err != nil {
			continue
		}
		if unnamed {
			p.model = models[0].ID
			p.detail("model: %s, from /v1/models", p.shownModel())
		}
		if asked == nil {
			asked = p.askedModels()
			if asked[""] == nil { // else the server's default is asked for, too
				p.Facts.Asked = slices.Sorted(maps.Keys(asked))
			}
			delete(asked, "")
		}
		p.noteUnlisted(t.URL, models, asked)
		if n := models.Context(p.model); n > 0 && (p.context == 0 || n < p.context) {
			p.context = n
		}
	}
	if recorded {
		t := *p.Trace
		t.RecordedModels = false
		p.Trace = &t
	}
	return nil
}

// askedModels lists the rows of the requests that ask for a model, by its name; "" is the server's default.
func (p *Prepared) askedModels() map[string][]int32 {
	asked := map[string][]int32{}
	for i := range p.Requests() {
		l := p.Trace.Verbatim(i)
		name := cmp.Or(p.Trace.AskedModel(i), p.model)
		bodies := [][]byte{l.Extra, p.o.Extra}
		if l.Kind == trace.VerbatimPayload {
			name = ""
			bodies = append(bodies, slices.Concat([]byte{'{'}, l.Content, []byte{'}'}))
		}
		for _, body := range bodies {
			if told := api.Field(body, []string{"model"}); told != nil {
				name = string(json.AppendUnescaped(nil, told))
				break
			}
		}
		asked[name] = append(asked[name], p.Trace.Row[i])
	}
	return asked
}

// noteUnlisted names models that requests ask for and a server does not list, each once.
func (p *Prepared) noteUnlisted(url string, models probe.Models, asked map[string][]int32) {
	flag := "--model "
	if p.verbatims.payloads > 0 {
		flag = "--extra-inputs model:"
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if rows := asked[name]; !models.Lists(name) {
			var listed []string
			for _, m := range models[:min(len(models), maxNamed)] {
				listed = append(listed, p.Prober.Secrets.Label(m.ID))
			}
			p.listed = strings.Join(listed, ", ")
			p.note(
				"model_unlisted",
				"%s (the first is row %d, from 0) for the model %q, which %s/v1/models does not list; %s%s replaces it",
				format.Requests(len(rows)), rows[0], name, url, flag, p.Prober.Secrets.Label(models[0].ID))
			delete(asked, name)
		}
	}
}

// maxNamed is how many rows a note names.
const maxNamed = 10
