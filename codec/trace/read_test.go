package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const bailianFile = `{"chat_id":159,"parent_chat_id":55,"timestamp":61.114,"input_length":33,"output_length":132,"type":"text","turn":2,"hash_ids":[1089,1090,1091]}
{"chat_id":160,"timestamp":62.5,"input_length":16,"output_length":80,"type":"search","hash_ids":[7]}

{"chat_id":161,"parent_chat_id":160,"timestamp":62.5,"input_length":17,"output_length":1,"turn":2,"hash_ids":[7,8]}
{"chat_id":162,"parent_chat_id":161,"timestamp":63.000000001,"input_length":1,"output_length":1,"type":"text","turn":3}
`

const mooncakeFile = `{"timestamp": 27482, "input_length": 1025, "output_length": 52, "hash_ids": [46, 47, 18446744073709551615]}
{"timestamp": 30535.5, "input_length": 512, "output_length": 26, "hash_ids": [46]}
{"timestamp": 30535.5, "input_length": 7, "output_length": 3}
`

func read(t *testing.T, file string, o Options) *Trace {
	t.Helper()
	tr, err := Read(strings.NewReader(file), "t.jsonl", o)
	must.Do(t, err, "Read")
	checkInvariants(t, tr)
	return tr
}

// want compares a column.
func want[T comparable](t *testing.T, name string, got, want []T) {
	t.Helper()
	expect.List(t, got, want, name)
}

func TestRepair(t *testing.T) {
	var file strings.Builder
	for range 57 {
		file.WriteString(`{"timestamp":1,"input_length":513,"output_length":1,"hash_ids":[1,2]}` + "\n")
	}
	file.WriteString(`{"timestamp":1,"input_length":1500,"output_length":1,"hash_ids":[1,2]}
{"timestamp":1,"input_length":512,"output_length":0,"hash_ids":[1,2,3]}
{"timestamp":1,"input_length":5,"output_length":0,"hash_ids":[9]}
`)
	tr := read(t, file.String(), Options{})
	want(t, "missing", tr.Blocks(57), []uint64{1, 2})
	want(t, "surplus", tr.Blocks(58), []uint64{1})
	want(t, "output", tr.OutputTokens[57:], []int32{1, 1, 1})
	want(t, "notes", tr.Lint.Notes(), []string{
		"1 row repaired: fewer hash ids than blocks, the missing blocks are unique to the row",
		"1 row repaired: more hash ids than blocks, the surplus is ignored",
		"2 rows repaired: output_length 0, replayed as 1",
	})
	expect.Equal(t, tr.Lint.Repaired, 3, "rows repaired")
	_, err := Read(strings.NewReader(file.String()), "t", Options{Strict: true})
	wantError(t, err, `t:58: 2 hash ids, but input_length 1500 is 3 blocks of 512 tokens; fix the row, check --block-tokens, or replay without --bad-rows strict
t:59: 3 hash ids, but input_length 512 is 1 blocks of 512 tokens; fix the row, check --block-tokens, or replay without --bad-rows strict
t:60: output_length 0: a server generates at least 1 token; fix the row, or replay without --bad-rows strict
3 of 60 rows cannot be replayed; fix them, or leave them out with --bad-rows drop`)
}

// TestMismatchLimit is at and just above 5 %: 3 of 60 rows are repaired, 3 of 59 refused. Rows without ids do not
// count.
func TestMismatchLimit(t *testing.T) {
	good := `{"timestamp":1,"input_length":512,"output_length":1,"hash_ids":[1]}` + "\n"
	bad := `{"timestamp":1,"input_length":512,"output_length":1,"hash_ids":[1,2]}` + "\n"
	none := `{"timestamp":1,"input_length":512,"output_length":1}` + "\n"
	if tr := read(t, strings.Repeat(good, 57)+strings.Repeat(bad, 3), Options{}); tr.Lint.Repaired != 3 {
		t.Errorf("%d repaired, want 3", tr.Lint.Repaired)
	}
	_, err := Read(strings.NewReader(strings.Repeat(good, 56)+strings.Repeat(none, 100)+strings.Repeat(bad, 3)), "t", Options{Lenient: true})
	wantError(t, err, "t: 3 of 59 rows have a number of hash ids that is not input_length / 512 rounded up, first line 157 (2 ids for 512 tokens); pass the block size of the trace with --block-tokens")
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error:\n%v\nwant:\n%s", err, want)
	}
}

