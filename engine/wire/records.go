package wire

import (
	"encoding/binary"
	"slices"
)

// recordReader reads a connection for crypto/tls, and never hands on bytes beyond the end of a record. So the data that
// crypto/tls returns next are of the record whose last byte was handed on last. That holds whatever records carry,
// which TLS 1.3 hides: data, nothing but padding, or keys. Data can be read once the last byte of their record has
// come.
type recordReader struct {
	read  func([]byte) (int, error)         // from the connection
	parts func([]Arrival) ([]Arrival, bool) // when each byte of that read came; false: that is not known
	buf   [recordBuffer]byte
	held  []byte    // what was read and not handed on
	came  []Arrival // when each byte of held came; none: that is not known
	head  [recordHead]byte
	begun int   // bytes of head that were handed on
	left  int   // bytes behind the head that were not
	atNS  int64 // when the last byte came that was handed on, wall clock; 0 = not known
}

const (
	// recordHead is what each record begins with: a type, a version, and how many bytes follow (RFC 8446, section 5.1).
	recordHead = 5
	// recordBuffer has room for a dozen events of a stream.
	recordBuffer = 4 << 10
)

// Read implements io.Reader.
func (r *recordReader) Read(p []byte) (int, error) {
	if len(r.held) == 0 {
		n, err := r.read(r.buf[:])
		if err != nil {
			return 0, err
		}
		r.held = r.buf[:n]
		known := false
		if r.came, known = r.parts(r.came[:0]); !known {
			r.came = r.came[:0]
		}
	}
	want := r.left
	if r.begun < recordHead {
		want = recordHead - r.begun
	}
	n := copy(p, r.held[:min(want, len(r.held))])
	r.handOn(n)
	return n, nil
}

// handOn notes that n bytes of held are handed on, all of a head or all behind one.
func (r *recordReader) handOn(n int) {
	if r.begun < recordHead {
		r.begun += copy(r.head[r.begun:], r.held[:n])
		r.left = int(binary.BigEndian.Uint16(r.head[3:]))
	} else {
		r.left -= n
	}
	if r.begun == recordHead && r.left == 0 {
		r.begun = 0
	}
	r.held = r.held[n:]
	r.atNS = 0
	passed := 0
	for n > 0 && passed < len(r.came) {
		a := &r.came[passed]
		r.atNS = a.WallNS
		of := min(n, a.Bytes)
		n -= of
		if a.Bytes -= of; a.Bytes == 0 {
			passed++
		}
	}
	r.came = slices.Delete(r.came, 0, passed)
}
