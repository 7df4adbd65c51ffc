package export

import (
	"encoding/binary"
	"io"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/report"
)

// A file as https://github.com/apache/parquet-format describes it. It has flat columns that may all be null, one page
// for each column of a row group, PLAIN values, zstd. A library for it would add 10 MB to the program.
const (
	mostGroupRows  = 1 << 16  // rows of a row group …
	mostGroupBytes = 64 << 20 // … and about how many bytes of it
	parquetMagic   = "PAR1"
)

// column is a key of requests.jsonl, with its values of the row group that is being filled.
type column struct {
	record.Key
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
	verdict   string

	rows, bytes int // of the row group that is being filled
	allRows     int64
	groups      list // those that are in the file
}

// writeParquet writes every record, with the keys of requests.jsonl as columns: integers as int64, sent_at as a
// timestamp in UTC, latencies as doubles in ms. What is absent is null.
func writeParquet(w io.Writer, r *results) error {
	out, err := newParquet(w, mostGroupRows)
	if err != nil {
		return err
	}
	out.verdict = r.verdict()
	add := out.addRecord(r)
	for rec, err := range report.Checked(r.dir, r.summary) {
		if err != nil {
			return err
		}
		add(rec)
	}
	return out.close()
}

func newParquet(out io.Writer, groupRows int) (*parquet, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	p := &parquet{
		out:       out,
		err:       err,
		encoder:   encoder,
		groupRows: groupRows,
	}
	for _, key := range record.Keys() {
		p.columns = append(p.columns, column{Key: key})
	}
	p.write([]byte(parquetMagic))
	return p, p.err
}

func (p *parquet) write(b []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(b)
		p.offset += int64(len(b))
	}
}

// addRecord adds a record as its line in requests.jsonl has it.
func (p *parquet) addRecord(r *results) func(*record.Record) {
	return func(rec *record.Record) {
		if at, ok := r.wall(rec.SentNS); ok && rec.SentAt == record.None { // of a version whose rows have no dates
			rec.SentAt = record.Wall(at.UnixMicro())
		}
		for i := range p.columns {
			c := &p.columns[i]
			if p.rows%8 == 0 {
				c.present = append(c.present, 0)
			}
			if n := c.add(rec); n > 0 {
				c.present[p.rows/8] |= 1 << (p.rows % 8)
				p.bytes += n
			}
		}
		if p.rows++; p.rows == p.groupRows || p.bytes >= mostGroupBytes {
			p.endGroup()
		}
	}
}

// add appends the value that r has, as PLAIN encodes it, and returns its bytes; none of an absent one.
func (c *column) add(r *record.Record) int {
	before := len(c.values)
	switch n, text := c.Value(r); {
	case text != "":
		text = strings.ToValidUTF8(text, "\uFFFD")
		c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(text))), text...)
	case n == record.None:
	case c.Kind == record.Milliseconds:
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(float64(n)/1e6))
	default:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(n))
	}
	return len(c.values) - before
}

// parquet.thrift: Type of a kind of values, Encoding, CompressionCodec, and FieldRepetitionType.
const (
	optional, zstdCodec = int32(1), int32(6)
	plainEncoding       = int32(0)
	runLengths          = int32(3)
)

func physical(k record.Kind) int32 {
	return [...]int32{
		record.Integer:      2,
		record.Date:         2,
		record.Milliseconds: 5,
		record.Text:         6,
	}[k]
}

// endGroup writes the rows that were gathered, and keeps their RowGroup.
func (p *parquet) endGroup() {
	if p.rows == 0 {
		return
	}
	chunks := list{}
	var total int64
	for i := range p.columns {
		c := &p.columns[i]
		at := p.offset
		plain := p.writePage(c)
		total += plain
		c.present = c.present[:0]
		c.values = c.values[:0]
		// ColumnChunk: file_offset, which is no longer used; ColumnMetaData
		chunks = append(chunks, structure{{2, int64(0)}, {3, structure{
			{1, physical(c.Kind)}, {2, list{plainEncoding, runLengths}}, {3, list{c.Name}}, {4, zstdCodec},
			{5, int64(p.rows)}, {6, plain}, {7, p.offset - at}, {9, at},
		}}})
	}
	p.groups = append(p.groups, structure{{1, chunks}, {2, total}, {3, int64(p.rows)}})
	p.allRows += int64(p.rows)
	p.rows = 0
	p.bytes = 0
}

