package http1

import (
	"fmt"
	"strconv"
)

// head is what the headers said, before they are weighed against each other.
type head struct {
	minor     byte // of HTTP/1.minor
	length    int64
	hasLength bool
	chunked   bool
	close     bool // Connection: close
	keepAlive bool // Connection: keep-alive
}

// statusLine reads "HTTP/1.x SSS reason".
func (r *Response) statusLine(line []byte) {
	const version = "HTTP/1."
	ok := len(line) >= len("HTTP/1.1 200") && string(line[:len(version)]) == version &&
		isDigit(line[7]) && line[8] == ' ' && isDigit(line[9]) && isDigit(line[10]) && isDigit(line[11]) &&
		(len(line) == 12 || line[12] == ' ') && isFieldValue(line)
	if !ok || line[9] == '0' {
		r.fail(ErrBadHead, "bad status line", line)
		return
	}
	r.Status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
	r.head = head{minor: line[7] - '0'}
	r.state = atHeader
}

// headerLine notes a header that framing depends on, or that is kept. Folded lines (RFC 9112 §5.2, obsolete) are
// refused.
func (r *Response) headerLine(line []byte) {
	name, value, ok := splitHeader(line)
	if !ok {
		r.fail(ErrBadHead, "bad header", line)
		return
	}
	r.keep(name, value)
	switch {
	case equalFold(name, "content-length"):
		r.contentLength(value)
	case equalFold(name, "transfer-encoding"):
		if r.head.chunked || !equalFold(value, "chunked") {
			r.fail(ErrUnsupported, "Transfer-Encoding", value)
		}
		r.head.chunked = true
	case equalFold(name, "content-encoding"):
		r.contentEncoding(value)
	case equalFold(name, "connection"):
		r.head.close = r.head.close || hasElement(value, "close")
		r.head.keepAlive = r.head.keepAlive || hasElement(value, "keep-alive")
	}
}

// contentLength takes digits only, and a repeated header only if it is the same (RFC 9112 §6.3).
func (r *Response) contentLength(value []byte) {
	n, err := strconv.ParseUint(string(value), 10, 63)
	switch {
	case len(value) == 0 || err == nil && r.head.hasLength && int64(n) != r.head.length:
		r.fail(ErrBadLength, "empty, or another one before:", value)
	case err != nil:
		r.fail(ErrBadLength, "not a length:", value)
	default:
		r.head.length = int64(n)
		r.head.hasLength = true
	}
}

// contentEncoding accepts gzip (RFC 9110 §8.4.1.3 makes x-gzip its equal). Requests never ask for anything else.
func (r *Response) contentEncoding(value []byte) {
	switch {
	case len(value) == 0 || equalFold(value, "identity"):
	case !r.Gzip && (equalFold(value, "gzip") || equalFold(value, "x-gzip")):
		r.Gzip = true
	default:
		r.fail(ErrUnsupported, "Content-Encoding", value)
	}
}

// endHead weighs the headers (RFC 9112 §6.3) at the blank line.
func (r *Response) endHead() {
	if r.Status < 200 {
		r.endInterim()
		return
	}
	h := r.head
	if h.chunked && h.minor == 0 {
		r.fail(ErrBadHead, "Transfer-Encoding in HTTP/1.0", nil)
		return
	}
	r.headDone = true
	r.ContentLength = -1
	// A response with both lengths is chunked, and its connection not to be trusted again (RFC 9112 §6.3 rule 3).
	r.KeepAlive = !h.close && (h.minor > 0 || h.keepAlive) && !(h.chunked && h.hasLength)
	switch {
	case r.Status == 204 || r.Status == 304:
		r.ContentLength = 0
		r.state = done
	case h.chunked:
		r.state = atChunkSize
		r.overhead = 0
	case !h.hasLength:
		r.KeepAlive = false
		r.state = untilClose
	default:
		r.ContentLength = h.length
		r.left = h.length
		r.state = inBody
		if h.length == 0 {
			r.state = done
		}
	}
}

// endInterim goes on to the head after a 1xx one. 101 would end HTTP on the connection, and nobody asked for that.
func (r *Response) endInterim() {
	if r.Status == 101 {
		r.fail(ErrBadHead, "101 Switching Protocols, not asked for", nil)
		return
	}
	for i := range r.kept {
		r.kept[i].clear()
	}
	r.Status = 0
	r.Gzip = false
	r.state = atStatus
}

// Header is one request header field, written as given.
type Header struct{ Name, Value string }

// Validate returns an error if the name is no RFC 9110 §5.6.2 token or if the value has control characters. Either
// could end a header early and begin another one.
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

// AppendRequestStart appends what a request begins with: all up to the end of the Host header's value. Nothing is
// checked here: see [Header.Validate].
func AppendRequestStart(dst []byte, method, path, host string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	return append(dst, host...)
}

// AppendHeaders appends headers behind what AppendRequestStart or itself has appended.
func AppendHeaders(dst []byte, headers []Header) []byte {
	for _, h := range headers {
		dst = append(dst, "\r\n"...)
		dst = append(dst, h.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, h.Value...)
	}
	return dst
}

// AppendHeadEnd appends the header Content-Length with bodyBytes, also when it is 0, and the blank line.
func AppendHeadEnd(dst []byte, bodyBytes int) []byte {
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(bodyBytes), 10)
	return append(dst, "\r\n\r\n"...)
}
