package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// body is a body with holes: the prompt, and the number of output tokens wherever it stands.
type body struct {
	prefix    []byte
	sized     fields // what follows a prompt with a number of output tokens
	free      []byte // … and without one
	salt      []byte // how a body with a salt ends
	saltBytes int
}

func (b *body) AppendPrefix(dst []byte) []byte { return append(dst, b.prefix...) }

func (b *body) AppendSuffix(dst []byte, outputTokens int) []byte {
	if outputTokens <= 0 {
		return append(dst, b.free...)
	}
	for _, lead := range b.sized.leads {
		dst = strconv.AppendInt(append(dst, lead...), int64(outputTokens), 10)
	}
	return append(dst, b.sized.rest...)
}

func (b *body) Size(promptBytes, outputTokens int) int {
	size := len(b.prefix) + promptBytes
	if outputTokens <= 0 {
		return size + len(b.free)
	}
	var buf [20]byte
	digits := len(strconv.AppendInt(buf[:0], int64(outputTokens), 10))
	for _, lead := range b.sized.leads {
		size += len(lead) + digits
	}
	return size + len(b.sized.rest)
}

func (b *body) SaltSpan(body []byte) (from, to int) {
	if b.saltBytes == 0 || !bytes.HasSuffix(body, b.salt) {
		return 0, 0
	}
	to = len(body) - len(saltEnd)
	return to - b.saltBytes, to
}

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
