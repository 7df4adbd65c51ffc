package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/api"
)

const (
	// maxErrorText bounds the message in a record, in bytes.
	maxErrorText = 512
	// maxErrorRead is how much of a server's message is looked at.
	maxErrorRead = 16 << 10
	// maxInstanceName bounds an instance's name, in bytes: twice a host name's length.
	maxInstanceName = 512
)

// line makes a message one of bounded length, without credentials.
func (r *Redactor) line(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), maxErrorRead)], ""))
	text = strings.TrimSpace(r.hide(text, maxErrorText+utf8.UTFMax))
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
func (r *Redactor) fromJSON(raw []byte) string {
	return r.line(string(api.AppendUnescaped(nil, raw[:min(len(raw), maxErrorRead)])))
}

// Label is a name that a server gave, of bounded length, without credentials.
func (r *Redactor) Label(text string) string { return r.hide(text, maxInstanceName) }

// error returns err with the text of line.
func (r *Redactor) error(err error) error {
	if err == nil {
		return nil
	}
	return &hiddenError{err, r.line(err.Error())}
}

// hiddenError is an error whose text repeats no credential.
type hiddenError struct {
	err  error
	text string
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
