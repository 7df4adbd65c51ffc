package redact

import (
	"strings"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/api"
)

const (
	// maxErrorText bounds the message in a record, in bytes.
	maxErrorText = 512
	// MaxErrorRead is how much of a server's message is looked at.
	MaxErrorRead = 16 << 10
	// MaxInstanceName bounds an instance's name, in bytes: twice a host name's length.
	MaxInstanceName = 512
)

// Line makes a message one of bounded length, without credentials.
func (r *Redactor) Line(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), MaxErrorRead)], ""))
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

// FromJSON is Line for a message as it stands in JSON.
func (r *Redactor) FromJSON(raw []byte) string {
	return r.Line(string(api.AppendUnescaped(nil, raw[:min(len(raw), MaxErrorRead)])))
}

// Label is a name that a server gave, of bounded length, without credentials.
func (r *Redactor) Label(text string) string { return r.hide(text, MaxInstanceName) }

// Error returns err with the text of Line.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	return &hiddenError{err, r.Line(err.Error())}
}

// hiddenError is an error whose text repeats no credential.
type hiddenError struct {
	err  error
	text string
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
