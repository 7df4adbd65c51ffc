package engine

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/fastreplay/fastreplay/codec/record"
)

// reader is where a receiver's bytes come from: one read and the instant after it.
type reader func() (b []byte, nowNS int64, err error)

// readInflated reads the rest of a compressed response and ends the reply. It returns the instant of the last read; the
// error is the connection's, or errReplyEnded. Compressed responses are rare (nobody asks for them), so this path may
// allocate.
func (p *reply) readInflated(src *inflateSource, next reader) (nowNS int64, err error) {
	src.next = next
	if err = p.inflate(src); err != nil {
		return src.nowNS, err
	}
	for !p.head.Done() { // the framing after the last compressed byte
		if src.advance(); src.err != nil {
			return src.nowNS, src.err
		}
	}
	p.reusable = p.head.KeepAlive && len(src.pending) == 0
	p.end(src.nowNS)
	return src.nowNS, nil
}

// inflate feeds decompressed bytes to the reply. The error is the connection's; the reply's own failures end it.
func (p *reply) inflate(src *inflateSource) error {
	z, err := gzip.NewReader(src)
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = z.Read(buf)
		if n > 0 {
			if bad := p.onBody(buf[:n], src.nowNS); bad != nil {
				return p.inflateFailed(bad)
			}
		}
	}
	switch {
	case src.err != nil:
		return src.err
	case errors.Is(err, io.EOF): // of the gzip stream
		return nil
	default:
		return p.inflateFailed(fmt.Errorf("gzip body: %w", err))
	}
}

// errReplyEnded tells the receiver that the reply has ended by itself.
var errReplyEnded = errors.New("reply ended")

func (p *reply) inflateFailed(err error) error {
	p.fail(record.BadResponse, err.Error())
	return errReplyEnded
}

// inflateSource is the compressed body as an io.Reader.
type inflateSource struct {
	reply   *reply
	pending []byte // read but not scanned
	body    []byte // scanned but not handed over
	nowNS   int64
	next    reader
	err     error
}

func (s *inflateSource) Read(dst []byte) (int, error) {
	for len(s.body) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.reply.head.Done() {
			return 0, io.EOF
		}
		s.advance()
	}
	n := copy(dst, s.body)
	s.body = s.body[n:]
	return n, nil
}

func (s *inflateSource) advance() {
	if len(s.pending) == 0 {
		if s.pending, s.nowNS, s.err = s.next(); s.err != nil {
			return
		}
		s.reply.bytesIn += int64(len(s.pending))
	}
	var n int
	s.body, n, s.err = s.reply.head.Scan(s.pending)
	s.pending = s.pending[n:]
}
