package http1

import (
	"errors"
	"fmt"
)

// Every error of [Response] wraps one of these.
var (
	// ErrNoResponse: the peer closed before the first byte, as a server does with an idle keep-alive connection.
	ErrNoResponse = errors.New("connection closed before any response byte")
	// ErrTruncated: the peer closed inside a head or a body whose length it had announced.
	ErrTruncated = errors.New("response cut short")
	// ErrBadHead: the status line or a header is not HTTP/1.
	ErrBadHead = errors.New("malformed response head")
	// ErrHeadTooLarge: the head (interim ones included) or the trailers exceed MaxHeadBytes.
	ErrHeadTooLarge = errors.New("response head too large")
	// ErrBadLength: Content-Length is not a number, or two of them differ.
	ErrBadLength = errors.New("bad Content-Length")
	// ErrBadChunk: the chunked framing is broken.
	ErrBadChunk = errors.New("malformed chunked body")
	// ErrUnsupported: a transfer or content coding that was never asked for.
	ErrUnsupported = errors.New("unsupported coding")
)

// maxQuoted bounds how much of the peer's bytes an error message repeats.
const maxQuoted = 80

// fail makes the response useless from here on; the first failure stays.
func (r *Response) fail(sentinel error, what string, culprit []byte) {
	if len(culprit) > maxQuoted {
		culprit = culprit[:maxQuoted]
	}
	r.err = fmt.Errorf("%w: %s %q", sentinel, what, culprit)
}
