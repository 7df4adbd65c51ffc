package api

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Repair makes of an answer's text, the inside of a JSON string, one that every server takes back: half of a surrogate pair, and
// what is no UTF-8, becomes U+FFFD, as it does for whoever decodes it. Such comes of answers that end inside a character. It changes text in
// place where it can, and allocates only for text that is no UTF-8.
func Repair(text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))
	}
	for i := 0; ; {
		at := bytes.IndexByte(text[i:], '\\')
		if at < 0 {
			return text
		}
		i += at
		i += repairEscape(text[i:])
	}
}

// repairEscape repairs the escape that b begins with, or the pair of them, and returns its length.
func repairEscape(b []byte) int {
	n := max(1, escapeLen(b))
	if n < len(`\u0000`) {
		return n
	}
	r, _ := hex4(b[2:])
	if !utf16.IsSurrogate(r) {
		return n
	}
	if low, ok := lowSurrogate(b[n:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		return 2 * n
	}
	copy(b, `\ufffd`)
	return n
}