func TestLenient(t *testing.T) {
	b, err := os.ReadFile("testdata/many-faults.jsonl")
	must.Do(t, err)
	tr := read(t, string(b), Options{Lenient: true})
	want(t, "Row", tr.Row, []int32{0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33})
	if tr.Lint.Dropped != 24 || len(tr.Lint.Faults) != 10 || tr.FileRows != 36 {
		t.Errorf("%d dropped, %d faults, %d rows; want 24, 10, 36", tr.Lint.Dropped, len(tr.Lint.Faults), tr.FileRows)
	}
	notes := tr.Lint.Notes()
	if len(notes) != 12 || notes[0] != "24 bad rows dropped" || notes[1] != "dropped t.jsonl:2: input_length -1 is out of range; it must be from 1 to 16777216" || notes[11] != "… and 14 more" {
		t.Errorf("notes %q", notes)
	}
	_, err = Read(strings.NewReader("{}\n{\"timestamp\":-1}\n"), "t", Options{Lenient: true})
	wantError(t, err, "t: none of the 2 rows is usable, the first because: t:1: missing input_length, output_length; a row needs input_length and output_length, or text_input, messages or payload; check that this is the right file and --format")
}

func TestDetection(t *testing.T) {
	bad := "not json\n"
	for _, c := range []struct{ file, format string }{
		{bailianFile, "bailian"}, {mooncakeFile, "mooncake"}, {azureFile, "azure"}, {burstFile, "burstgpt"}, {oldBurstFile, "burstgpt"},
		{"\xef\xbb\xbf\r\n" + azureFile, "azure"},
		{strings.ReplaceAll(singleFile, `{"text":"caf`, `{"timestamp":0,"text":"caf`), "single_turn"}, {multiFile, "multi_turn"}, {shareFile, "sharegpt"},
		{"\xef\xbb\xbf \n" + shareFile, "sharegpt"}, {`{"id":"a","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}`, "sharegpt"},
		{`[{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}]`, "sharegpt"}, {`[{"text":"a"}]`, "single_turn"},
		{`{"messages":[{"role":"user","content":"a"}]}`, "mooncake"}, {`{"text_input":"a"}`, "mooncake"},
		{strings.Repeat(bad, 9) + bailianFile, "bailian"},
		{`{"timestamp":1,"input_length":2,"output_length":3}` + "\n" + bailianFile, "bailian"},
		{"\xef\xbb\xbf\r\n" + strings.ReplaceAll(mooncakeFile, "\n", "\r\n"), "mooncake"},
		{strings.TrimSuffix(mooncakeFile, "\n"), "mooncake"},
		{rawFile, "raw_payload"}, {batchFile, "batch"}, {inputsFile, "inputs_json"}, {genAIFile, "inputs_json"}, {captureFile(), "sagemaker"},
		{`{"messages":[{"role":"user"}],"tools":[{}]}`, "mooncake"}, {`{"model":"m","messages":[{"role":"user"}],"tools":[{}]}`, "raw_payload"},
		{`{"model":"m","messages":[{"role":"user"}],"output_length":3}`, "mooncake"}, {`{"payload":{"model":"m","messages":[]},"model":"m"}`, "mooncake"},
	} {
		tr, err := Read(strings.NewReader(c.file), "t", Options{Lenient: true})
		if err != nil || tr.Format != c.format {
			t.Errorf("%.60q…: %v, %v; want %s", c.file, tr, err, c.format)
		}
	}
	expect.Refused(Read(strings.NewReader(strings.Repeat(bad, 10)+bailianFile), "t", Options{Lenient: true}))(t, "", "ten bad rows tell no format, but there was no error")
}

