package mockllm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// Limits that no flag changes.
const (
	// MaxBodyBytes bounds a request body: eight times the largest prompt of the public traces (16 MB as ids).
	MaxBodyBytes = 128 << 20
	// maxOutputTokens bounds max_tokens, so that a typing mistake does not make an endless stream.
	maxOutputTokens = fault.MaxTokens
	// defaultMaxTokens is what the OpenAI completions protocol gives a request that names no max_tokens.
	defaultMaxTokens = 16
	// defaultModel is the served model's name where none is configured.
	defaultModel = "mock"
)

// Config is how a Server behaves. Its zero value is an instant server without a prefix cache that accepts any model.
type Config struct {
	// Model is the served model's name; a request for another is refused with 404. "" accepts all.
	Model string
	// MaxModelTokens refuses prompts that leave no room for their output. 0 = no limit.
	MaxModelTokens int

	// TTFT is the time from a request's start to its first token. The start is when its last byte was read, or when it
	// got a slot. PrefillPerToken is added for each prompt token that is not cached.
	TTFT, PrefillPerToken time.Duration
	// ITL is the time from one token to the next; a chunk of several tokens comes after as many times ITL.
	ITL time.Duration
	// Spread draws each latency uniformly from [1-Spread, 1+Spread] times its value. 0 <= Spread <= 1.
	Spread float64
	// Seed of every draw. A request's draws depend on the seed and its X-Request-Id (or its number, where it has none).
	Seed uint64

	// Slots is how many requests run at once; more wait in order of arrival. 0 = no limit.
	Slots int
	// MaxQueue is how many may wait; more are refused with 503. 0 = no limit.
	MaxQueue int
	// Priorities lets those that wait begin in the order of their `priority`, the least first, as vLLM's policy of that
	// name does. Without one it is 0.
	Priorities bool

	// Adapters is how many LoRA adapters there are beside the model, lora-1, lora-2, …; another model is refused then.
	Adapters int
	// AdapterSlots is how many of them are loaded at a time; one that is not used makes room for another. 0 = all.
	AdapterSlots int
	// AdapterLoad is how long it takes to load one, which is added to TTFT.
	AdapterLoad time.Duration

	// PrefillInstances is how many instances take turns to prefill for this one, which decodes. Answers name both, as
	// AIBrix's gateway and Dynamo's frontend do. 0 = this one prefills, and nothing is named.
	PrefillInstances int
	// KVTransfer comes between the first token and the second, times the number of the instance that prefilled.
	KVTransfer time.Duration

	// CacheTokens is the size of the prefix cache, rounded down to whole blocks. As in an engine, it is all the room
	// there is: running requests hold blocks for their prompt and output. A request that finds too few free blocks
	// waits. 0 = no cache and no such limit, negative = a cache without a limit.
	CacheTokens int64
	// HostTokens is the size of a second tier of the cache, rounded down to whole blocks. It keeps what was computed,
	// the latest used blocks first, and a request finds there what the first tier no longer has. 0 = none.
	HostTokens int64
	// HostLoadPerToken is added to TTFT for each prompt token that comes from there.
	HostLoadPerToken time.Duration
	// BlockTokens is the size of its blocks. 0 = DefaultBlockTokens.
	BlockTokens int

	// TemplateHead and TemplateTail are the tokens that the chat template adds before and after the text.
	TemplateHead, TemplateTail int
	// TemplateJitter bounds the further tokens that the chat template adds before its tail. They are one more with each
	// request, and then none again. 0 = a constant template.
	TemplateJitter int
	// SplitWords makes two tokens of each word that has more letters. 0 = no word is too long.
	SplitWords int
	// BOSTokens is added before text prompts that are no conversations (never before token ids).
	BOSTokens int

	// MeanOutput is the mean output length, in tokens, of requests that neither force it nor reach max_tokens first.
	// 0 = always max_tokens.
	MeanOutput int
	// TokensPerChunk puts several tokens into each chunk. 0 = 1.
	TokensPerChunk int
	// EmptyChunks is the share of token chunks whose text is empty (special tokens, halves of characters). 0..1.
	EmptyChunks float64
	// ReasoningTokens of each answer come as reasoning before the content, the last ToolTokens as arguments of a tool
	// call after it. Only chat, responses and messages have such things.
	ReasoningTokens, ToolTokens int
	// Headers are sent with every response, each "Name: value".
	Headers []string
	// BodyFields are in every object that is generated, each "path=value" such as "nvext.worker_id=1". A value that is
	// JSON is sent as such, others are strings.
	BodyFields []string
	// Instance is the server's number among many. It replaces "{instance}" in Headers and BodyFields.
	Instance int
	// APIKey is asked for as a bearer token or in x-api-key. "" = none.
	APIKey string

	// KeepAlive closes a connection that has been idle for so long after a response. 0 = never. vLLM's server: 5 s.
	KeepAlive time.Duration
	// Faults that every request risks, in order; the first that is due happens.
	Faults []fault.Fault

	// What Quirks describes.
	IgnoreSalt, NoFlush, NoCachedTokens, OmitZeroCached, NoMetrics, NoTokenize, NoHeaderFaults, NoTraceReplay bool
	FinishChunk, Incremental, LateHead, Coalesce, CRLF, Comments, Stamp, Gzip, RefuseExtras                   bool

	// Log gets a JSON line for each generation request. It is written by one goroutine and flushed several times a
	// second.
	Log io.Writer
	// LogAll adds the instant of each token, the request's body and its X- headers to its line, and stamps a request's
	// first byte alone.
	LogAll bool
	// TLS serves https. nil = http.
	TLS *tls.Config
	// Pacers is the number of goroutines that write events. 0 = half the processors, at least 1, at most 8.
	Pacers int
}

