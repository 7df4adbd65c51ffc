package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// body is what the OpenAI family has in common. Of a request it keeps a body with holes: prefix, prompt, afterPrompt [, max tokens [, beforeMin, the same again]], tail.
type body struct {
	prefix      []byte
	afterPrompt []byte // up to the number of max_tokens, or up to the tail where the user set that key
	beforeMin   []byte // between the numbers of max_tokens and min_tokens
	tail        []byte // the rest, with the salt last
	maxTokens   bool   // write max_tokens
	minTokens   bool   // write min_tokens
	saltBytes   int
}

// saltEnd is what follows the salt in a body.
const saltEnd = `"}`

func newBody(o Options, open, end string) (body, error) {
	extra, err := parseObject(o.Extra)
	if err != nil {
		return body{}, fmt.Errorf("extra inputs: %w", err)
	}
	if err := checkSalt(o.CacheSalt); err != nil {
		return body{}, err
	}
	ours := func(key string) bool { return extra.find(key) < 0 }
	var b body
	b.prefix = append(b.prefix, '{')
	if o.Model != "" && ours("model") {
		b.prefix = append(appendString(append(b.prefix, `"model":`...), o.Model), ',')
	}
	b.prefix = append(b.prefix, open...)
	b.afterPrompt = []byte(end)
	if b.maxTokens = ours("max_tokens"); b.maxTokens {
		b.afterPrompt = append(b.afterPrompt, `,"max_tokens":`...)
	}
	if b.minTokens = o.ForceOutput && ours("min_tokens"); b.minTokens {
		b.beforeMin = []byte(`,"min_tokens":`)
	}
	if o.ForceOutput && ours("ignore_eos") {
		b.tail = append(b.tail, `,"ignore_eos":true`...)
	}
	if o.Stream {
		b.tail = append(b.tail, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	for _, m := range extra {
		b.tail = append(appendString(append(b.tail, ','), m.key), ':')
		b.tail = append(b.tail, m.value...)
	}
	if o.CacheSalt != "" && ours("cache_salt") {
		b.saltBytes = len(o.CacheSalt)
		b.tail = append(b.tail, `,"cache_salt":"`...)
		b.tail = append(append(b.tail, o.CacheSalt...), saltEnd...)
	} else {
		b.tail = append(b.tail, '}')
	}
	return b, nil
}

func (b *body) AppendPrefix(dst []byte) []byte { return append(dst, b.prefix...) }

func (b *body) AppendSuffix(dst []byte, outputTokens int) []byte {
	dst = append(dst, b.afterPrompt...)
	if b.maxTokens {
		dst = strconv.AppendInt(dst, int64(outputTokens), 10)
	}
	if b.minTokens {
		dst = append(dst, b.beforeMin...)
		dst = strconv.AppendInt(dst, int64(outputTokens), 10)
	}
	return append(dst, b.tail...)
}

func (b *body) Size(promptBytes, outputTokens int) int {
	var buf [20]byte
	digits := len(strconv.AppendInt(buf[:0], int64(outputTokens), 10))
	size := len(b.prefix) + promptBytes + len(b.afterPrompt) + len(b.beforeMin) + len(b.tail)
	if b.maxTokens {
		size += digits
	}
	if b.minTokens {
		size += digits
	}
	return size
}

func (b *body) SaltSpan(body []byte) (from, to int) {
	if b.saltBytes == 0 || len(body) < b.saltBytes+len(saltEnd) {
		return 0, 0
	}
	to = len(body) - len(saltEnd)
	return to - b.saltBytes, to
}

// ParseEvent reads an event of the OpenAI family.
func (*body) ParseEvent(data []byte, d *Delta) error { return parseEvent(data, d) }

// ParseBody reads an answer or an error of the OpenAI family.
func (*body) ParseBody(answer []byte, d *Delta) error { return parseBody(answer, d) }

// checkSalt keeps the salt free of anything that JSON would escape, so that its length is that of its bytes.
func checkSalt(salt string) error {
	for _, c := range []byte(salt) {
		ok := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
		if !ok {
			return fmt.Errorf("cache salt %q: use letters, digits, - and _ only", salt)
		}
	}
	return nil
}

// appendString appends a JSON string; it keeps <, > and & as they are.
func appendString(dst []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: api: a string that has no JSON: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
