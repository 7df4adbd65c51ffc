package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestParseIsTheInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		want := random(rng)
		line := want.AppendJSON(nil)
		got := Record{Row: 99, Error: "left over"}
		must.Do(t, Parse(line, &got), line)
		must.Equal(t, got, *want, "line %s", line)
	}
}

func TestParseOtherVersions(t *testing.T) {
	var r, want Record
	must.Do(t, Parse([]byte(`{"outcome":"reset","new_key":[{"a":1}],"row":7}`), &r))
	want.Clear()
	want.Row, want.Outcome = 7, Reset
	want.Chunks, want.Resent, want.BytesSent, want.BytesReceived = None, None, None, None
	expect.Equal(t, r, want)
	must.Do(t, Parse([]byte(`{"outcome":"reset","row":7,"input_tokens":5,"output_tokens":6,"error":"a \"input_tokens\":9"}`), &r))
	if r.InputTokens != 5 || r.BuiltTokens != 5 || r.OutputTokens != 6 {
		t.Errorf("of a file with older names: %+v", r)
	}
}

func TestParseErrors(t *testing.T) {
	for line, want := range map[string]string{
		``:                            "not a record",
		`{`:                           "not a record",
		`[]`:                          "not a record",
		`{}`:                          `"row" or "outcome"`,
		`{"row":1}`:                   `"row" or "outcome"`,
		`{"outcome":"ok"}`:            `"row" or "outcome"`,
		`{"row":1,"outcome":null}`:    `"row" or "outcome"`,
		`{"row":null,"outcome":"ok"}`: `"row" or "outcome"`,
		`{"row":1,"outcome":5}`:       "not a record",
		`{"row":1,"outcome":["ok"]}`:  "not a record",
		`{"row":1,"outcome":""}`:      `outcome ""`,
		`{"row":1,"outcome":"so"}`:    `"so"`,
		`{"row":1.5,"outcome":"ok"}`:  "not a record",
		`{"row":"1","outcome":"ok"}`:  "not a record",
		`{"row":1,"outcome":"ok"} x`:  "not a record",
		`{"row":1,"outcome":"ok","tokens_from":"guesswork"}`:             `"guesswork"`,
		`{"row":1,"outcome":"ok","sent_at":"yesterday"}`:                 `"yesterday"`,
		`{"row":1,"outcome":"ok","sent_at":"0000-01-01T00:00:00+23:59"}`: "RFC 3339",
	} {
		expect.Error(t, Parse([]byte(line), new(Record)), want, "Parse(%s)", line)
	}
}

// lines returns n records and their lines.
func lines(n int) ([]Record, []byte) {
	rng := rand.New(rand.NewPCG(5, 6))
	var out []byte
	records := make([]Record, n)
	for i := range records {
		records[i] = *random(rng)
		records[i].Row = int64(i)
		out = records[i].AppendJSON(out)
	}
	return records, out
}

// readAll returns the records up to the first error, which is nil at the end.
func readAll(t *testing.T, data []byte) ([]Record, error) {
	t.Helper()
	d, err := NewReader(bytes.NewReader(data), "f")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var out []Record
	for {
		var r Record
		switch err := d.Next(&r); {
		case err == io.EOF:
			return out, nil
		case err != nil:
			return out, err
		}
		out = append(out, r)
	}
}

func TestReader(t *testing.T) {
	want, plain := lines(300)
	z := must.Have(zstd.NewWriter(nil))(t)
	half := bytes.LastIndexByte(plain[:len(plain)/2], '\n') + 1
	for name, data := range map[string][]byte{
		"plain":      plain,
		"blank line": append([]byte("\n"), plain...),
		"CRLF":       bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n")),
		"zstd":       z.EncodeAll(plain, nil),
		"two frames": z.EncodeAll(plain[half:], z.EncodeAll(plain[:half], nil)),
	} {
		got, err := readAll(t, data)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d records and %v, want %d", name, len(got), err, len(want))
		}
	}
	if got, err := readAll(t, nil); err != nil || len(got) != 0 {
		t.Errorf("empty: %v, %v", got, err)
	}
}

// TestReaderOfABrokenFile cuts a file at every byte: the whole records before the cut must come out, and then EOF or
// ErrUnfinished, never a wrong record.
func TestReaderOfABrokenFile(t *testing.T) {
	want, plain := lines(3)
	z := must.Have(zstd.NewWriter(nil))(t)
	var framed []byte
	var frameEnd []int
	for i := range want {
		framed = z.EncodeAll(want[i].AppendJSON(nil), framed)
		frameEnd = append(frameEnd, len(framed))
	}
	check := func(kind string, data []byte, n, whole int) {
		got, err := readAll(t, data[:n])
		if len(got) != whole || (err != nil && !errors.Is(err, ErrUnfinished)) {
			t.Fatalf("%s cut at %d: %d records and %v, want %d", kind, n, len(got), err, whole)
		}
		for i := range got {
			must.Equal(t, got[i], want[i], "%s cut at %d: record %d", kind, n, i)
		}
	}
	for n := range plain {
		check("plain", plain, n, bytes.Count(plain[:n], []byte("\n")))
	}
	for n := range framed {
		whole := 0
		for whole < len(frameEnd) && frameEnd[whole] <= n {
			whole++
		}
		if n >= 4 || n == 0 { // with less than the magic number it is a broken plain line
			check("zstd", framed, n, whole)
		}
	}
}

func TestReaderNamesTheLine(t *testing.T) {
	_, plain := lines(2)
	_, err := readAll(t, append(plain, "{\"row\":true}\n"...))
	if err == nil || !strings.HasPrefix(err.Error(), "f:3: ") || errors.Is(err, ErrUnfinished) {
		t.Errorf("got %v, want f:3", err)
	}
	long := append(append(plain, bytes.Repeat([]byte(" "), MaxLineBytes+(1<<20))...), '\n')
	expect.Refused(readAll(t, long))(t, "f:3: longer than")
}

func FuzzParse(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		f.Add(random(rng).AppendJSON(nil))
	}
	f.Add([]byte(`{"row":1,"outcome":"ok","error":null}`))
	f.Add([]byte(`{"row":0,"decode_ns":0,"outcome":"truncated"}`))
	f.Add([]byte(`{"row":0,"sent_at":"9999-12-31T23:59:59-01:00","outcome":"ok","input_tokens":1}`))
	f.Add([]byte(`{"row":0,"choices":1,"decode_ns":5,"outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var first, second Record
		if Parse(line, &first) != nil {
			return
		}
		again := first.AppendJSON(nil)
		must.Do(t, Parse(again, &second), "%q was read, but not %q", line, again)
		must.Equal(t, first, second, "%q:\nfirst", line)
	})
}
