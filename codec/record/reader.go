package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	fast "github.com/fastreplay/fastreplay/codec/json"
	"github.com/klauspost/compress/zstd"
)

// MaxLineBytes is the longest line that a Reader takes. A record is below 2 kB unless a server's message is in it, and
// those are bounded too.
const MaxLineBytes = 16 << 20

// ErrUnfinished is returned for a last line that a killed or full writer left incomplete. All records before it have
// been read and are good.
var ErrUnfinished = errors.New("the file ends in the middle of a record")

// maxZstdWindow is what zstd's own command takes without a flag: 128 MiB. A Writer's frames have 1 MiB.
const maxZstdWindow = 128 << 20

// Lines says which lines a file of records has, in any order.
type Lines struct {
	Count int64 `json:"lines"` // how many
	// as text, for it has 64 bits. It is the sum over all lines without their ends of CRC-32 (IEEE) · 2^32 + CRC-32C,
	// modulo 2^64
	Sum uint64 `json:"checksum,string"`
}

// castagnoli is immutable.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Add counts a line without its end. A line of 700 bytes takes 0.1 µs.
func (l *Lines) Add(line []byte) {
	l.Count++
	l.Sum += uint64(crc32.ChecksumIEEE(line))<<32 + uint64(crc32.Checksum(line, castagnoli))
}

// Reader reads requests.jsonl, plain or zstd.
type Reader struct {
	Seen Lines // what has been read, but for blank lines

	name  string
	lines *bufio.Reader
	zstd  *zstd.Decoder
	line  int
	buf   []byte
}

// NewReader returns a reader; name is used in messages. Compression is recognised by its magic bytes. Close it after
// use.
func NewReader(r io.Reader, name string) (*Reader, error) {
	plain := bufio.NewReaderSize(r, 64<<10)
	magic, err := plain.Peek(4)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// RFC 8878 section 3.1.1: magic number of a frame, little endian.
	if !bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return &Reader{name: name, lines: plain}, nil
	}
	z, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Reader{name: name, lines: bufio.NewReaderSize(z, 64<<10), zstd: z}, nil
}

// Close releases the decoder; it does not close the underlying reader.
func (d *Reader) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// Next reads the next record into r. It returns io.EOF after the last one, an error that is ErrUnfinished where the
// file breaks off, and otherwise an error with file and line. Blank lines are skipped.
func (d *Reader) Next(r *Record) error {
	for {
		line, err := d.next()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			continue
		}
		d.Seen.Add(line)
		if err := Parse(line, r); err != nil {
			return fmt.Errorf("%s:%d: %w", d.name, d.line, err)
		}
		return nil
	}
}

// next returns a line without its end, valid until the next call.
func (d *Reader) next() ([]byte, error) {
	d.buf = d.buf[:0]
	d.line++
	for {
		part, err := d.lines.ReadSlice('\n')
		d.buf = append(d.buf, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(d.buf, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull) && len(d.buf) <= MaxLineBytes:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%s:%d: longer than %d bytes", d.name, d.line, MaxLineBytes)
		case err == io.EOF && len(d.buf) == 0:
			return nil, io.EOF
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%s:%d: %w", d.name, d.line, ErrUnfinished)
		default:
			return nil, fmt.Errorf("%s:%d: %w", d.name, d.line, err)
		}
	}
}

// MostNumber is the largest size of a number in a record, but for what may be a hash: 3 years in ns. Sums of two fit.
const MostNumber = 100_000_000_000_000_000

// missing is an outcome that no line can name.
const missing = Outcome(Outcomes)

// Parse reads one line as AppendJSON writes it, with or without its newline. Unknown keys are ignored and missing ones
// are absent, so that files of other versions can be read; only "row" and "outcome" must be there. Derived keys
// (drift_ns, ttft_ms, …) are not read: they follow from the instants. What no line has, LeastCachedTokens and
// MostCachedTokens, becomes ExpectedCachedTokens, and BuiltTokens InputTokens. r keeps nothing of line. On error r is
// unspecified.
func Parse(line []byte, r *Record) error {
	r.Clear()
	r.Chunks = None
	r.Resent = None
	r.BytesSent = None
	r.BytesReceived = None
	r.Outcome = missing
	if err := fast.Unmarshal(line, r); err != nil {
		err = cmp.Or(json.Unmarshal(line, r), err) // whose words are one line, and name the key
		return fmt.Errorf("not a record: %w", err)
	}
	if r.Row == None || r.Outcome == missing {
		return errors.New(`not a record: "row" or "outcome" is missing`)
	}
	for i := range keys {
		if n, _ := keys[i].Value(r); keys[i].bounded && n != None && (n > MostNumber || n < -MostNumber) {
			return fmt.Errorf("not a record: %s is %d, which no run has", keys[i].Name, n)
		}
	}
	if from := r.TokensFrom; from != TokensUnknown && from != TokensFromUsage && from != TokensFromChunks {
		return fmt.Errorf("not a record: tokens_from is %q", from)
	}
	if bytes.Contains(line, []byte(`"input_tokens":`)) {
		r.readOldNames(line)
	}
	if r.Choices <= 1 {
		r.Choices, r.DecodeNS = 0, None // a line has them of several choices only
	}
	r.BuiltTokens = r.InputTokens
	r.LeastCachedTokens = r.ExpectedCachedTokens
	r.MostCachedTokens = r.ExpectedCachedTokens
	return nil
}

// readOldNames reads the keys of files that were written before the two had their names.
func (r *Record) readOldNames(line []byte) {
	old := struct {
		Input  *int64 `json:"input_tokens"`
		Output *int64 `json:"output_tokens"`
	}{&r.InputTokens, &r.OutputTokens}
	_ = fast.Unmarshal(line, &old) // what is no number stays absent
}