// quirk is a field of Config that is yes or no, by the name that people know it by.
type quirk struct {
	name, does string
	field      *bool
}

func (c *Config) quirks() []quirk {
	return []quirk{
		{"ignore-salt", "the prefix cache ignores cache_salt", &c.IgnoreSalt},
		{"no-flush", "/reset_prefix_cache and /flush_cache answer 404", &c.NoFlush},
		{"no-cached-tokens", "the usage has no number of cached tokens", &c.NoCachedTokens},
		{"omit-zero-cached", "the usage has no number of cached tokens if it is 0, as vLLM's may", &c.OmitZeroCached},
		{"no-metrics", "/metrics answers 404", &c.NoMetrics},
		{"no-tokenize", "/tokenize answers 404", &c.NoTokenize},
		{"finish-chunk", "completions and chat send the finish reason in a chunk of its own, without text",
			&c.FinishChunk},
		{"incremental", "events of SGLang's /generate carry only new text, not all text so far (it can do both)",
			&c.Incremental},
		{"late-head", "the response head comes with the first chunk; vLLM's comes when the request has arrived",
			&c.LateHead},
		{"coalesce", "events that are due at the same time share one write", &c.Coalesce},
		{"crlf", "lines of the event stream end with CR LF", &c.CRLF},
		{"comments", "a comment line comes before each event", &c.Comments},
		{"stamp", `each chunk has "sent_ns", CLOCK_MONOTONIC in ns, read just before its write`, &c.Stamp},
		{"gzip", "responses are compressed for clients that accept it", &c.Gzip},
		{
			"refuse-extras",
			"requests with min_tokens, ignore_eos, cache_salt or token ids, which OpenAI lacks, get a 400",
			&c.RefuseExtras,
		},
		{"no-header-faults", "X-Mock-Fault is ignored", &c.NoHeaderFaults},
		{
			"no-trace-replay",
			"/inference/v1/generate refuses trace_decode_token_ids, as vLLM does without --enable-trace-replay",
			&c.NoTraceReplay,
		},
	}
}

// Quirk turns a quirk on by its name.
func (c *Config) Quirk(name string) error {
	var known []string
	for _, q := range c.quirks() {
		if q.name == name {
			*q.field = true
			return nil
		}
		known = append(known, q.name)
	}
	return fmt.Errorf("no quirk %q; known are %s", name, strings.Join(known, ", "))
}

// Quirks yields the names of the quirks, and what each does.
func Quirks(yield func(name, does string) bool) {
	for _, q := range new(Config).quirks() {
		if !yield(q.name, q.does) {
			return
		}
	}
}

// maxPacers: one pacer writes well over 100,000 events/s, and clients need processors too.
const maxPacers = 8

