package http1

import (
	"fmt"
	"strconv"
)

// Header is one request header field, written as given.
type Header struct{ Name, Value string }

// Validate reports a name that is no RFC 9110 §5.6.2 token or a value with control characters, either of which would let
// a header end early and another one begin.
func (h Header) Validate() error {
	if !isToken([]byte(h.Name)) {
		return fmt.Errorf("header name %q is not valid: use letters, digits and -", h.Name)
	}
	if !isFieldValue([]byte(h.Value)) {
		// The value may be a secret, so it is not shown.
		return fmt.Errorf("the value of header %s contains a control character: remove it", h.Name)
	}
	return nil
}

// AppendRequestHead appends a request head up to and including its blank line: Host first, then headers in order, then
// Content-Length with bodyBytes (also when it is 0). It checks nothing: see [Header.Validate].
func AppendRequestHead(dst []byte, method, path, host string, headers []Header, bodyBytes int) []byte {
	dst = AppendRequestStart(dst, method, path, host)
	for _, h := range headers {
		dst = append(dst, "\r\n"...)
		dst = append(dst, h.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, h.Value...)
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(bodyBytes), 10)
	return append(dst, "\r\n\r\n"...)
}

// AppendRequestStart appends what a request begins with: all up to the end of the Host header's value.
func AppendRequestStart(dst []byte, method, path, host string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	return append(dst, host...)
}
