// Package http1 appends HTTP/1.1 request heads and scans HTTP/1.x responses.
//
// It owns the framing of RFC 9112: status line, headers, Content-Length, chunked and read-to-close bodies, interim
// responses. It does not own sockets, clocks, decompression or the meaning of a body.
//
// A [Response] belongs to one goroutine at a time. Scanning allocates nothing, save the buffer that holds a line cut in two by
// a read (kept over Reset) and the error that ends a broken response.
package http1

import "fmt"

// MaxHeadBytes bounds a response head, interim heads included, and separately the trailers. Servers keep theirs far smaller
// (nginx sends at most 8 KiB a buffer, Node 16 KiB in all); net/http's transport takes 10 MiB.
const MaxHeadBytes = 64 << 10

// Response scans one response, in pieces of any size. The zero value is ready; Reset makes it ready for the next response of
// the connection. The exported fields are set when HeadDone.
type Response struct {
	Status        int   // 200..999; interim responses are skipped
	ContentLength int64 // body bytes announced; -1 where the head does not tell (chunked, read to close); 0 where no body may follow
	KeepAlive     bool  // the connection may carry another request once Done
	Gzip          bool  // the body is gzip-compressed; the caller decompresses

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

// Scan consumes bytes of p and returns the next piece of the body in it, which aliases p and may be empty, and the number of
// bytes consumed. Call it with the rest of p until n == len(p) or Done. Bytes after the end of the response are left
// unconsumed. An error is final.
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

// EOF tells what it means that the peer closed the connection now: nil if the response is complete (for a read-to-close
// body this completes it), else an error that wraps ErrNoResponse, ErrTruncated or the failure before.
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
