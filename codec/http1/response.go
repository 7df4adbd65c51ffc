// Package http1 appends HTTP/1.1 request heads and scans HTTP/1.x responses.
//
// It owns the framing of RFC 9112: status line, headers, Content-Length, chunked and read-to-close bodies, interim
// responses. It does not own sockets, clocks, decompression or the meaning of a body.
//
// A [Response] belongs to one goroutine at a time. Scanning allocates only the buffer for a line that a read cut in two
// (kept over Reset) and the error that ends a broken response.
package http1

import (
	"errors"
	"fmt"
)

// MaxHeadBytes bounds a response head, interim heads included, and separately the trailers. Servers keep theirs far
// smaller (nginx sends at most 8 KiB a buffer, Node 16 KiB in all); net/http's transport takes 10 MiB.
const MaxHeadBytes = 64 << 10

// Response scans one response, in pieces of any size. The zero value is ready; Reset makes it ready for the next
// response of the connection. The exported fields are set when HeadDone.
type Response struct {
	Status int // 200..999; interim responses are skipped
	// body bytes announced; -1 if the head has no length (chunked, read to close); 0 if no body may follow
	ContentLength int64
	KeepAlive     bool // the connection may carry another request once Done
	Gzip          bool // the body is gzip-compressed; the caller decompresses

	state    state
	err      error
	line     []byte // a line whose end has not come yet
	started  bool   // some byte came
	headDone bool
	overhead int   // bytes of the head or trailers so far
	left     int64 // bytes left of the fixed body or of the chunk
	body     int64 // body bytes delivered
	head     head
	kept     []keptHeader
}

type state uint8

const (
	atStatus state = iota
	atHeader
	inBody      // left bytes of a body with Content-Length
	untilClose  // a body that ends with the connection
	atChunkSize // a chunk-size line
	inChunk     // left bytes of a chunk
	atChunkEnd  // the CRLF after a chunk's bytes
	atTrailer   // trailer lines, until a blank one
	done        //
)

// Reset forgets the response, but not which headers to Keep nor the buffers.
func (r *Response) Reset() {
	for i := range r.kept {
		r.kept[i].clear()
	}
	*r = Response{line: r.line[:0], kept: r.kept}
}

// Scan consumes bytes of p. It returns the next piece of the body in it, which aliases p and may be empty, and the
// number of bytes consumed. Call it with the rest of p until n == len(p) or Done. Bytes after the end of the response
// are left unconsumed. An error is final.
func (r *Response) Scan(p []byte) (body []byte, n int, err error) {
	for n < len(p) && r.err == nil {
		switch r.state {
		case done:
			return nil, n, nil
		case inBody, inChunk:
			body = p[n:]
			if int64(len(body)) >= r.left {
				body = body[:r.left]
				r.endPiece()
			} else {
				r.left -= int64(len(body))
			}
			r.body += int64(len(body))
			return body, n + len(body), nil
		case untilClose:
			r.body += int64(len(p) - n)
			return p[n:], len(p), nil
		case atChunkEnd:
			if edge := r.chunkEdge(p[n:]); edge > 0 {
				n += edge
				continue
			}
			fallthrough
		default:
			n += r.scanLine(p[n:])
		}
	}
	return nil, n, r.err
}

// endPiece moves on from the last byte of a body or chunk.
func (r *Response) endPiece() {
	r.left = 0
	if r.state == inChunk {
		r.state = atChunkEnd
	} else {
		r.state = done
	}
}

// HeadDone reports whether the final response head is complete.
func (r *Response) HeadDone() bool { return r.headDone }

// Done reports whether the response is complete.
func (r *Response) Done() bool { return r.state == done }

// EOF is called when the peer has closed the connection. It returns nil if the response is complete; a read-to-close
// body is complete then. Else it returns an error that wraps ErrNoResponse, ErrTruncated or the failure before.
func (r *Response) EOF() error {
	switch {
	case r.err != nil:
	case r.state == done:
	case r.state == untilClose:
		r.state = done
	case !r.started:
		r.err = ErrNoResponse
	case !r.headDone:
		r.err = fmt.Errorf("%w: connection closed inside the response head", ErrTruncated)
	case r.state == inBody:
		r.err = fmt.Errorf("%w: connection closed after %d of %d body bytes", ErrTruncated, r.body, r.ContentLength)
	default:
		r.err = fmt.Errorf("%w: connection closed inside a chunked body, after %d body bytes", ErrTruncated, r.body)
	}
	return r.err
}

// keptHeader is a header whose value outlives the bytes it came in.
type keptHeader struct {
	name  string
	value []byte
	set   bool
}

func (k *keptHeader) clear() { k.value, k.set = k.value[:0], false }

// Keep makes Kept return the named headers of this response and, over Reset, of later ones. Call it before the first
// Scan.
func (r *Response) Keep(names ...string) {
	r.kept = r.kept[:0]
	for _, name := range names {
		r.kept = append(r.kept, keptHeader{name: name})
	}
}

// Kept returns the value of the i-th header given to Keep, the first one if it came twice. It is valid until Reset, and
// nil if the header did not come or was not given.
func (r *Response) Kept(i int) []byte {
	if i >= len(r.kept) || !r.kept[i].set {
		return nil
	}
	return r.kept[i].value
}

func (r *Response) keep(name, value []byte) {
	for i := range r.kept {
		if k := &r.kept[i]; !k.set && equalFold(name, k.name) {
			k.value = append(k.value, value...)
			k.set = true
		}
	}
}

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
