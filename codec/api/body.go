package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// body is what the OpenAI family has in common. Of a request it keeps a body with holes: prefix, prompt, end, lengths, tail.
type body struct {
	prefix    []byte
	end       []byte // up to the lengths
	maxTokens bool   // write max_tokens
	minTokens bool   // write min_tokens
	ignoreEOS bool   // write ignore_eos
	tail      []byte // the rest, with the salt last
	salt      []byte // how a body with a salt ends
	saltBytes int
}

// frame is what stands around a prompt in a body.
type frame struct{ open, end string }

// What stands around the lengths in a body.
const (
	maxTokensLead = `,"max_tokens":`
	minTokensLead = `,"min_tokens":`
	ignoreEOSLead = `,"ignore_eos":true`
	saltLead      = `"cache_salt":"`
	saltEnd       = `"}`
)

func newBody(o Options, f frame) (body, error) {
	extra, err := parseOurs(o.Extra)
	if err != nil {
		return body{}, fmt.Errorf("extra inputs: %w", err)
	}
	if err := checkSalt(o.CacheSalt); err != nil {
		return body{}, err
	}
	if !o.Stream && extra.find("stream") >= 0 {
		return body{}, errors.New(`extra inputs: "stream" beside --no-stream: leave one of them out`)
	}
	return frameBody(o, f, extra), nil
}

// frameBody makes a body with extra members, which win over ours.
func frameBody(o Options, f frame, extra members) body {
	ours := func(key string) bool { return extra.find(key) < 0 }
	length := !extra.ownLength() // is ours to say
	b := body{
		prefix: []byte{'{'}, end: []byte(f.end), maxTokens: length,
		minTokens: o.ForceOutput && length && ours("min_tokens"), ignoreEOS: o.ForceOutput && ours("ignore_eos"),
	}
	if o.Model != "" && ours("model") {
		b.prefix = append(appendString(append(b.prefix, `"model":`...), o.Model), ',')
	}
	b.prefix = append(b.prefix, f.open...)
	if o.Stream && ours("stream") {
		b.tail = append(b.tail, `,"stream":true`...)
		if ours("stream_options") {
			b.tail = append(b.tail, `,"stream_options":{"include_usage":true}`...)
		}
	}
	for _, m := range extra {
		b.tail = m.append(append(b.tail, ','))
	}
	if o.CacheSalt != "" && ours("cache_salt") {
		b.saltBytes = len(o.CacheSalt)
		b.salt = []byte(saltLead + o.CacheSalt + saltEnd)
		b.tail = append(append(b.tail, ','), b.salt...)
	} else {
		b.tail = append(b.tail, '}')
	}
	return b
}

func (b *body) AppendPrefix(dst []byte) []byte { return append(dst, b.prefix...) }

func (b *body) AppendSuffix(dst []byte, outputTokens int) []byte {
	dst = append(dst, b.end...)
	if outputTokens > 0 {
		if b.maxTokens {
			dst = strconv.AppendInt(append(dst, maxTokensLead...), int64(outputTokens), 10)
		}
		if b.minTokens {
			dst = strconv.AppendInt(append(dst, minTokensLead...), int64(outputTokens), 10)
		}
		if b.ignoreEOS {
			dst = append(dst, ignoreEOSLead...)
		}
	}
	return append(dst, b.tail...)
}

func (b *body) Size(promptBytes, outputTokens int) int {
	size := len(b.prefix) + promptBytes + len(b.end) + len(b.tail)
	if outputTokens <= 0 {
		return size
	}
	var buf [20]byte
	digits := len(strconv.AppendInt(buf[:0], int64(outputTokens), 10))
	if b.maxTokens {
		size += len(maxTokensLead) + digits
	}
	if b.minTokens {
		size += len(minTokensLead) + digits
	}
	if b.ignoreEOS {
		size += len(ignoreEOSLead)
	}
	return size
}

func (b *body) SaltSpan(body []byte) (from, to int) {
	if b.saltBytes == 0 || !bytes.HasSuffix(body, b.salt) {
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
