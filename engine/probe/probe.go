// Package probe sends requests to servers before a run. They are for models, for what a server adds to a prompt, and
// for the sizes of its prefix caches. It flushes or salts those caches, sends warm-up requests, and samples the pages
// of /metrics during the run.
//
// It measures no latency and sends no request of a run. What it finds is written into a workload.Work by its caller.
//
// One goroutine uses a Prober, before the run; WarmUp and Scraper start their own. A Scraper samples on one goroutine
// for each page while the run goes on, away from the senders. All of it may allocate: it is off the hot path.
//
// The package is not an API: any release may change it.
package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/sse"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// Prober sends the requests before a run. It is off the hot path and uses fasthttp.
type Prober struct {
	Targets        []workload.Target
	Headers        []http1.Header   // of every request: ours, the user's own and credentials
	Secrets        *redact.Redactor // for messages of servers
	TLS            *tls.Config
	ConnectTimeout time.Duration
	Timeout        time.Duration // of one question, from dialling to the last byte of the answer
	// is called with a question that has no answer after 2 s, by any goroutine; nil = nothing is
	Waiting   func(what string)
	Tokenizer string // whose words prompts are made of, for messages; "" = the built-in ones
	Nonce     uint64 // another one in each run keeps its probes out of the caches that earlier runs have filled
	// Backend makes the bodies of probes, with the given cache salt ("" = none). If only a whole answer reports how
	// many tokens a prompt has, they ask for a whole answer.
	Backend func(salt string) (api.Backend, error)
	// AsRun makes bodies as the run has them, streamed or not; RunOutput is the length of one of its answers. If the
	// user's extra inputs, as JSON, are why a probe is refused, it is sent again like that: "" = none are given.
	// LeastOutput is what they demand.
	AsRun       func(salt string) (api.Backend, error)
	Extra       string
	RunOutput   int
	LeastOutput int
	// Tokenize makes bodies for /tokenize, which takes prompts as completions or chats.
	Tokenize func() (api.Backend, error)
	made     uint64 // prompts, which are all different
	// calls a function after a time, unless stopped; nil = the clock does
	after func(time.Duration, func()) func() bool
}

// probeDomain marks the unique tokens of probes: no row has this bit.
const probeDomain = 1 << 63

// newPrompt makes a prompt that shares nothing with those before it.
func (b *Prober) newPrompt(source prompt.Source, tokens int) []byte {
	b.made++
	unique := probeDomain | (b.Nonce + b.made)
	return source.Append(nil, prompt.Spec{Tokens: tokens, Unique: unique})
}

// ErrProbe wraps every answer of a server that makes a run pointless.
var ErrProbe = errors.New("probe")

// Alive connects to every address of every target. If an address refuses and another address of the same name accepts,
// it is left out, with a note. A target of which no address accepts is an error.
func (b *Prober) Alive(ctx context.Context) (notes []string, err error) {
	for i := range b.Targets {
		t := &b.Targets[i]
		var alive []netip.AddrPort
		var last error
		for _, addr := range t.Endpoints {
			answered := b.waiting("a connection to "+addr.String(), b.ConnectTimeout, "--connect-timeout")
			c, err := b.dial(ctx, server{&workload.Target{}, addr})
			answered()
			if ctx.Err() != nil {
				return notes, ctx.Err()
			}
			if err != nil {
				last = err
				continue
			}
			_ = c.Close()
			alive = append(alive, addr)
		}
		if len(alive) == 0 {
			hint := ""
			if !strings.HasSuffix(t.Host, fmt.Sprint(":", t.Port)) {
				hint = fmt.Sprintf(" (no port was given, so it is %d; vLLM's is 8000)", t.Port)
			}
			return notes, fmt.Errorf("%w: target %s does not accept connections: %w%s; start it, correct --url, or "+
				"use --no-probe", ErrProbe, t.URL, last, hint)
		}
		all := len(t.Endpoints)
		if left := all - len(alive); left > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d addresses refuse connections and are left out",
				t.URL, left, all))
		}
		t.Endpoints = alive
	}
	return notes, nil
}

func credentialsHint(status int) string {
	if status == 401 || status == 403 {
		return ": credentials missing or refused, give a key with --api-key-file, --api-key or OPENAI_API_KEY"
	}
	return ""
}

