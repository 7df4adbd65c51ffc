package http1

import "bytes"

// splitHeader cuts "name: value" in two and trims the value; ok tells whether both are valid (RFC 9110 §5).
func splitHeader(line []byte) (name, value []byte, ok bool) {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return nil, nil, false
	}
	name, value = line[:colon], trim(line[colon+1:])
	return name, value, isToken(name) && isFieldValue(value)
}

// hasElement reports whether a comma-separated list has the element, in any case.
func hasElement(list []byte, lower string) bool {
	for len(list) > 0 {
		var element []byte
		element, list, _ = bytes.Cut(list, []byte(","))
		if equalFold(trim(element), lower) {
			return true
		}
	}
	return false
}

// trim removes optional white space (RFC 9110 §5.6.3).
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// equalFold compares with a lower-case ASCII string.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if toLower(c) != lower[i] {
			return false
		}
	}
	return true
}

func toLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken reports a non-empty RFC 9110 §5.6.2 token.
func isToken(b []byte) bool {
	for _, c := range b {
		if !isTokenByte(c) {
			return false
		}
	}
	return len(b) > 0
}

func isTokenByte(c byte) bool {
	if isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return false
}

// isFieldValue reports bytes without control characters other than a tab.
func isFieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
