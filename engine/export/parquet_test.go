package export

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// dated are requests of every kind, with every key of requests.jsonl.
func dated(n int) []record.Record {
	all := mixed(n)
	for i := range all {
		r := &all[i]
		if r.SentNS != record.None {
			r.SentAt = record.Wall(started.Add(time.Duration(r.SentNS)).UnixMicro())
		}
		switch i % 5 {
		case 0:
			r.Choices, r.DecodeNS, r.Type, r.History = 2, int64(i), "chat", "live"
			r.JobName, r.WaitsFor = "a", "1 2s"
		case 3:
			r.Tenant, r.Model, r.Class, r.Priority = "acme", "lora-1", "gold", "-1"
		case 2:
			r.Phase = record.Warmup
		case 1:
			r.PrefillInstance = "pod-0"
			r.GatewayNS, r.UpstreamNS, r.Instance, r.FinishReason = 5, -7, "pod-1", "日本\xff\x00語"
		}
	}
	return all
}

// TestParquet reads the file back by a decoder of its own, several row groups and pages, and compares it with
// requests.jsonl.
func TestParquet(t *testing.T) {
	for _, groupRows := range []int{1, 7, 64, 1000} {
		dir := resultsDir(t, dated(300), nil, nil)
		lines := readObjects(t, filepath.Join(dir, report.RequestsName))
		var file bytes.Buffer
		p := must.Have(newParquet(&file, groupRows))(t)
		must.Do(t, report.EachRecord(dir, p.addRecord(&results{dir: dir, summary: &metrics.Summary{}})))
		must.Do(t, p.close())
		compareParquet(t, file.Bytes(), lines, (300+groupRows-1)/groupRows)
	}
	dir := resultsDir(t, nil, nil, nil)
	write(t, dir, "parquet")
	compareParquet(t, readFile(t, filepath.Join(dir, "requests.parquet")), nil, 0)
}

// TestParquetOfOldRows: rows without dates get those of the summary's start.
func TestParquetOfOldRows(t *testing.T) {
	dir := resultsDir(t, mixed(50), nil, nil)
	write(t, dir, "parquet")
	lines := readObjects(t, filepath.Join(dir, report.RequestsName))
	for _, l := range lines {
		if ns, ok := num(l, "sent_ns"); ok {
			l["sent_at"] = started.Add(time.Duration(ns)).Truncate(time.Microsecond).Format(time.RFC3339Nano)
		}
	}
	compareParquet(t, readFile(t, filepath.Join(dir, "requests.parquet")), lines, 1)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data := must.Have(os.ReadFile(path))(t)
	return data
}

func compareParquet(t *testing.T, data []byte, lines []object, groups int) {
	t.Helper()
	f := decodeParquet(t, data)
	if f.groups != groups || len(f.rows) != len(lines) {
		t.Fatalf("%d groups, %d rows, want %d, %d", f.groups, len(f.rows), groups, len(lines))
	}
	r := record.Record{SessionName: "a", JobName: "a", WaitsFor: "1", Type: "a", Instance: "a", PrefillInstance: "a", History: "a", Phase: record.Primer, Choices: 2,
		Tenant: "a", Model: "a", Class: "a", Priority: "1"}
	var all object
	must.Do(t, json.Unmarshal(r.AppendJSON(nil), &all))
	if got, want := slices.Sorted(slices.Values(f.names)), slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("columns %v\nwant %v", got, want)
	}
	for i, line := range lines {
		for _, name := range f.names {
			want := line[name]
			if date, ok := want.(string); ok && name == "sent_at" {
				at := must.Have(time.Parse(time.RFC3339Nano, date))(t)
				want = at.UnixMicro()
			}
			if v, ok := want.(float64); ok && !strings.HasSuffix(name, "_ms") {
				want = int64(v)
			}
			must.Equal(t, f.rows[i][name], want, "row %d: %s", i, name)
		}
	}
	for name, want := range map[string]string{
		"sent_at": "2 10 map[8:map[1:true 2:map[2:map[]]]]", "row": "2 <nil> <nil>", "ttft_ms": "5 <nil> <nil>", "error": "6 0 <nil>", "outcome": "6 0 <nil>",
	} {
		expect.Equal(t, f.types[name], want, "%s has type", name)
	}
}