// certificateHint is the remedy where a server's certificate was not accepted.
func certificateHint(err error) string {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return "; trust it with --ca-cert FILE, or go without with --insecure"
	}
	return ""
}

// count sends a prompt, as the inside of a body, to one address and returns the server's counts.
func (b *Prober) count(
	ctx context.Context, at server, text []byte, salt string,
) (d api.Delta, err error) {
	d, err = b.complete(ctx, at, text, salt, 1)
	if err == nil && d.PromptTokens < 0 {
		err = fmt.Errorf(
			"%w: %s does not report how many tokens a prompt has, so the prompts cannot be proven; use --no-probe "+
				"to replay without proof", ErrProbe, at.URL)
	}
	return d, err
}

// complete has a prompt completed by so many tokens at one address. A probe is not streamed, or is shorter than the
// run's requests. So extra inputs such as stream_options or thinking.budget_tokens may make servers refuse it, although
// they take the run's requests.
func (b *Prober) complete(
	ctx context.Context, at server, text []byte, salt string, output int,
) (d api.Delta, err error) {
	d, err = b.completeWith(ctx, at, text, salt, output, b.Backend)
	var refused *RefusedError
	if b.Extra == "" || !errors.As(err, &refused) || refused.Status/100 != 4 {
		return d, err
	}
	output = max(output, b.RunOutput)
	like, failed := b.completeWith(ctx, at, text, salt, output, b.AsRun)
	if failed != nil {
		return d, failed
	}
	return like, nil
}

func (b *Prober) completeWith(
	ctx context.Context, at server, text []byte, salt string, output int,
	make func(string) (api.Backend, error),
) (d api.Delta, err error) {
	backend, err := make(salt)
	if err != nil {
		return d, err
	}
	output = max(output, b.LeastOutput, backend.Traits().Least)
	body := append(backend.AppendPrefix(nil), text...)
	return b.exchange(ctx, at, backend, backend.AppendSuffix(body, output))
}

// exchange posts a body of the backend to one address and reads the answer.
func (b *Prober) exchange(
	ctx context.Context, at server, backend api.Backend, body []byte,
) (d api.Delta, err error) {
	url := at.URLFor(backend.Path())
	status, answer, err := b.askUntilServed(ctx, at, url+at.Query, body)
	if err != nil {
		return d, fmt.Errorf("%w: %s: %w%s", ErrProbe, url, err, certificateHint(err))
	}
	err = parseAnswer(backend, answer, &d)
	if status != 200 || d.IsError {
		message := b.Secrets.FromJSON(d.Error)
		if err != nil || message == "" {
			message = b.Secrets.Line(titleOf(string(answer)))
		}
		return d, &RefusedError{
			URL:     url,
			Status:  status,
			Message: strings.Join(strings.Fields(message), " "),
			Extra:   b.Extra,
		}
	}
	if err != nil {
		return d, fmt.Errorf("%w: %s answers a probe with something that is not an answer of this API: %w", ErrProbe,
			url, b.Secrets.Error(err))
	}
	return d, nil
}

// A server that is busy or fails now and then refuses some requests: a probe is sent so often at most, with a growing
// pause.
const (
	maxTries   = 4
	firstPause = 200 * time.Millisecond
)

