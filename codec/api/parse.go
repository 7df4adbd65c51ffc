package api

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/json"
)

// dialect is how answers are to be read.
type dialect uint8

const (
	choices dialect = iota // completions and chat
	responsesEvents
	embeddingsAnswer
	messagesEvents
	tgiEvents
	sglangEvents
	tokenEvents
	tritonEvents
	anything // raw's
	freely   // what raw makes of JSON: choices, but a detail is an answer like any other
)

// parseEvent reads the data of one server-sent event.
func parseEvent(data []byte, d *Delta, reads dialect) error {
	if reads == anything {
		anyEvent(data, d)
		return nil
	}
	if text, ok := d.last.matches(data); ok {
		d.last.tell(text, d)
		return nil
	}
	if len(data) < len(`{"object":"error"}`) {
		switch trimmed := bytes.TrimSpace(data); {
		case len(trimmed) == 0:
			d.Reset()
			return nil
		case string(trimmed) == "[DONE]":
			d.Reset()
			d.Done = true
			return nil
		}
	}
	p := parser{Scanner: scan(data), d: d}
	p.Skipped = d.last.skipped[:0]
	err := p.parse(reads)
	if err == nil && d.plain() {
		d.last.remember(&p)
	}
	return err
}

// parseBody reads one whole answer or error object.
func parseBody(body []byte, d *Delta, reads dialect) error {
	if reads == anything {
		anyBody(body, d)
		return nil
	}
	p := parser{Scanner: scan(body), d: d}
	return p.parse(reads)
}

// MaxDepth bounds the nesting of a document. Chunks nest six deep; json.Valid allows 10,000.
const MaxDepth = 256

// ErrBadJSON is wrapped by every error about an event or body.
var ErrBadJSON = errors.New("malformed JSON")

func scan(data []byte) json.Scanner { return json.Scanner{Data: data, MaxDepth: MaxDepth} }

// finish checks that nothing follows the document, and returns the error if there was one.
func (p *parser) finish() error {
	p.End("bytes after the document")
	if err := p.Err(); err != nil {
		return fmt.Errorf("%w %w", ErrBadJSON, err)
	}
	return nil
}

// parser fills a Delta from one document. Values of a type that nobody expects count as absent.
type parser struct {
	json.Scanner
	d        *Delta
	answered bool   // there is an answer, or a part of it
	message  []byte // of the top level: vLLM's errors have it there
	detail   []byte // FastAPI's errors
	failed   bool   // the document calls itself an error

	text  json.Span // the last text that was not empty, with its quotes; empty where it was no single string
	model json.Span // d.Model, in Data
}

func (p *parser) parse(reads dialect) error {
	p.d.Reset()
	if p.Peek() != '{' {
		p.Fail("no object")
		return p.finish()
	}
	switch reads { // not by a table, which would make the parser escape to the heap
	case choices, tokenEvents:
		p.choicesDocument(reads == tokenEvents)
	case freely:
		p.answered = true
		p.choicesDocument(false)
	case responsesEvents:
		p.responsesDocument()
	case embeddingsAnswer:
		p.embeddingsDocument()
	case messagesEvents:
		p.messagesDocument()
	case tgiEvents:
		p.tgiDocument()
	case sglangEvents:
		p.sglangDocument()
	case tritonEvents:
		p.tritonDocument()
	}
	p.weighError()
	return p.finish()
}

// choicesDocument reads an event or a whole answer of completions and chat, or of an API whose tokens are ids. The
// tokens of an event are then its ids. Where the server counts them beside, as it does at the end, its count is the one
// that holds.
func (p *parser) choicesDocument(ids bool) {
	for key := range p.Keys() {
		switch string(key) {
		case "choices":
			p.answered = true
			for range p.Elements() {
				p.choice(ids)
			}
		case "usage":
			p.usage()
		case "sglext":
			p.sglext()
		default:
			p.common(key)
		}
	}
	if p.d.CompletionTokens >= 0 {
		p.d.MoreTokens = -1
	}
}

// common reads the members in which any server reports errors.
func (p *parser) common(key []byte) {
	switch string(key) {
	case "error":
		p.errorValue()
	case "object":
		object, _, _ := p.Text()
		p.failed = string(object) == "error"
	case "message":
		p.message, _, _ = p.Text()
	case "detail":
		p.detail = p.value()
	case "model":
		p.d.Model, _, _ = p.Text()
		p.model = json.Span{From: uint32(p.At - 1 - len(p.d.Model)), To: uint32(p.At - 1)}
	case "nvext":
		p.worker()
	}
}

// worker reads which worker answered, and which prefilled, from an answer of NVIDIA's Dynamo. Dynamo reports them if a
// request has "nvext":{"extra_fields":["worker_id"]} (lib/llm of ai-dynamo/dynamo, WorkerIdInfo).
func (p *parser) worker() {
	for range p.Only("worker_id") {
		if p.Peek() == '{' {
			p.workers()
		} else {
			p.d.Instance = p.Scalar()
		}
	}
}

// workers reads the ids of the workers of each phase.
func (p *parser) workers() {
	for key := range p.Keys() {
		switch string(key) {
		case "prefill_worker_id":
			p.d.Prefill = p.Scalar()
		case "decode_worker_id":
			p.d.Instance = p.Scalar()
		}
	}
}

