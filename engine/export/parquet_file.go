package export

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/codec/record"
)

// A file as https://github.com/apache/parquet-format describes it, of what we need: flat columns that may all be null, one
// page for each column of a row group, PLAIN values, zstd. A library for it would add 10 MB to the program.

// kind is what a column holds.
type kind int

const (
	integer kind = iota
	instant      // µs since 1970, UTC
	double
	text
)

// types are the kind's Type in parquet.thrift, and its ConvertedType, or -1.
func (k kind) types() (physical, converted int64) {
	return [...]int64{2, 2, 5, 6}[k], [...]int64{-1, 10, -1, 0}[k]
}

const (
	mostGroupRows  = 1 << 16  // rows of a row group …
	mostGroupBytes = 64 << 20 // … and about how many bytes of it
	parquetMagic   = "PAR1"
)

// column is one of a file, with its values of the row group that is being filled.
type column struct {
	name   string
	kind   kind
	append func(dst []byte, r *record.Record) []byte // nothing for null

	present []byte // a bit for each row, the lowest first
	values  []byte
}

// parquet writes a file of records. After the first error it writes nothing more, and close returns it.
type parquet struct {
	out       io.Writer
	err       error
	offset    int64
	encoder   *zstd.Encoder
	columns   []column
	groupRows int

	rows, bytes int // of the row group that is being filled
	allRows     int64
	groups      []rowGroup
}

// rowGroup is one that is in the file.
type rowGroup struct {
	rows   int
	chunks []chunk
}

// chunk is a column of a row group: where it begins, and its bytes with the page's head.
type chunk struct{ offset, plain, packed int64 }

func newParquet(out io.Writer, columns []column, groupRows int) (*parquet, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	p := &parquet{out: out, err: err, encoder: encoder, columns: columns, groupRows: groupRows}
	p.write([]byte(parquetMagic))
	return p, p.err
}

func (p *parquet) write(b []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(b)
		p.offset += int64(len(b))
	}
}

func (p *parquet) add(r *record.Record) {
	for i := range p.columns {
		c := &p.columns[i]
		before := len(c.values)
		c.values = c.append(c.values, r)
		if p.rows%8 == 0 {
			c.present = append(c.present, 0)
		}
		if n := len(c.values) - before; n > 0 {
			c.present[p.rows/8] |= 1 << (p.rows % 8)
			p.bytes += n
		}
	}
	if p.rows++; p.rows == p.groupRows || p.bytes >= mostGroupBytes {
		p.endGroup()
	}
}

// endGroup writes the rows that were gathered.
func (p *parquet) endGroup() {
	if p.rows == 0 {
		return
	}
	g := rowGroup{rows: p.rows}
	for i := range p.columns {
		c := &p.columns[i]
		g.chunks = append(g.chunks, p.writePage(c))
		c.present, c.values = c.present[:0], c.values[:0]
	}
	p.groups = append(p.groups, g)
	p.allRows += int64(p.rows)
	p.rows, p.bytes = 0, 0
}

// writePage writes a column as a data page: the definition levels (0 = null), which are one run of packed bits, then the values.
func (p *parquet) writePage(c *column) chunk {
	run := binary.AppendUvarint(nil, uint64(len(c.present))<<1|1)
	page := binary.LittleEndian.AppendUint32(nil, uint32(len(run)+len(c.present)))
	page = append(append(append(page, run...), c.present...), c.values...)
	packed := p.encoder.EncodeAll(page, nil)
	var t thrift // PageHeader
	t.begin(0)
	t.number(1, i32, 0) // DATA_PAGE
	t.number(2, i32, int64(len(page)))
	t.number(3, i32, int64(len(packed)))
	t.begin(5) // DataPageHeader
	t.number(1, i32, int64(p.rows))
	t.number(2, i32, plainEncoding)
	t.number(3, i32, rleEncoding)
	t.number(4, i32, rleEncoding)
	t.end()
	t.end()
	at := chunk{p.offset, int64(len(t.b) + len(page)), int64(len(t.b) + len(packed))}
	p.write(t.b)
	p.write(packed)
	return at
}

