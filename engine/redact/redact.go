// Package redact hides credentials in texts that servers send, however they are spelled, and bounds the length of such
// texts.
//
// It does not decide which texts are shown or recorded. A Redactor is immutable; any goroutine may use it. It allocates
// only if a text has something to hide or is copied.
//
// The package is not an API: any release may change it.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/json"
	"github.com/fastreplay/fastreplay/engine/format"
)

const (
	// shortestSecret: shorter values are words such as "true", not credentials.
	shortestSecret = 8
	// shortestKey is that of values which are credentials by their names. Less can be guessed in seconds.
	shortestKey = 4
	// leastPart is the shortest part of a credential that is hidden: a message may have been cut in the middle of one.
	leastPart = 8
	// mostEscapes bounds how many backslashes may stand before a byte: in JSON within JSON three deep there are 7
	// before a quote.
	mostEscapes = 64
)

// Redactor hides credentials in what comes from servers, however they are spelled (see spelled). Any goroutine may use
// it; where there is nothing to hide it allocates nothing. A nil one hides nothing.
type Redactor struct {
	secrets []secret
	pairs   [1 << 16 / 64]uint64 // bit 256*a+b: in some secret b follows a
}

// secret is the value of a header or of a URL's query.
type secret struct {
	text  string // as spelled reads it
	parts bool   // it is a credential, so parts of it are hidden, too
}

// NewRedactor hides the values of headers, a bearer key without its scheme, and of the queries of URLs
// ("?key=value&…"). Values of names that are typical of credentials are hidden in parts and in base64, too, others only
// as a whole.
func NewRedactor(headers []http1.Header, queries ...string) *Redactor {
	r := &Redactor{}
	for _, h := range headers {
		value := h.Value
		if scheme, key, ok := strings.Cut(value, " "); ok &&
			strings.HasSuffix(strings.ToLower(h.Name), "authorization") {
			value = strings.TrimSpace(key)
			if strings.EqualFold(scheme, "Basic") {
				user := decoded(value)
				_, password, _ := strings.Cut(user, ":")
				r.hides(h.Name, user)
				r.hides(h.Name, password)
			}
		}
		r.hides(h.Name, value)
	}
	for _, query := range queries {
		for part := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
			name, value, named := strings.Cut(part, "=")
			if !named {
				name, value = "key", name
			}
			r.hides(name, value)
		}
	}
	return r
}

// decoded returns the text of a base64 code in either alphabet, padded or not; "" if it is none.
func decoded(code string) string {
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(code, "="))
	text, err := base64.RawStdEncoding.DecodeString(standard)
	if err != nil {
		return ""
	}
	return string(text)
}

// codes returns what a base64 code has of a text, wherever the text stands in what was encoded. A user's name may stand
// before a key. Characters that other bytes decide in part are left out, but for the end of a code of the text alone.
func codes(text string) (all []string) {
	for before := range 3 {
		code := base64.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:before] + text))
		if before > 0 {
			code = code[(8*before+5)/6 : 8*(before+len(text))/6]
		}
		if before > 0 && len(code) < shortestSecret {
			continue
		}
		all = append(all, code, strings.NewReplacer("+", "-", "/", "_").Replace(code))
	}
	return all
}

// IsKey reports whether a header or parameter is a key by its name, so that also a short value is one.
func IsKey(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "key")
}

