package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/api"
)

const (
	// maxErrorText bounds the message in a record, in bytes.
	maxErrorText = 512
	// maxErrorRead is how much of a server's message is looked at: a credential that the bound would cut in two is still
	// found whole.
	maxErrorRead = 16 << 10
)

// redactor holds credentials that servers may repeat and we must not.
type redactor []string

// line makes a message one of bounded length, without credentials.
func (r redactor) line(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorRead)], "")
	for _, secret := range r {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = strings.TrimSpace(text)
	if len(text) <= maxErrorText {
		return text
	}
	cut := maxErrorText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// fromJSON is line for a message as it stands in JSON.
func (r redactor) fromJSON(raw []byte) string {
	return r.line(string(api.AppendUnescaped(nil, raw[:min(len(raw), maxErrorRead)])))
}
