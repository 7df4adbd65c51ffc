package json

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendUnescaped appends what the inside of a JSON string means, as encoding/json reads it (a lone surrogate becomes
// U+FFFD). Any bytes will do: an escape that is broken or cut off, as in a message that was shortened, stays as it is.
func AppendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' || EscapeLen(raw[i:]) == 0 {
			dst = append(dst, c)
			i++
			continue
		}
		i += 2
		if c = raw[i-1]; c != 'u' {
			if at := strings.IndexByte("bfnrt", c); at >= 0 { // else a quote, a slash or a backslash
				c = "\b\f\n\r\t"[at]
			}
			dst = append(dst, c)
			continue
		}
		r, _ := hex4(raw[i:])
		i += 4
		if utf16.IsSurrogate(r) {
			pair, ok := lowSurrogate(raw[i:])
			if r = utf16.DecodeRune(r, pair); ok && r != utf8.RuneError {
				i += 6
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// lowSurrogate reads an escape \uXXXX.
func lowSurrogate(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return utf8.RuneError, false
	}
	return hex4(b[2:])
}

// Repair changes an answer's text, the inside of a JSON string, so that every server accepts it. Half of a surrogate
// pair, and what is no UTF-8, becomes U+FFFD, as it does when it is decoded. Answers that end inside a character have
// such text. Repair changes text in place where it can, and allocates only for text that is no UTF-8.
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
	n := max(1, EscapeLen(b))
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

// EscapeLen returns the length of the escape that b begins with, or 0.
func EscapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case !isHex(c):
			return 0, false
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' < 6 }

// Plain returns the index of the first quote, backslash or control character at or after i, or len(b). It looks at
// eight bytes at a time; the lowest bit that the tests below set is exact, higher bits may be wrong.
func Plain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ (ones * '"')
		slash := w ^ (ones * '\\')
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & tops
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}