// IsCredential reports whether a header or parameter is a credential by its name.
func IsCredential(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"auth", "key", "token", "secret", "cookie", "pass", "sess", "cred", "sig"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// hides adds the value of a header or parameter, and base64 codes of one that is a credential.
func (r *Redactor) hides(name, value string) {
	credential := IsCredential(name)
	if len(value) < shortestKey || len(value) < shortestSecret && !IsKey(name) {
		return
	}
	r.add(value, credential)
	if credential {
		for _, code := range codes(value) {
			r.add(code, true)
		}
	}
}

// add adds a text that is hidden, with parts also in parts.
func (r *Redactor) add(value string, parts bool) {
	var read []byte // what servers escape further reads as value, or as what is spelled in it
	for rest, n := value, 0; rest != ""; rest = rest[n:] {
		var c byte
		if c, n = spelled(rest); c != '\\' {
			read = append(read, c)
		}
	}
	s := secret{parts: parts}
	for _, s.text = range []string{strings.ReplaceAll(value, `\`, ""), string(read)} {
		if len(s.text) < 2 || slices.Contains(r.secrets, s) {
			continue
		}
		for i := range len(s.text) - 1 {
			pair := uint(s.text[i])<<8 | uint(s.text[i+1])
			r.pairs[pair/64] |= 1 << (pair % 64)
		}
		r.secrets = append(r.secrets, s)
	}
}

// Hide returns text with each secret as ***.
func (r *Redactor) Hide(text string) string { return r.hide(text, math.MaxInt) }

// hide returns text with each secret as ***, cut where it is longer than most bytes, in the middle of a rune if need
// be.
func (r *Redactor) hide(text string, most int) string {
	var out []byte
	from, i := 0, 0 // text before from is in out
	for r != nil && i < len(text) && len(out)+i-from < most {
		n := r.match(text[i:])
		if n > 0 {
			out = append(append(out, text[from:i]...), "***"...)
			from = i + n
		}
		i += max(1, n)
	}
	if out == nil {
		return text[:min(len(text), most)]
	}
	out = append(out, text[from:]...)
	return string(out[:min(len(out), most)])
}

// match returns how many bytes of text, from its start, spell a secret or a part of one that is hidden.
func (r *Redactor) match(text string) (size int) {
	a, n := spelled(text)
	if n == len(text) {
		return 0
	}
	b, _ := spelled(text[n:])
	if pair := uint(a)<<8 | uint(b); r.pairs[pair/64]&(1<<(pair%64)) == 0 {
		return 0
	}
	for i := range r.secrets {
		s := &r.secrets[i]
		for from := range len(s.text) {
			if s.text[from] == a {
				size = max(size, s.common(text, from))
			}
			if !s.parts {
				break
			}
		}
	}
	return size
}

// common returns how many bytes of text spell what the secret has from there on; 0 if that is too little to be hidden.
func (s *secret) common(text string, from int) (size int) {
	same := 0
	for size < len(text) && from+same < len(s.text) {
		c, n := spelled(text[size:])
		if c == s.text[from+same] {
			same++
		} else if c != '\\' { // which the end has cut from what it escapes
			break
		}
		size += n
	}
	if same == len(s.text) || s.parts && same >= shortestKey && size >= leastPart {
		return size
	}
	return 0
}

// spelled returns the byte with which text begins, and how many bytes spell it. A byte may stand for itself, or behind
// backslashes, as in JSON and Go. It may be written as \u00XX or \xXX, or percent-encoded, once or several times.
func spelled(text string) (c byte, n int) {
	for escapes := 0; ; escapes++ {
		rest := text[n:]
		digits := 0
		switch {
		case escapes > 0 && strings.HasPrefix(rest, "u00"):
			digits = len("u00")
		case escapes > 0 && rest[0] == 'x' || rest[0] == '%':
			digits = 1
		}
		for rest[0] == '%' && digits < mostEscapes && strings.HasPrefix(rest[digits:], "25") && isHex(rest[digits+2:]) {
			digits += 2
		}
		c = rest[0]
		n++
		if digits > 0 && isHex(rest[digits:]) {
			var b [1]byte
			_, _ = hex.Decode(b[:], []byte(rest[digits:digits+2]))
			c = b[0]
			n += digits + 1
		}
		if c != '\\' || n == len(text) || escapes == mostEscapes {
			return c, n
		}
	}
}

// isHex reports whether text begins with two hexadecimal digits.
func isHex(text string) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(text) >= 2 && strings.IndexByte(digits, text[0]) >= 0 && strings.IndexByte(digits, text[1]) >= 0
}

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
	return r.Line(string(json.AppendUnescaped(nil, raw[:min(len(raw), MaxErrorRead)])))
}

// Label is a name that a server gave, of bounded length, on one line, without credentials.
func (r *Redactor) Label(text string) string { return format.Visible(r.hide(text, MaxInstanceName)) }

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
