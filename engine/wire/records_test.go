package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"
)

// sealed is a TLS record in the stream. The oracle knows where it lies. What reads the stream sees that only in its head.
type sealed struct {
	begin, end int
	data       bool // else it bears a key, a ticket or nothing but padding
}

// cipherStream is the encrypted stream of a simulated network, as its connection returns it.
type cipherStream struct {
	*network
	bytes   []byte
	records []sealed
	ready   []int64 // when each byte that has come could be read
	latest  int     // bytes that the last read returned
	// instants of the bytes that were read; 0: the ring does not know it
	known []int64
}

// seal appends records of at least size bytes in all.
func (s *cipherStream) seal(size int) {
	for end := len(s.bytes) + size; len(s.bytes) < end; {
		body := s.IntN(1 + s.IntN(40))
		begin := len(s.bytes)
		s.bytes = binary.BigEndian.AppendUint16(append(s.bytes, 23, 3, 3), uint16(body))
		s.bytes = append(s.bytes, make([]byte, body)...)
		s.records = append(s.records, sealed{begin, len(s.bytes), s.IntN(4) > 0})
	}
}

// Read is a read of the connection: of some of what has come.
func (s *cipherStream) Read(p []byte) (int, error) {
	from := int(s.a.read.Load())
	some := len(s.ready) - from
	if some == 0 {
		return 0, io.ErrNoProgress
	}
	s.latest = min(len(p), 1+s.IntN(some))
	return copy(p, s.bytes[from:from+s.latest]), nil
}

// parts are those of the last read. It keeps what they say for the oracle, which asks for no record's limits.
func (s *cipherStream) parts(dst []Arrival) ([]Arrival, bool) {
	dst, known := s.a.next(dst, s.latest, s.losses)
	before := len(s.known)
	s.known = append(s.known, make([]int64, s.latest)...)
	for _, a := range dst {
		for range a.Bytes {
			if known {
				s.known[before] = a.WallNS
			}
			before++
		}
	}
	s.a.read.Add(int64(s.latest))
	return dst, known
}

// decrypter takes records from a reader as crypto/tls does: at least a head, and then at least the rest of a record, with
// room for more, which it would keep.
type decrypter struct {
	from io.Reader
	into [1 << 10]byte
	raw  []byte
}

func (d *decrypter) atLeast(n, room int) error {
	for len(d.raw) < n {
		got, err := d.from.Read(d.into[:n-len(d.raw)+room])
		if err != nil {
			return err
		}
		d.raw = append(d.raw, d.into[:got]...)
	}
	return nil
}

// next takes the next record. It fails if its bytes have not all come, and goes on there by the next call.
func (d *decrypter) next(room int) error {
	if err := d.atLeast(recordHead, room); err != nil {
		return err
	}
	size := recordHead + int(binary.BigEndian.Uint16(d.raw[3:]))
	if err := d.atLeast(size, room); err != nil {
		return err
	}
	d.raw = d.raw[size:]
	return nil
}

// answer lets records of some size come, and compares the instant of each that bears data with the oracle's.
func (s *cipherStream) answer(r *recordReader, d *decrypter, size int, reorders, loses float64) (records, known int, err error) {
	s.a.losses.Store(s.losses)
	first := len(s.records)
	s.seal(size)
	begin := len(s.arrived)
	coming := s.send(len(s.bytes)-begin, reorders)
	for k := first; k < len(s.records); {
		coming = s.deliver(coming, begin, reorders, loses)
		s.ready = s.readable()
		if s.IntN(4) > 0 && len(coming) > 0 {
			continue
		}
		for k < len(s.records) && d.next(s.IntN(600)) == nil {
			at := s.records[k]
			k++
			if !at.data {
				continue
			}
			records++
			if want := s.ready[at.end-1]; r.atNS != 0 && r.atNS != want {
				return records, known, fmt.Errorf("a record up to byte %d: %d, want %d", at.end, r.atNS, want)
			}
			if r.atNS != s.known[at.end-1] {
				return records, known, fmt.Errorf("byte %d: %d, and the ring says %d", at.end, r.atNS, s.known[at.end-1])
			}
			known += min(1, int(r.atNS))
		}
	}
	return records, known, nil
}

// TestRecordsOfAnswers: whatever a network does to segments, and wherever records end in them, the data of each record
// have the instant at which its last byte could be read, or none. If the ring sees all segments, each record has one.
func TestRecordsOfAnswers(t *testing.T) {
	want := 1_000_000
	if testing.Short() {
		want = 20_000
	}
	total, explained, losing := 0, 0, 0
	for seed := uint64(1); total < want; seed++ {
		n := simulated(seed)
		reorders, loses := n.Float64(), 0.
		if seed%3 == 0 {
			loses = n.Float64() / 4
		}
		s := &cipherStream{network: n}
		r := &recordReader{read: s.Read, parts: s.parts}
		d := &decrypter{from: r}
		for range 4 {
			records, known, err := s.answer(r, d, 1+n.IntN(300), reorders, loses)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if loses == 0 && known < records {
				t.Fatalf("seed %d: %d of %d records explained, and nothing was lost", seed, known, records)
			}
			total += records
			if loses > 0 {
				losing += records
				explained += known
			}
		}
	}
	if explained == 0 || explained == losing {
		t.Errorf("%d of %d records explained where segments were lost", explained, losing)
	}
	t.Logf("%d records, 0 wrong; %d of %d explained where segments were lost", total, explained, losing)
}