// parquetFile is a file as the decoder of this test reads it.
type parquetFile struct {
	names  []string
	types  map[string]string // physical, converted and logical
	rows   []map[string]any
	groups int
}

// decodeParquet reads flat optional columns, written as PLAIN in pages of version 1, by the format's description alone.
func decodeParquet(t *testing.T, data []byte) (f parquetFile) {
	t.Helper()
	if n := len(data); n < 12 || string(data[:4]) != "PAR1" || string(data[n-4:]) != "PAR1" {
		t.Fatalf("%d bytes without the magic", len(data))
	}
	size := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	foot := (&thriftReader{t, data[len(data)-8-size : len(data)-8]}).structure()
	schema := foot[2].([]any)
	must.Equal(t, int(schema[0].(map[int]any)[5].(int64)), len(schema)-1, "children")
	f.types = map[string]string{}
	for _, s := range schema[1:] {
		s := s.(map[int]any)
		name := s[4].(string)
		f.names = append(f.names, name)
		must.Equal(t, s[3].(int64), 1, "%s is not optional", name)
		f.types[name] = fmt.Sprintf("%v %v %v", s[1], s[6], s[10])
	}
	unpack := must.Have(zstd.NewReader(nil))(t)
	defer unpack.Close()
	groups := foot[4].([]any)
	f.groups = len(groups)
	end := int64(4)
	for _, g := range groups {
		g := g.(map[int]any)
		begin, n := len(f.rows), g[3].(int64)
		for range n {
			f.rows = append(f.rows, map[string]any{})
		}
		total := int64(0)
		for i, c := range g[1].([]any) {
			m := c.(map[int]any)[3].(map[int]any)
			if m[4] != int64(6) || m[5] != n || m[3].([]any)[0] != f.names[i] || m[9] != end {
				t.Fatalf("column %d: %v, expected at %d", i, m, end)
			}
			head := &thriftReader{t, data[end:]}
			h := head.structure()
			from := len(data) - len(head.b)
			page, err := unpack.DecodeAll(data[from:from+int(h[3].(int64))], nil)
			if err != nil || int64(len(page)) != h[2] || h[5].(map[int]any)[1] != n {
				t.Fatalf("page of %d bytes, %v: %v", len(page), h, err)
			}
			headBytes := int64(from) - end
			end += m[7].(int64)
			total += m[6].(int64)
			if end != int64(from)+h[3].(int64) || m[6] != headBytes+int64(len(page)) {
				t.Fatalf("column %d: sizes %v of %d and %v", i, m, headBytes, h)
			}
			decodePage(t, page, m[1].(int64), f.names[i], f.rows[begin:])
		}
		must.Equal[any](t, total, g[2], "bytes")
	}
	must.Equal[any](t, foot[3], int64(len(f.rows)), "rows")
	return f
}

// decodePage sets the values of a column: definition levels of one bit, in runs that are packed or repeat, and PLAIN
// values.
func decodePage(t *testing.T, page []byte, physical int64, name string, rows []map[string]any) {
	t.Helper()
	n := binary.LittleEndian.Uint32(page)
	runs, values := page[4:4+n], page[4+n:]
	var present []bool
	for len(runs) > 0 {
		head, size := binary.Uvarint(runs)
		runs = runs[size:]
		if head&1 == 0 {
			present = append(present, slices.Repeat([]bool{runs[0] == 1}, int(head>>1))...)
			runs = runs[1:]
			continue
		}
		for range head >> 1 {
			for bit := range 8 {
				present = append(present, runs[0]>>bit&1 == 1)
			}
			runs = runs[1:]
		}
	}
	for i := range rows {
		if !present[i] {
			continue
		}
		switch physical {
		case 2:
			rows[i][name] = int64(binary.LittleEndian.Uint64(values))
			values = values[8:]
		case 5:
			rows[i][name] = math.Float64frombits(binary.LittleEndian.Uint64(values))
			values = values[8:]
		case 6:
			size := binary.LittleEndian.Uint32(values)
			rows[i][name] = string(values[4 : 4+size])
			values = values[4+size:]
		}
	}
	if len(values) > 0 {
		t.Fatalf("%s: %d bytes too many", name, len(values))
	}
}

