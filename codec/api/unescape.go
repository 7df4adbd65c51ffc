package api

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendUnescaped appends what the inside of a JSON string means, as encoding/json reads it (a lone surrogate becomes U+FFFD).
// Any bytes will do: an escape that is broken or cut off, as in a message that was shortened, stays as it is.
func AppendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' || escapeLen(raw[i:]) == 0 {
			dst = append(dst, c)
			i++
			continue
		}
		i += 2
		switch c = raw[i-1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(raw[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair, ok := lowSurrogate(raw[i:])
				if r = utf16.DecodeRune(r, pair); ok && r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default: // a quote, a slash or a backslash
			dst = append(dst, c)
		}
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
