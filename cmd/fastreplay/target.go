package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// target is where requests go and what is in them besides what the trace says. Nobody has been asked yet.
type target struct {
	source    prompt.Source
	tokenizer *tokenizer.Tokenizer // nil if none was given
	secrets   []http1.Header
	prober    *probe.Prober
	mock      *embeddedMock // nil if servers are named
}

// findTarget finds out where the requests of a load go, with what credentials, and what their prompts are made of. Without --url it
// starts the mock; call close even after an error.
func findTarget(ctx context.Context, o *options, l *load, ui *terminal) (*target, error) {
	t := &target{}
	for _, place := range append([]string{o.endpoint}, o.urls...) { // a path may name the model, as Triton's do
		o.model = cmp.Or(o.model, api.ModelAt(place))
	}
	backend, err := o.backend(o.model, "", !o.noStream)
	if err != nil {
		return t, err
	}
	if err := t.makeSource(ctx, o, ui); err != nil {
		return t, err
	}
	if l.Targets, err = t.resolve(ctx, o, backend.Path(), ui); err != nil {
		return t, err
	}
	trust, err := o.tlsConfig()
	if err != nil {
		return t, err
	}
	if t.secrets, err = o.secretHeaders(); err == nil {
		err = o.checkMasked(t.secrets)
	}
	if err != nil {
		return t, err
	}
	timeout := min(probeTimeout, o.timeout)
	if o.given("timeout") {
		timeout = o.timeout
	}
	var queries []string // hidden, like the user's headers, in all that servers say
	for _, target := range l.Targets {
		queries = append(queries, target.Query)
	}
	for _, url := range o.scrape.urls {
		_, query, _ := strings.Cut(url, "?")
		queries = append(queries, query)
	}
	t.prober = &probe.Prober{
		Targets: l.Targets, TLS: trust, ConnectTimeout: o.connectTimeout, Timeout: timeout, Waiting: ui.waiting,
		Headers: t.headers(o, backend, l.verbatims.shaped()), Secrets: o.redactor(t.secrets, queries...), Tokenizer: o.tokenizer, Nonce: rand.Uint64() >> 1,
	}
	if o.dryRun {
		ui.line("dry run: no server is asked and nothing is sent")
		return t, nil
	}
	where := strings.Join(l.URLs(), ", ")
	ui.detail("target: POST %s at %s", l.Targets[0].Path, where)
	for _, h := range t.secrets {
		ui.line("        sending the header %s to %s", h.Name, where)
	}
	return t, nil
}

// redactor hides headers, URLs' queries, and the extra inputs that are keys by their names, such as LiteLLM's api_key.
func (o *options) redactor(headers []http1.Header, queries ...string) *redact.Redactor {
	headers = slices.Clone(headers)
	var extra map[string]any
	_ = json.Unmarshal(o.extra, &extra) // "" is none
	for name, value := range extra {
		if text, ok := value.(string); ok && redact.IsKey(name) {
			headers = append(headers, http1.Header{Name: name, Value: text})
		}
	}
	return redact.NewRedactor(headers, queries...)
}

// close ends the mock, if there is one.
func (t *target) close() {
	if t.mock != nil {
		t.mock.stop()
	}
}

// resolve returns the servers that were named, with their addresses; path is where the API posts to.
func (t *target) resolve(ctx context.Context, o *options, path string, ui *terminal) ([]workload.Target, error) {
	urls, err := o.urls, error(nil)
	switch {
	case len(urls) > 0:
	case o.dryRun:
		urls = []string{"127.0.0.1:8000"}
	default:
		if t.mock, err = startMock(ctx); err != nil {
			return nil, err
		}
		if !o.demo { // which says it first
			ui.line("no --url: a demo, against the embedded mock, %s, in a process of its own", t.mock.url)
		}
		urls = []string{t.mock.url}
	}
	targets := make([]workload.Target, len(urls))
	for i, url := range urls {
		if targets[i], err = workload.ParseTarget(url, path); err != nil {
			return nil, err
		}
		targets[i].PostTo(o.endpoint)
		if targets[i].Path == "" {
			return nil, fmt.Errorf("--api %s: %s has no path to post to; give --endpoint PATH, or a URL with a path", o.api, targets[i].URL)
		}
	}
	return targets, probe.Resolve(ctx, targets)
}