// weighError looks at what only together makes an error.
func (p *parser) weighError() {
	d := p.d
	switch {
	case d.IsError: // {"error":…}
		if string(d.Error) == "true" && len(p.message) > 0 {
			d.Error = p.message
		}
	case p.failed: // vLLM: {"object":"error","message":…}
		p.reject(p.message)
	case !p.answered && len(p.detail) > 0: // FastAPI: {"detail":…}
		p.reject(p.detail)
	}
	if d.EmptyFinish && d.Token {
		d.EmptyFinish = false
	}
}

// reject notes that the server reports an error.
func (p *parser) reject(message []byte) {
	p.d.IsError = true
	p.d.Error = message
}

// value passes over the next value and returns it, a string without its quotes; nil for null, false and "".
func (p *parser) value() []byte {
	kind := p.Peek()
	start := p.At
	skipped := len(p.Skipped)
	p.Skip()
	p.Skipped = p.Skipped[:skipped]
	raw := p.Data[start:min(p.At, len(p.Data))]
	switch {
	case p.Failed() || kind == 'n' || kind == 'f':
		return nil
	case kind == '"':
		raw = raw[1 : len(raw)-1]
	}
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// errorValue reads {"error":"…"} and {"error":{"message":"…"}}.
func (p *parser) errorValue() {
	if p.Peek() != '{' {
		if raw := p.value(); raw != nil {
			p.reject(raw)
		}
		return
	}
	start := p.At
	var message []byte
	for range p.Only("message") {
		message, _, _ = p.Text()
	}
	if len(message) == 0 {
		message = p.Data[start:p.At]
	}
	p.reject(message)
}

// usage reads the counts. DeepSeek has a key of its own for cached tokens; OpenAI's wins.
func (p *parser) usage() {
	hit := -1
	for key := range p.Keys() {
		switch string(key) {
		case "prompt_tokens":
			p.d.PromptTokens = p.Count()
		case "completion_tokens":
			p.d.CompletionTokens = p.Count()
		case "prompt_tokens_details":
			p.promptDetails()
		case "completion_tokens_details":
			p.outputDetails()
		case "prompt_cache_hit_tokens":
			hit = p.Count()
		}
	}
	if p.d.CachedTokens < 0 {
		p.d.CachedTokens = hit
	}
}

func (p *parser) promptDetails() {
	for key := range p.Keys() {
		switch string(key) {
		case "cached_tokens":
			p.d.CachedTokens = p.Count()
		case "local_cached_tokens": // vLLM: vllm/entrypoints/generate/base/protocol.py
			p.d.Tiers.Device = p.Count()
		case "external_cached_tokens":
			p.d.Tiers.External = p.Count()
		}
	}
}

func (p *parser) outputDetails() {
	for range p.Only("reasoning_tokens") {
		p.d.ReasoningTokens = p.Count()
	}
}

// sglext reads SGLang's extension of an answer, or of one of its choices, which a request asks for by
// return_cached_tokens_details (sgl-project/sglang pull request 17648).
func (p *parser) sglext() {
	for range p.Only("cached_tokens_details") {
		p.cachedDetails()
	}
}

// cachedDetails reads SGLang's tokens by tier.
func (p *parser) cachedDetails() {
	for key := range p.Keys() {
		switch string(key) {
		case "device":
			p.d.Tiers.Device = p.Count()
		case "host":
			p.d.Tiers.Host = p.Count()
		case "storage":
			p.d.Tiers.External = p.Count()
		}
	}
}

// raw posts payloads as they are, to a path that the user names, and takes any answer.
func raw() kind {
	return kind{
		name:   "raw",
		reads:  anything,
		traits: Traits{Generates: true, Streams: true, Stateful: true},
	}
}

// anyEvent takes an event of any form as a token chunk, unless it is known to be something else.
func anyEvent(data []byte, d *Delta) {
	err := parseEvent(data, d, freely)
	if len(data) == 0 || d.Done {
		return
	}
	if err != nil {
		d.Reset()
	}
	if err != nil || !d.Token && !d.EmptyFinish && d.Finish == "" && !d.HasUsage() && !d.IsError {
		d.Token = true
		d.Text = true
	}
}

// anyBody reads an answer as OpenAI's if it can, and else as one piece of text.
func anyBody(body []byte, d *Delta) {
	if parseBody(body, d, freely) != nil {
		d.Reset()
	}
	d.Token = !d.IsError
	d.Text = !d.IsError
}

// Field returns the scalar at a path of keys in a JSON document: a string without its quotes, or a number. It is nil if
// there is neither. It aliases data and allocates nothing.
func Field(data []byte, path []string) (value []byte) {
	s := scan(data)
	if s.Peek() != '{' {
		return nil
	}
	value = s.Field(path)
	s.End("text after the object")
	if s.Failed() {
		return nil
	}
	return value
}

// Choices returns how many answers a body asks for, by n or by the candidates of best_of; 1 if it has neither.
func Choices(body []byte) int {
	most := 1
	if len(body) == 0 {
		return most
	}
	for _, path := range [][]string{{"n"}, {"best_of"}, {"sampling_params", "n"}, {"parameters", "best_of"}} {
		field := Field(body, path)
		if len(field) == 0 {
			continue // without an error, which takes memory
		}
		if n, err := strconv.Atoi(string(field)); err == nil {
			most = max(most, n)
		}
	}
	return most
}