// Validate reports everything that makes no sense in c.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, v := range []struct {
		name  string
		value int
	}{
		{"slots", c.Slots}, {"queue", c.MaxQueue}, {"block tokens", c.BlockTokens}, {"model length", c.MaxModelTokens},
		{"template head", c.TemplateHead}, {"template tail", c.TemplateTail}, {"template jitter", c.TemplateJitter},
		{"BOS tokens", c.BOSTokens}, {"split words", c.SplitWords}, {"mean output", c.MeanOutput},
		{"tokens per chunk", c.TokensPerChunk}, {"reasoning tokens", c.ReasoningTokens}, {"tool tokens", c.ToolTokens},
		{"pacers", c.Pacers}, {"instance", c.Instance}, {"adapters", c.Adapters}, {"adapter slots", c.AdapterSlots},
	} {
		check(v.value >= 0, "%s %d: must not be negative", v.name, v.value)
	}
	check(
		min(c.TTFT, c.ITL, c.PrefillPerToken, c.HostLoadPerToken, c.AdapterLoad, c.KVTransfer, c.KeepAlive) >= 0,
		"latencies must not be negative: ttft %v, itl %v, prefill per token %v, load per token %v, of an adapter %v, "+
			"keep-alive %v",
		c.TTFT,
		c.ITL,
		c.PrefillPerToken,
		c.HostLoadPerToken,
		c.AdapterLoad,
		c.KeepAlive,
	)
	check(c.Spread >= 0 && c.Spread <= 1, "spread %v: must be between 0 and 1", c.Spread)
	check(c.EmptyChunks >= 0 && c.EmptyChunks <= 1, "empty chunks %v: must be between 0 and 1", c.EmptyChunks)
	check(
		c.MaxQueue == 0 || c.Slots > 0 || c.CacheTokens > 0,
		"a queue of %d needs a number of slots or a limited cache",
		c.MaxQueue,
	)
	block := int64(c.withDefaults().BlockTokens)
	check(
		c.CacheTokens <= 0 || c.CacheTokens >= block,
		"cache of %d tokens: must hold at least one block of %d",
		c.CacheTokens,
		block,
	)
	check(c.HostTokens == 0 || c.HostTokens >= block, "second tier of %d tokens: must hold at least one block of %d",
		c.HostTokens, block)
	for _, h := range c.Headers {
		name, value, ok := strings.Cut(h, ":")
		check(
			ok && name != "" && !strings.ContainsAny(name, " \t\r\n") && !strings.ContainsAny(value, "\r\n"),
			"header %q: must be NAME: VALUE",
			h,
		)
	}
	if _, err := renderFields(c.BodyFields); err != nil {
		errs = append(errs, err)
	}
	for _, f := range c.Faults {
		if err := f.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its zero values filled in.
func (c Config) withDefaults() Config {
	if c.TokensPerChunk == 0 {
		c.TokensPerChunk = 1
	}
	if c.BlockTokens == 0 {
		c.BlockTokens = DefaultBlockTokens
	}
	if c.Pacers == 0 {
		c.Pacers = min(max(runtime.NumCPU()/2, 1), maxPacers)
	}
	c.Headers, c.BodyFields = slices.Clone(c.Headers), slices.Clone(c.BodyFields)
	for _, list := range [][]string{c.Headers, c.BodyFields} {
		for i, line := range list {
			list[i] = strings.ReplaceAll(line, instancePlaceholder, strconv.Itoa(c.Instance))
		}
	}
	return c
}

// contextTokens is the most tokens, prompt and output together, that a request may have; 0 = no limit. An engine's
// context never exceeds its cache.
func (c *Config) contextTokens() int64 {
	limit := int64(c.MaxModelTokens)
	if c.CacheTokens > 0 {
		if room := c.CacheTokens - c.CacheTokens%int64(c.BlockTokens); limit == 0 || room < limit {
			limit = room
		}
	}
	return limit
}

// instancePlaceholder stands for Config.Instance in headers and body fields.
const instancePlaceholder = "{instance}"

// renderFields makes the members that "a.b=value" lines ask for, each with its comma before it.
func renderFields(lines []string) ([]byte, error) {
	root := map[string]any{}
	for _, line := range lines {
		path, value, ok := strings.Cut(line, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("body field %q: must be PATH=VALUE, such as nvext.worker_id=1", line)
		}
		if err := setField(root, strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("body field %q: %w", line, err)
		}
	}
	if len(root) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("body fields: %w", err)
	}
	b[0] = ',' // in place of the object's brace
	return b[:len(b)-1], nil
}

// setField sets a member of an object or of one inside it. A value that is JSON is taken as JSON, any other is a
// string.
func setField(object map[string]any, path []string, value string) error {
	name := path[0]
	if len(path) > 1 {
		inner, ok := object[name].(map[string]any)
		if !ok && object[name] != nil {
			return fmt.Errorf("%s has a value already", name)
		}
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		return setField(inner, path[1:], value)
	}
	if object[name] != nil {
		return fmt.Errorf("%s is given twice", name)
	}
	if json.Valid([]byte(value)) {
		object[name] = json.RawMessage(value)
	} else {
		object[name] = value
	}
	return nil
}

// selfSignedFor is how long a self-signed certificate is valid; a mock does not live longer.
const selfSignedFor = 7 * 24 * time.Hour

// SelfSigned makes a certificate for this machine's loopback names and host (a name, an address, or ""). It returns the
// configuration of a server that speaks HTTP/1.1 with it, and the certificate as PEM, for clients to trust.
func SelfSigned(host string) (server *tls.Config, certificate []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("mockllm: making a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "mockllm"},
		NotBefore:             now.Add(-time.Hour), // clocks differ
		NotAfter:              now.Add(selfSignedFor),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("mockllm: signing the certificate: %w", err)
	}
	server = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
