package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// resolve returns the servers that were named, with their addresses; path is where the API posts to.
func (p *Prepared) resolve(ctx context.Context, path string) ([]workload.Target, error) {
	o := p.o
	urls := o.URLs
	var err error
	switch {
	case len(urls) > 0:
	case o.DryRun:
		urls = []string{"127.0.0.1:8000"}
	case o.Fallback == nil:
		return nil, errors.New("no server; give one with --url")
	default:
		url, err := o.Fallback(ctx)
		if err != nil {
			return nil, err
		}
		urls = []string{url}
		p.Facts.Demo = true
	}
	targets := make([]workload.Target, len(urls))
	for i, url := range urls {
		if targets[i], err = workload.ParseTarget(url, path); err != nil {
			return nil, err
		}
		targets[i].PostTo(o.Endpoint)
		if targets[i].Path == "" {
			return nil, fmt.Errorf(
				"--api %s: %s has no path to post to; give --endpoint PATH, or a URL with a path",
				o.API, targets[i].URL,
			)
		}
	}
	return targets, probe.Resolve(ctx, targets)
}

// headers are those of every request: ours, the user's own without those that rows fill, and credentials.
func (p *Prepared) headers(backend api.Backend) []http1.Header {
	accept := "text/event-stream"
	switch {
	case p.Shaped():
		accept = "text/event-stream, application/json"
	case p.o.NoStream:
		accept = "application/json"
	}
	headers := []http1.Header{
		{Name: "User-Agent", Value: "fastreplay/" + p.o.Version},
		{Name: "Accept", Value: accept},
		{Name: "Content-Type", Value: "application/json"},
	}
	for _, h := range backend.Headers() {
		headers = append(headers, http1.Header(h))
	}
	for _, h := range p.secrets {
		if len(placeholders(h.Value)) == 0 {
			headers = append(headers, h)
		}
	}
	return headers
}

// makeSource decides what prompts are made of: the tokenizer's own tokens where one is given, else the built-in ones.
func (p *Prepared) makeSource(ctx context.Context) (err error) {
	o := p.o
	if o.Tokenizer == "" {
		if o.Prompt == PromptText {
			p.source, err = prompt.NewText(o.Seed, prompt.BuiltIn())
		} else {
			p.source, err = prompt.NewTokenIDs(o.Seed, prompt.BuiltInIDs())
		}
		return err
	}
	var vocabulary prompt.Vocabulary
	p.tokenizer, err = Await(ctx, func() (*tokenizer.Tokenizer, error) {
		read, err := tokenizer.Open(o.Tokenizer)
		if err == nil && o.Prompt != PromptTokenIDs {
			vocabulary.Words, vocabulary.First, err = read.Words()
		}
		return read, err
	})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", o.Tokenizer, err)
	}
	if o.Prompt == PromptTokenIDs {
		ids := p.tokenizer.Ordinary()
		source, err := prompt.NewTokenIDs(o.Seed, ids)
		if err != nil {
			return fmt.Errorf(
				"--tokenizer %s: of its %s ids of ordinary text, %w; use --prompt text",
				p.tokenizer.Name(), format.Count(len(ids)), err,
			)
		}
		p.source = source
		first, last := source.Range()
		p.detail("tokenizer: %s, prompts of its ids from %d to %d", p.tokenizer.Name(), first, last)
		return nil
	}
	text, err := prompt.NewText(o.Seed, vocabulary)
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", p.tokenizer.Name(), err)
	}
	p.source = text
	p.detail(
		"tokenizer: %s, prompts of %s that are single tokens of it in any company",
		p.tokenizer.Name(), format.Many(text.Words(), "word"),
	)
	return nil
}

// findTarget finds out where the requests of a load go, with what credentials, and what their prompts are made of.
func (p *Prepared) findTarget(ctx context.Context) error {
	o := p.o
	for _, place := range append([]string{o.Endpoint}, o.URLs...) { // a path may name the model, as Triton's do
		o.Model = cmp.Or(o.Model, api.ModelAt(place))
	}
	p.model = o.Model
	backend, err := o.backend(o.Model, "", !o.NoStream, false)
	if err != nil {
		return err
	}
	if err := p.makeSource(ctx); err != nil {
		return err
	}
	if p.Targets, err = p.resolve(ctx, backend.Path()); err != nil {
		return err
	}
	trust, err := probe.Trust(o.CACert, o.Insecure)
	if err != nil {
		return err
	}
	if p.secrets, err = o.secretHeaders(); err == nil {
		err = cmp.Or(o.Again.check(p.secrets), p.checkTemplates())
	}
	if err != nil {
		return err
	}
	var queries []string // hidden, like the user's headers, in all that servers say
	for _, target := range p.Targets {
		queries = append(queries, target.Query)
	}
	for _, url := range o.Scrape.URLs {
		_, query, _ := strings.Cut(url, "?")
		queries = append(queries, query)
	}
	var hidden []http1.Header // of rows, as those of --header
	for _, owner := range p.Trace.Owners {
		hidden = append(hidden, rowHeaders(owner)...)
	}
	p.Prober = &probe.Prober{
		Targets:        p.Targets,
		TLS:            trust,
		ConnectTimeout: o.ConnectTimeout,
		Timeout:        cmp.Or(o.ProbeTimeout, min(usualProbeTimeout, o.Timeout)),
		Waiting:        p.notes.Waiting,
		Headers:        p.headers(backend),
		Secrets:        o.redactor(append(hidden, p.secrets...), queries...),
		Tokenizer:      o.Tokenizer,
		Nonce:          rand.Uint64() >> 1,
		Tokenize:       p.tokenizeBackend,
		AsRun:          p.runBackend,
		Extra:          string(o.Extra),
		LeastOutput:    api.LeastOutput(o.API, o.Extra),
		RunOutput:      int(p.Trace.OutputTokens[0]),
	}
	if name, h := o.environmentKey(); o.Again.Strangers && name != "" && !hasHeader(p.secrets, h.Name) {
		p.note("key_kept", "the key in %s is not sent: only %s names the servers; --url or --api-key-file sends it",
			name, o.Again.File)
	}
	if o.DryRun {
		p.line("dry run: no server is asked and nothing is sent")
		return nil
	}
	where := strings.Join(p.URLs(), ", ")
	p.detail("target: POST %s at %s", p.Targets[0].Path, where)
	for _, h := range p.secrets {
		p.line("        sending the header %s to %s", h.Name, where)
	}
	return nil
}

// usualProbeTimeout bounds one answer to a probe: a cold server may load its graphs first.
const usualProbeTimeout = 2 * time.Minute
