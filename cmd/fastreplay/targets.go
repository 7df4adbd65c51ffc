package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// aim finds out where requests go and with what credentials. Without --url it starts the mock.
func (r *replay) aim(ctx context.Context) error {
	r.o.modelInPath()
	backend, err := r.o.backend(r.o.model, "", !r.o.noStream)
	if err != nil {
		return err
	}
	if err := r.makeSource(ctx); err != nil {
		return err
	}
	if r.work.Targets, err = r.findTargets(ctx, backend.Path()); err != nil {
		return err
	}
	trust, err := r.o.tlsConfig()
	if err != nil {
		return err
	}
	if r.secrets, err = r.o.secretHeaders(); err != nil {
		return err
	}
	timeout := min(probeTimeout, r.o.timeout)
	if r.o.pacing.given("timeout") {
		timeout = r.o.timeout
	}
	r.prober = &probe.Prober{
		Tokenize: r.tokenizeBackend, Targets: r.work.Targets, TLS: trust, ConnectTimeout: r.o.connectTimeout, Timeout: timeout, Waiting: r.say.waiting,
		Headers: append(r.ownHeaders(backend), r.secrets...), Secrets: r.redactor(), Tokenizer: r.o.tokenizer, Nonce: rand.Uint64() >> 1,
	}
	r.sayTargets()
	return nil
}

// redactor hides what the user's headers and URLs carry from everything that servers say.
func (r *replay) redactor() *redact.Redactor {
	var queries []string
	for _, t := range r.work.Targets {
		queries = append(queries, t.Query)
	}
	for _, url := range r.o.scrape.urls {
		_, query, _ := strings.Cut(url, "?")
		queries = append(queries, query)
	}
	return redact.NewRedactor(r.secrets, queries...)
}

// findTargets are the servers that were named, with their addresses; path is where the API posts to.
func (r *replay) findTargets(ctx context.Context, path string) ([]workload.Target, error) {
	urls, err := r.o.urls, error(nil)
	switch {
	case len(urls) > 0:
	case r.o.dryRun:
		urls = []string{"127.0.0.1:8000"}
	default:
		if r.mock, err = startMock(ctx); err != nil {
			return nil, err
		}
		r.say.line("no --url: replaying against the embedded mock, %s, in a process of its own", r.mock.url)
		urls = []string{r.mock.url}
	}
	targets := make([]workload.Target, len(urls))
	for i, url := range urls {
		if targets[i], err = workload.ParseTarget(url, path); err != nil {
			return nil, err
		}
		targets[i].PostTo(r.o.endpoint)
		if targets[i].Path == "" {
			return nil, fmt.Errorf("--api %s: %s says not where to post; give --endpoint PATH, or a URL with a path", r.o.api, targets[i].URL)
		}
	}
	return targets, probe.Resolve(ctx, targets)
}

// modelInPath takes the model from a path that names it, as Triton's do.
func (o *options) modelInPath() {
	for _, place := range append([]string{o.endpoint}, o.urls...) {
		if o.model == "" {
			o.model = api.ModelAt(place)
		}
	}
}

// probeTimeout bounds one answer to a probe where --timeout is not given: a cold server may load its graphs first.
const probeTimeout = 2 * time.Minute

func (r *replay) sayTargets() {
	where := strings.Join(r.work.URLs(), ", ")
	if r.o.dryRun {
		r.say.line("dry run: no server is asked and nothing is sent")
		return
	}
	r.say.line("target: POST %s at %s", r.work.Targets[0].Path, where)
	for _, h := range r.secrets {
		r.say.line("        sending the header %s to %s", h.Name, where)
	}
}

// tokenizeBackend makes bodies as /tokenize takes them.
func (r *replay) tokenizeBackend() (api.Backend, error) {
	name := "completions"
	if r.o.traits.Template {
		name = "chat"
	}
	o := api.Options{Model: r.probed.model, TokenIDs: r.o.prompt == promptTokenIDs && name == "completions"}
	if name == r.o.api {
		o.ForceOutput, o.Extra = !r.o.noForceOutput, r.o.extra // what shapes the template is in it, and servers ignore the rest
	}
	return api.New(name, o)
}

// backend makes the bodies of this run.
func (o *options) backend(model, salt string, stream bool) (api.Backend, error) {
	return api.New(o.api, api.Options{
		Model: model, Stream: stream, ForceOutput: !o.noForceOutput, Extra: o.extra, CacheSalt: salt, TokenIDs: o.prompt == promptTokenIDs,
	})
}

func (o *options) tlsConfig() (*tls.Config, error) {
	// Records of full size from the start: a 20 kB request is two writes, not fifteen.
	cfg := &tls.Config{InsecureSkipVerify: o.insecure, DynamicRecordSizingDisabled: true, NextProtos: []string{"http/1.1"}}
	if o.caCert == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(o.caCert)
	if err != nil {
		return nil, fmt.Errorf("--ca-cert: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-cert %s: no certificate in it; want PEM", o.caCert)
	}
	return cfg, nil
}

// secretHeaders are the user's headers and the bearer key. Their values never reach a result or the terminal.
func (o *options) secretHeaders() ([]http1.Header, error) {
	var headers []http1.Header
	own := []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "X-Request-Id", "Accept", "User-Agent"}
	authorized := false
	for _, text := range o.headers {
		name, value, ok := strings.Cut(text, ":")
		h := http1.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if !ok {
			return nil, errors.New("--header: one has no colon; want NAME: VALUE")
		}
		if err := h.Validate(); err != nil {
			return nil, fmt.Errorf("--header %s: %w", h.Name, err)
		}
		if slices.ContainsFunc(own, func(name string) bool { return strings.EqualFold(name, h.Name) }) {
			return nil, fmt.Errorf("--header %s: fastreplay sets this header itself", h.Name)
		}
		authorized = authorized || strings.EqualFold(h.Name, "Authorization") || strings.EqualFold(h.Name, "x-api-key")
		headers = append(headers, h)
	}
	h, err := o.keyHeader()
	if err != nil || h.Value == "" || authorized {
		return headers, err
	}
	if err := h.Validate(); err != nil {
		return nil, fmt.Errorf("the API key has a character that no header may carry")
	}
	return append(headers, h), nil
}

// keyHeader carries the key: one from a flag as a bearer token, one from the environment as its owner wants it.
func (o *options) keyHeader() (http1.Header, error) {
	bearer := http1.Header{Name: "Authorization"}
	key, err := o.key, error(nil)
	if key == "" {
		key, err = readKey(o.apiKeyFile)
	}
	if err != nil {
		return bearer, err
	}
	if key == "" && len(o.urls) > 0 { // the embedded mock needs none
		own := o.traits.Key
		if key = strings.TrimSpace(os.Getenv(own.Env)); key != "" {
			return http1.Header{Name: own.Header, Value: key}, nil
		}
		key = strings.TrimSpace(os.Getenv("OPENAI_API_KEY"))
	}
	if key != "" {
		bearer.Value = "Bearer " + key
	}
	return bearer, nil
}

// readKey is the key in the file of --api-key-file; "" where none is given.
func readKey(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("--api-key-file %s: the file is empty", file)
	}
	return key, nil
}