func TestCompressed(t *testing.T) {
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	z := must.Have(zstd.NewWriter(&zst))(t)
	for _, half := range []string{mooncakeFile[:100], mooncakeFile[100:]} { // two gzip members, one after the other
		must.Have(g.Write([]byte(half)))(t)
		must.Do(t, g.Close())
		g.Reset(&gz)
		must.Have(z.Write([]byte(half)))(t)
	}
	must.Do(t, z.Close())
	skippable := []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc")
	plain := read(t, mooncakeFile, Options{})
	for name, data := range map[string][]byte{"gzip": gz.Bytes(), "zstd": zst.Bytes(), "zstd after a skippable frame": append(skippable, zst.Bytes()...)} {
		path := filepath.Join(t.TempDir(), "any-name")
		must.Do(t, os.WriteFile(path, data, 0o600))
		tr, err := Open(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sameTrace(t, tr, plain)
	}
}

// TestPackedBombs: small packed files that would fill the memory are refused, those of repeated rows are not.
func TestPackedBombs(t *testing.T) {
	const row = `{"timestamp":0,"input_length":1,"output_length":1}` + "\n"
	packed := func(rows int) *bytes.Buffer {
		var file bytes.Buffer
		z := must.Have(zstd.NewWriter(&file, zstd.WithEncoderConcurrency(1)))(t)
		must.Have(io.WriteString(z, strings.Repeat(row, rows)))(t)
		must.Do(t, z.Close())
		return &file
	}
	_, err := Read(packed(mostRows+1), "t", Options{})
	expect.Equal(t, fmt.Sprint(err), "t: more than 1048576 rows, and over 4 in a byte of the packed file, as no trace has; if you trust it, unpack it first", "many rows")
	tr := must.Have(Read(packed(100_000), "t", Options{}))(t)
	expect.Equal(t, tr.Len(), 100_000, "repeated rows")
	for _, file := range []int64{1 << 10, 1 << 20} {
		b := &boundedText{Reader: io.LimitReader(zeros{}, mostText+1), packed: &countedReader{}}
		b.packed.n.Store(file)
		n, err := io.Copy(io.Discard, b)
		if bomb := file < mostText/textOfAByte; bomb != errors.Is(err, errBomb) || n > mostText+1 {
			t.Errorf("%d bytes of text in %d: %v", n, file, err)
		}
		text := unreadable("t:7", errBomb).Error()
		expect.Equal(t, strings.Contains(text, "damaged"), false, "%s", text)
	}
}

// TestBoundedReading: nor do lists of objects fill the memory, or the same words before every request.
func TestBoundedReading(t *testing.T) {
	const row = `{"timestamp":1700000000,"request":{"model":"m","input":"x"},"response":{"output":[]}}`
	for _, text := range []string{strings.Repeat(row+"\n", detectRows), "[" + row + "," + row + "]"} {
		for _, before := range []int{0, mostRows - 1} {
			l := newLoader(Options{})
			l.begin("t", "")
			l.files[0].row = -before
			err := fmt.Sprint(l.read(strings.NewReader(text)))
			expect.Equal(t, strings.Contains(err, "more than 1048576 rows"), before > 0, "%d rows before: %s", before, err)
			for _, said := range []int64{mostText, mostText + 1} {
				l.packed.n.Store(said / (textOfAByte + 1))
				l.files[0].row, l.o.History.Repeated = 0, said
				err := fmt.Sprint(l.bounded())
				expect.Equal(t, strings.Contains(err, "was said before"), said > mostText, "%d bytes: %s", said, err)
			}
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open("testdata/no-such-file", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("no,columns\n"), 0o600))
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "a.csv:1: ")) {
		t.Errorf("a directory is the files in it, in order: %v", err)
	}
	for _, magic := range []string{"PK\x03\x04", "BZh91AY", "\xfd7zXZ\x00", "PAR1", "<!DOCTYPE html>", "<html>"} {
		expect.Refused(Read(strings.NewReader(magic+strings.Repeat("x", 50)), "t", Options{}))(t, "; ", magic)
	}
}

func TestOptionErrors(t *testing.T) {
	for _, o := range []Options{
		{Format: "parquet"}, {Format: "azure", TimeUnit: time.Second}, {TimeUnit: time.Minute}, {TimeUnit: -1}, {BlockTokens: -1}, {BlockTokens: 1 << 25}, {Lenient: true, Strict: true},
		{Limit: -1}, {Fields: map[string]string{"ts": "timestamp"}}, {Fields: map[string]string{"timestamp": ""}},
		{Fields: map[string]string{"timestamp": "t", "turn": "t"}}, {From: -1}, {To: -1}, {From: 2, To: 2},
	} {
		expect.Refused(Read(strings.NewReader(mooncakeFile), "t", o))(t, "", "%+v: no error", o)
	}
}

func TestUnits(t *testing.T) {
	for _, name := range []string{"ns", "us", "ms", "s"} {
		u, err := ParseUnit(name)
		if err != nil || UnitName(u) != name {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
	if u, err := ParseUnit(""); u != 0 || err != nil {
		t.Errorf("no unit: %v, %v", u, err)
	}
	expect.Refused(ParseUnit("min"))(t, "", "min is no unit here")
}

func TestTooManyTypes(t *testing.T) {
	l := newLoader(Options{Format: "bailian"})
	l.begin("t", "")
	keep := func(name ...byte) error { return l.keepType(&rows.Row{Type: name}) }
	for i := range 1 << 16 {
		if err := keep(byte(i), byte(i>>8)); err != nil || int(l.Type[i]) != i {
			t.Fatalf("type %d: %d, %v", i, l.Type[i:], err)
		}
	}
	if keep([]byte("one more")...) == nil {
		t.Error("65,537 types: no error")
	}
	if err := keep(5, 0); l.Type[1<<16] != 5 || err != nil {
		t.Errorf("a known type: %d, %v", l.Type[1<<16], err)
	}
}