// writePage writes a column as a data page: the definition levels (0 = null), which are one run of packed bits, then
// the values. It returns how many bytes head and page have before they are compressed.
func (p *parquet) writePage(c *column) (plain int64) {
	run := binary.AppendUvarint(nil, uint64(len(c.present))<<1|1)
	page := binary.LittleEndian.AppendUint32(nil, uint32(len(run)+len(c.present)))
	page = append(append(append(page, run...), c.present...), c.values...)
	packed := p.encoder.EncodeAll(page, nil)
	// PageHeader: DATA_PAGE
	head := appendThrift(nil, structure{{1, int32(0)}, {2, int32(len(page))}, {3, int32(len(packed))},
		{5, structure{{1, int32(p.rows)}, {2, plainEncoding}, {3, runLengths}, {4, runLengths}}}})
	p.write(head)
	p.write(packed)
	return int64(len(head) + len(page))
}

// close writes the last row group and the footer, a FileMetaData.
func (p *parquet) close() error {
	p.endGroup()
	_ = p.encoder.Close()
	schema := list{structure{{4, "requests"}, {5, int32(len(p.columns))}}}
	for _, c := range p.columns {
		element := structure{{1, physical(c.Kind)}, {3, optional}, {4, c.Name}}
		switch c.Kind {
		case record.Text:
			element = append(element, field{6, int32(0)}) // ConvertedType UTF8
		// TIMESTAMP_MICROS, and the LogicalType without which DuckDB takes it for local time: isAdjustedToUTC,
		// MICROS
		case record.Date:
			element = append(
				element,
				field{6, int32(10)},
				field{10, structure{{8, structure{{1, true}, {2, structure{{2, structure{}}}}}}}},
			)
		}
		schema = append(schema, element)
	}
	told := list{structure{{1, verdictKey}, {2, p.verdict}}} // KeyValue
	foot := appendThrift(nil,
		structure{{1, int32(1)}, {2, schema}, {3, p.allRows}, {4, p.groups}, {5, told}, {6, ourName}})
	p.write(binary.LittleEndian.AppendUint32(foot, uint32(len(foot))))
	p.write([]byte(parquetMagic))
	return p.err
}

// structure and list are of Thrift's compact protocol, in which heads and footer are written. Ids ascend by at most
// 15. Values are int32, int64, string, true, structure and list.
type (
	structure []field
	list      []any
	field     struct {
		id    int
		value any
	}
)

// thriftType is the type of a value; of elements that are not there it is that of a structure.
func thriftType(v any) byte {
	switch v.(type) {
	case bool:
		return 1
	case int32:
		return 5
	case int64:
		return 6
	case string:
		return 8
	case list:
		return 9
	}
	return 12
}

func appendThrift(dst []byte, v any) []byte {
	switch v := v.(type) {
	case int32:
		return binary.AppendVarint(dst, int64(v))
	case int64:
		return binary.AppendVarint(dst, v)
	case string:
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	case list:
		of := thriftType(append(v, nil)[0])
		if len(v) < 15 {
			dst = append(dst, byte(len(v)<<4)|of)
		} else {
			dst = binary.AppendUvarint(append(dst, 0xf0|of), uint64(len(v)))
		}
		for _, element := range v {
			dst = appendThrift(dst, element)
		}
	case structure:
		last := 0
		for _, f := range v {
			dst = appendThrift(append(dst, byte(f.id-last)<<4|thriftType(f.value)), f.value)
			last = f.id
		}
		return append(dst, 0)
	}
	return dst // true stands in the head of its field
}