// probeTimeout bounds one answer to a probe where --timeout is not given: a cold server may load its graphs first.
const probeTimeout = 2 * time.Minute

// headers are those of every request: ours, the user's own and credentials. If shaped, a row may ask for a stream or not.
func (t *target) headers(o *options, backend api.Backend, shaped bool) []http1.Header {
	accept := "text/event-stream"
	switch {
	case shaped:
		accept = "text/event-stream, application/json"
	case o.noStream:
		accept = "application/json"
	}
	headers := []http1.Header{
		{Name: "User-Agent", Value: "fastreplay/" + buildVersion()}, {Name: "Accept", Value: accept}, {Name: "Content-Type", Value: "application/json"},
	}
	for _, h := range backend.Headers() {
		headers = append(headers, http1.Header(h))
	}
	return append(headers, t.secrets...)
}

// backend makes the bodies of this run.
func (o *options) backend(model, salt string, stream bool) (api.Backend, error) {
	return o.tellingBackend(model, salt, stream, false)
}

// tellingBackend makes bodies that tell the server its answer, if tells.
func (o *options) tellingBackend(model, salt string, stream, tells bool) (api.Backend, error) {
	return api.New(o.api, api.Options{
		Model: model, Stream: stream, ForceOutput: !o.noForceOutput, Extra: o.extra, CacheSalt: salt, TokenIDs: o.prompt == promptTokenIDs, Answers: tells,
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
		name, value, _ := strings.Cut(text, ":")
		h := http1.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
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

// readKey returns the key in the file of --api-key-file; "" where none is given.
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

// The values of --route.
const (
	routeRoundRobin    = "round-robin"
	routeRandom        = "random"
	routeLeastInFlight = "least-inflight"
	routeSession       = "session"
	routePrefix        = "prefix"
)

func routes() []string {
	return []string{routeRoundRobin, routeRandom, routeLeastInFlight, routeSession, routePrefix}
}

// checkRoute refuses what no router can mean.
func (o *options) checkRoute() error {
	switch {
	case o.loadBound != 0 && !(o.loadBound >= 1) || math.IsInf(o.loadBound, 0):
		return fmt.Errorf("--load-bound %v: want at least 1, such as %v, or 0 for none", o.loadBound, route.DefaultBound)
	case o.given("load-bound") && o.route != routePrefix:
		return fmt.Errorf("--load-bound is about --route %s", routePrefix)
	case o.route == routeLeastInFlight && o.sessions.past == historyLive:
		return fmt.Errorf("--route %s with --history %s: a body that is made of answers is made for the server that it goes to; use another router", o.route, historyLive)
	}
	return nil
}

// readTargets adds the servers that a file names to those of --url, with their weights.
func (o *options) readTargets() error {
	o.weights = slices.Repeat([]float64{1}, len(o.urls))
	if o.targetsFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.targetsFile)
	if err != nil {
		return fmt.Errorf("--targets: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		weight := 1.0
		if len(fields) > 1 {
			weight, err = strconv.ParseFloat(fields[1], 64)
		}
		if err != nil || len(fields) > 2 || !(weight > 0) || math.IsInf(weight, 0) {
			return fmt.Errorf("--targets %s:%d: want a URL and perhaps a weight above 0 on each line", o.targetsFile, number)
		}
		o.urls, o.weights = append(o.urls, fields[0]), append(o.weights, weight)
	}
	if len(o.urls) == 0 {
		return fmt.Errorf("--targets %s: no server in it; want a URL on each line", o.targetsFile)
	}
	return nil
}

// route decides which instance gets which request.
func (b *built) route() error {
	targets := make([]route.Target, len(b.Targets))
	for i, t := range b.Targets {
		targets[i] = route.Target{Endpoints: len(t.Endpoints), Weight: 1}
		if i < len(b.o.weights) {
			targets[i].Weight = b.o.weights[i]
		}
	}
	b.Routing = workload.Routing{
		Targets: targets, Seed: b.o.seed, Bound: b.o.loadBound, Assumed: b.o.assumed, LeastInFlight: b.o.route == routeLeastInFlight,
	}
	n := b.Requests()
	switch b.o.route {
	case routePrefix:
		b.RouteByPrefix()
		b.noteIdle()
	case routeLeastInFlight:
		if err := b.CheckLeastInFlight(); err != nil {
			return fmt.Errorf("--route %s: %w", routeLeastInFlight, err)
		}
		b.Places = route.RoundRobin(n, targets)
	case routeRandom:
		b.Places = route.Random(n, targets, b.o.seed)
	case routeSession:
		b.Places = route.BySession(b.Trace.Session[:n], targets, b.o.seed)
	default:
		b.Places = route.RoundRobin(n, targets)
	}
	b.noteIncomparable()
	return nil
}

// noteIdle notes which servers the prefix-aware router leaves without a request. Where prompts begin alike, as few as fit within the
// bound do all the work.
func (b *built) noteIdle() {
	busy := make([]bool, len(b.Targets))
	for _, p := range b.Places {
		busy[p.Target] = true
	}
	var idle []string
	for i, t := range b.Targets {
		if !busy[i] {
			idle = append(idle, t.URL)
		}
	}
	if len(idle) > 0 && b.Requests() >= len(busy) {
		b.ui.note("--route %s gives no request to %d of %d targets: %s; fewer can do all the work (--load-bound 1 spreads it)", routePrefix, len(idle), len(busy), strings.Join(idle, ", "))
	}
}

// noteIncomparable notes why routers are not compared, or not exactly.
func (b *built) noteIncomparable() {
	sizes, servers := map[int]bool{}, 0
	for _, t := range b.Targets {
		for _, addr := range t.Endpoints {
			sizes[b.Caches[addr].BlockTokens] = true
			servers++
		}
	}
	switch {
	case servers < 2 || b.o.dryRun:
	case b.verbatims.all:
		b.ui.note("routers are not compared: only the servers can count the tokens that verbatim prompts share")
	case len(sizes) > 1:
		b.ui.note("routers are compared as if all servers had the blocks of the first")
	}
}

// makeSource decides what prompts are made of: the tokenizer's own tokens where one is given, else the built-in ones.
func (t *target) makeSource(ctx context.Context, o *options, ui *terminal) (err error) {
	if o.tokenizer == "" {
		if o.prompt == promptText {
			t.source, err = prompt.NewText(o.seed, prompt.BuiltIn())
		} else {
			t.source, err = prompt.NewTokenIDs(o.seed, prompt.BuiltInIDs())
		}
		return err
	}
	var vocabulary prompt.Vocabulary
	t.tokenizer, err = await(ctx, func() (*tokenizer.Tokenizer, error) {
		read, err := tokenizer.Open(o.tokenizer)
		if err == nil && o.prompt != promptTokenIDs {
			vocabulary.Words, vocabulary.First, err = read.Words()
		}
		return read, err
	})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", o.tokenizer, err)
	}
	if o.prompt == promptTokenIDs {
		ids := t.tokenizer.Ordinary()
		source, err := prompt.NewTokenIDs(o.seed, ids)
		if err != nil {
			return fmt.Errorf("--tokenizer %s: of its %s ids of ordinary text, %w; use --prompt text", t.tokenizer.Name(), format.Count(len(ids)), err)
		}
		t.source = source
		first, last := source.Range()
		ui.detail("tokenizer: %s, prompts of its ids from %d to %d", t.tokenizer.Name(), first, last)
		return nil
	}
	text, err := prompt.NewText(o.seed, vocabulary)
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", t.tokenizer.Name(), err)
	}
	t.source = text
	ui.detail("tokenizer: %s, prompts of %s that are single tokens of it in any company", t.tokenizer.Name(), format.Many(text.Words(), "word"))
	return nil
}