// close writes the last row group and the footer.
func (p *parquet) close() error {
	p.endGroup()
	_ = p.encoder.Close()
	var t thrift // FileMetaData
	t.begin(0)
	t.number(1, i32, 1) // version
	t.list(2, structure, 1+len(p.columns))
	t.begin(0) // SchemaElement: the root
	t.text(4, "requests")
	t.number(5, i32, int64(len(p.columns)))
	t.end()
	for _, c := range p.columns {
		physical, converted := c.kind.types()
		t.begin(0)
		t.number(1, i32, physical)
		t.number(3, i32, 1) // OPTIONAL
		t.text(4, c.name)
		if converted >= 0 {
			t.number(6, i32, converted)
		}
		if c.kind == instant {
			t.utcMicros()
		}
		t.end()
	}
	t.number(3, i64, p.allRows)
	t.list(4, structure, len(p.groups))
	for _, g := range p.groups {
		p.describe(&t, g)
	}
	t.text(6, ourName)
	t.end()
	p.write(binary.LittleEndian.AppendUint32(t.b, uint32(len(t.b))))
	p.write([]byte(parquetMagic))
	return p.err
}

// utcMicros appends the LogicalType without which DuckDB takes instants for local times: TIMESTAMP, isAdjustedToUTC, MICROS.
func (t *thrift) utcMicros() {
	t.begin(10)
	t.begin(8)
	t.field(1, yes)
	t.begin(2)
	t.begin(2)
	for range 4 {
		t.end()
	}
}

// describe appends a RowGroup.
func (p *parquet) describe(t *thrift, g rowGroup) {
	total := int64(0)
	t.begin(0)
	t.list(1, structure, len(g.chunks))
	for i, at := range g.chunks {
		total += at.plain
		physical, _ := p.columns[i].kind.types()
		t.begin(0)          // ColumnChunk
		t.number(2, i64, 0) // file_offset, which is no longer used
		t.begin(3)          // ColumnMetaData
		t.number(1, i32, physical)
		t.list(2, i32, 2)
		t.zigzag(plainEncoding)
		t.zigzag(rleEncoding)
		t.list(3, binaryText, 1)
		t.bytes(p.columns[i].name)
		t.number(4, i32, 6) // ZSTD
		t.number(5, i64, int64(g.rows))
		t.number(6, i64, at.plain)
		t.number(7, i64, at.packed)
		t.number(9, i64, at.offset)
		t.end()
		t.end()
	}
	t.number(2, i64, total)
	t.number(3, i64, int64(g.rows))
	t.end()
}

// parquet.thrift: Encoding.
const plainEncoding, rleEncoding = 0, 3

// The types of Thrift's compact protocol, in which heads and footer are written.
const yes, i32, i64, binaryText, listOf, structure = 1, 5, 6, 8, 9, 12

// thrift writes structs in Thrift's compact protocol.
type thrift struct {
	b    []byte
	last []int // the last field of each struct that is open
}

// field begins a field of the innermost struct. Ids ascend by at most 15.
func (t *thrift) field(id, kind int) {
	at := &t.last[len(t.last)-1]
	t.b = append(t.b, byte((id-*at)<<4|kind))
	*at = id
}

func (t *thrift) zigzag(v int64) { t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) bytes(s string) { t.b = append(binary.AppendUvarint(t.b, uint64(len(s))), s...) }

func (t *thrift) number(id, kind int, v int64) {
	t.field(id, kind)
	t.zigzag(v)
}

func (t *thrift) text(id int, s string) {
	t.field(id, binaryText)
	t.bytes(s)
}

// list begins a list; its elements follow.
func (t *thrift) list(id, kind, n int) {
	t.field(id, listOf)
	if n < 15 {
		t.b = append(t.b, byte(n<<4|kind))
		return
	}
	t.b = binary.AppendUvarint(append(t.b, byte(0xf0|kind)), uint64(n))
}

// begin opens a struct that is a field; id 0: an element of a list, or the outermost.
func (t *thrift) begin(id int) {
	if id > 0 {
		t.field(id, structure)
	}
	t.last = append(t.last, 0)
}

func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}