// askUntilServed posts a probe again while the server answers that it cannot serve it now: 429 or 5xx.
func (b *Prober) askUntilServed(
	ctx context.Context, at server, url string, body []byte,
) (status int, answer []byte, err error) {
	pause := firstPause
	for try := 1; ; try++ {
		status, answer, err = b.ask(ctx, at, fasthttp.MethodPost, url, body)
		served := status != fasthttp.StatusTooManyRequests && status < 500
		if err != nil || served || try == maxTries {
			return status, answer, err
		}
		select {
		case <-ctx.Done():
			return status, answer, err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// parseAnswer reads a whole answer, or a stream's events one after the other, and keeps the counts of each.
func parseAnswer(backend api.Backend, answer []byte, d *api.Delta) error {
	head := bytes.TrimSpace(answer)
	if bytes.ContainsAny(head[:min(1, len(head))], "{<") { // JSON, or a page of somebody between
		return backend.ParseBody(answer, d)
	}
	var all api.Delta
	all.Reset()
	var events sse.Scanner
	for more := true; more; {
		data, n, ok, err := events.Next(answer)
		if more = len(answer) > 0; !more {
			data, ok = events.Finish()
		}
		if err == nil && ok {
			if err = backend.ParseEvent(data, d); events.Failed() {
				d.Fail(data)
				err = nil
			}
		}
		if err != nil || ok && d.IsError {
			return err
		}
		if ok && d.HasUsage() {
			all.PromptTokens = max(all.PromptTokens, d.PromptTokens)
			all.CachedTokens = max(all.CachedTokens, d.CachedTokens)
		}
		answer = answer[n:]
	}
	*d = all
	return nil
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>([^<]*)`)

// titleOf is what a web page is called; text that has no title stays as it is.
func titleOf(text string) string {
	if title := pageTitle.FindStringSubmatch(text); title != nil {
		return "a web page: " + title[1]
	}
	return text
}

// RefusedError is a server's answer to a probe that it did not accept.
type RefusedError struct {
	URL     string
	Status  int
	Message string
	Extra   string // the user's extra inputs, which may be why
}

// Error names the answer and the usual remedies.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("probe: %s refuses a request like those of the run: HTTP %d: %s%s", e.URL, e.Status,
		strings.TrimSuffix(e.Message, "."), e.hint())
}

func (e *RefusedError) hint() string {
	for _, word := range []string{"ignore_eos", "min_tokens", "extra_forbidden", "Extra inputs", "Unrecognized"} {
		if strings.Contains(e.Message, word) {
			if strings.Contains(e.Extra, word) {
				return "; it is in --extra-inputs"
			}
			return "; --no-force-output leaves out what this server does not know"
		}
	}
	switch {
	case e.Status == 404 && strings.Contains(strings.ToLower(e.Message), "model"):
		return "; check --model"
	case e.Status == 404:
		return "; check the path: --url, --api and --endpoint make it"
	case e.Status == fasthttp.StatusTooManyRequests || e.Status >= 500:
		return fmt.Sprintf(" (%d times); --no-probe replays without proof", maxTries)
	}
	return credentialsHint(e.Status)
}

// Lengths of the question whether servers make the tokens that they are told.
const (
	toldPrompt = 16
	toldTokens = 8
)

// Answers has one short answer told to every target. The error is why a server does not make those tokens: its refusal,
// in its own words, or what it made instead. The backend is that of the run's bodies, but for a whole answer.
func (b *Prober) Answers(ctx context.Context, backend api.Backend, source *prompt.TokenIDs) error {
	for _, at := range b.firsts() {
		told := prompt.Answer{
			Tokens: max(toldTokens, b.LeastOutput),
			Own:    probeDomain | b.Nonce,
		}
		body := append(backend.AppendPrefix(nil), b.newPrompt(source, toldPrompt)...)
		body = backend.AppendSuffix(body, told.Tokens)
		begin := len(body) - backend.AnswerEnd()
		end := string(body[begin:])
		body = append(source.AppendAnswer(body[:begin], told), end...)
		d, err := b.exchange(ctx, at, backend, body)
		if err != nil {
			return err
		}
		k := 0
		for id, rest, ok := api.NextID(d.IDs); ok; id, rest, ok = api.NextID(rest) {
			if k >= told.Tokens || id != source.AnswerToken(&told, k) {
				return fmt.Errorf(
					"%w: %s was told its answer's tokens and made others (token %d is %d): it may decode "+
						"speculatively; leave out --force-answers", ErrProbe, at.URL, k, id)
			}
			k++
		}
		if k < told.Tokens {
			return fmt.Errorf("%w: %s was told an answer of %d tokens and sent %d ids; leave out --force-answers",
				ErrProbe, at.URL, told.Tokens, k)
		}
	}
	return nil
}

// warmUpAtOnce is how many requests of a warm-up are in flight by default.
const warmUpAtOnce = 16

// warmUpFrom is how many numbers of prompts are left to probes.
const warmUpFrom = 1 << 32

// The lengths in a warm-up if those of verbatim content are not known.
const (
	bytesPerToken    = 4 // about as many as English text has
	unrecordedOutput = 16
)

// WarmUp sends n requests with the sizes of the work's first requests, to all addresses in turn. At most atOnce (0 =
// 16) are in flight. It returns when all have been answered. Their prompts share no prefix with each other or with the
// work's. If the work has fewer requests, its sizes are repeated.
func (b *Prober) WarmUp(ctx context.Context, w *workload.Work, source prompt.Source, n, atOnce int, salt string) error {
	places := serversOf(w.Targets)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var senders sync.WaitGroup
	send := func(i int) {
		shape := i % w.Requests()
		tokens := w.PromptTokens(shape)
		if !w.Made(shape) && w.Trace.InputTokens[shape] <= 0 {
			tokens = max(1, len(w.Trace.Verbatim(shape).Content)/bytesPerToken)
		}
		output := int(w.Trace.OutputTokens[shape])
		if output <= 0 {
			output = unrecordedOutput
		}
		unique := probeDomain | (b.Nonce + warmUpFrom + uint64(i))
		text := source.Append(nil, prompt.Spec{Tokens: tokens, Unique: unique})
		at := places[i%len(places)]
		_, err := b.complete(ctx, at, text, salt, output)
		if err != nil {
			cancel(fmt.Errorf("warm-up request %d of %d: %w", i+1, n, err))
		}
	}
	for range min(cmp.Or(atOnce, warmUpAtOnce), n) {
		senders.Go(func() {
			i := int(next.Add(1)) - 1
			for i < n && ctx.Err() == nil {
				send(i)
				i = int(next.Add(1)) - 1
			}
		})
	}
	senders.Wait()
	return context.Cause(ctx)
}

// Models are the models that a server lists.
type Models []Model

// Model is one of them. All but the name have the type any, since servers use different JSON types for them.
type Model struct {
	ID     string `json:"id"`
	Parent any    `json:"parent"` // of an adapter (LoRA): the model whose limits it has
	// How many tokens a prompt and its output may have together, by one name or another.
	MaxModelLen      any `json:"max_model_len"`      // vLLM, SGLang
	MaxContextLength any `json:"max_context_length"` // Mistral
	ContextLength    any `json:"context_length"`     // OpenRouter, Together
	ContextWindow    any `json:"context_window"`     // Groq
}

// Models asks a target which models it serves: at least one.
func (b *Prober) Models(ctx context.Context, t *workload.Target) (Models, error) {
	status, body, err := b.ask(ctx, firstOf(t), fasthttp.MethodGet, t.Base+"/v1/models", nil)
	if err != nil {
		return nil, fmt.Errorf("%w: asking %s/v1/models for the model: %w%s", ErrProbe, t.Base, err,
			certificateHint(err))
	}
	if hint := credentialsHint(status); hint != "" {
		return nil, fmt.Errorf("%w: %s/v1/models answers HTTP %d%s", ErrProbe, t.Base, status, hint)
	}
	var list struct {
		Data Models `json:"data"`
	}
	hint := "give it with --model"
	if t.Base != t.URL {
		hint = "correct the path of --url, or give --model"
	}
	wrong := json.Unmarshal(body, &list)
	if status != 200 || wrong != nil || len(list.Data) == 0 || list.Data[0].ID == "" {
		return nil, fmt.Errorf("%w: %s/v1/models names no model (HTTP %d); %s", ErrProbe, t.Base, status, hint)
	}
	return list.Data, nil
}

// Lists reports whether a model of that name is served. A name with a * stands for many, as with LiteLLM.
func (m Models) Lists(name string) bool {
	return slices.ContainsFunc(m, func(o Model) bool {
		return o.ID == name || strings.Contains(o.ID, "*")
	})
}

// Context is how many tokens a prompt and its output may have together with a model; 0 if the server does not report
// it.
func (m Models) Context(name string) int {
	for range 2 { // the model, then its parent
		i := slices.IndexFunc(m, func(o Model) bool {
			return o.ID == name
		})
		if i < 0 {
			return 0
		}
		model := m[i]
		for _, told := range []any{
			model.MaxModelLen,
			model.MaxContextLength,
			model.ContextLength,
			model.ContextWindow,
		} {
			n, _ := told.(float64)
			if n >= 1 && n <= math.MaxInt32 {
				return int(n)
			}
		}
		name, _ = model.Parent.(string)
	}
	return 0
}