// thriftReader reads Thrift's compact protocol.
type thriftReader struct {
	t *testing.T
	b []byte
}

func (r *thriftReader) byte() byte {
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *thriftReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.b = r.b[n:]
	return v
}

func (r *thriftReader) structure() map[int]any {
	out, id := map[int]any{}, 0
	for {
		head := r.byte()
		if head == 0 {
			return out
		}
		if head>>4 == 0 {
			r.t.Fatal("a field with a long id")
		}
		id += int(head >> 4)
		out[id] = r.value(head & 15)
	}
}

func (r *thriftReader) value(kind byte) any {
	switch kind {
	case 1, 2:
		return kind == 1
	case 5, 6:
		v := r.uvarint()
		return int64(v>>1) ^ -int64(v&1)
	case 8:
		n := r.uvarint()
		s := string(r.b[:n])
		r.b = r.b[n:]
		return s
	case 9:
		head := r.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = r.uvarint()
		}
		list := []any{}
		for range n {
			list = append(list, r.value(head&15))
		}
		return list
	case 12:
		return r.structure()
	}
	r.t.Fatalf("type %d", kind)
	return nil
}

// readers are what people read the file with.
const readers = `
import sys
try:
    import duckdb, pyarrow, pyarrow.parquet as pq
except ImportError as e:
    print("skip:", e); sys.exit()
path = sys.argv[1]
t = pq.read_table(path)
print(t.schema.field("sent_at").type, t.schema.field("row").type, t.schema.field("ttft_ms").type, t.schema.field("error").type)
print(t.num_rows, sum(t["row"].to_pylist()), t["ttft_ms"].null_count, t["error"].null_count, t["sent_at"].null_count)
q = "select count(*), sum(row), count(*) - count(ttft_ms), count(*) - count(error), count(*) - count(sent_at), epoch_us(min(sent_at)) from '%s'"
print(*duckdb.sql(q % path).fetchall()[0])
print(*[x[1] for x in duckdb.sql("describe select sent_at, row, ttft_ms, error from '%s'" % path).fetchall()])
`

// TestParquetReaders: pyarrow and DuckDB read the same, if they are there.
func TestParquetReaders(t *testing.T) {
	dir := resultsDir(t, dated(1000), nil, nil)
	write(t, dir, "parquet")
	out, err := exec.Command("python3", "-c", readers, filepath.Join(dir, "requests.parquet")).CombinedOutput()
	if strings.HasPrefix(string(out), "skip:") || len(out) == 0 && err != nil {
		t.Skipf("DuckDB and pyarrow do not read it here: %s%v", out, err)
	}
	noTTFT, noError, noDate, rows, sum, first := 0, 0, 0, 0, 0.0, int64(math.MaxInt64)
	for _, l := range readObjects(t, filepath.Join(dir, report.RequestsName)) {
		if l["phase"] != nil { // no part of the measurement
			continue
		}
		rows++
		sum += l["row"].(float64)
		if l["ttft_ms"] == nil {
			noTTFT++
		}
		if l["error"] == nil {
			noError++
		}
		if date, ok := l["sent_at"].(string); ok {
			at, _ := time.Parse(time.RFC3339Nano, date)
			first = min(first, at.UnixMicro())
		} else {
			noDate++
		}
	}
	counts := fmt.Sprintf("%d %.0f %d %d %d", rows, sum, noTTFT, noError, noDate)
	want := "timestamp[us, tz=UTC] int64 double string\n" + counts + "\n" + counts + " " + strconv.FormatInt(first, 10) + "\nTIMESTAMP WITH TIME ZONE BIGINT DOUBLE VARCHAR\n"
	if string(out) != want || err != nil {
		t.Errorf("%v\n%swant\n%s", err, out, want)
	}
}
