package trace

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// TestWriteExactText compares what each format of numbers writes, byte by byte.
func TestWriteExactText(t *testing.T) {
	for _, c := range []struct {
		format, file, want string
		limit              int
	}{
		{"bailian", bailianFile, `{"chat_id":159,"parent_chat_id":55,"timestamp":0,"input_length":33,"output_length":132,"type":"text","turn":2,"hash_ids":[1089,1090,1091]}
{"chat_id":160,"parent_chat_id":-1,"timestamp":1.386,"input_length":16,"output_length":80,"type":"search","turn":1,"hash_ids":[7]}
{"chat_id":161,"parent_chat_id":160,"timestamp":1.386,"input_length":17,"output_length":1,"turn":2,"hash_ids":[7,8]}
{"chat_id":162,"parent_chat_id":161,"timestamp":1.886000001,"input_length":1,"output_length":1,"type":"text","turn":3}
`, 0},
		{"mooncake", mooncakeFile, `{"timestamp":0,"input_length":1025,"output_length":52,"hash_ids":[46,47,18446744073709551615]}
{"timestamp":3053.5,"input_length":512,"output_length":26,"hash_ids":[46]}
{"timestamp":3053.5,"input_length":7,"output_length":3}
`, 0},
		{"azure", azureFile, `TIMESTAMP,ContextTokens,GeneratedTokens
2024-01-01 00:00:00.0000000,4808,10
2024-01-01 00:00:00.0520001,3180,8
2024-01-01 00:00:00.0520001,110,27
2024-01-01 00:00:01.5200400,7433,14
2024-01-01 00:00:02.0200400,34,1
`, 0},
		{"burstgpt", burstFile, `Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
0,17,,,472,18,490,Conversation log
40,,,,1087,230,1317,API log
55,17,,,560,33,593,Conversation log
56,,,,12,1,13,"log, ""other"""
`, 4},
	} {
		var b bytes.Buffer
		if err := Write(&b, read(t, c.file, Options{Limit: c.limit}), c.format); err != nil || b.String() != c.want {
			t.Errorf("%s: %v\n%swant:\n%s", c.format, err, b.String(), c.want)
		}
	}
}

// roundTrip writes a trace and reads it back.
func roundTrip(t *testing.T, tr *Trace, format string) *Trace {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, tr, format))
	back, err := Read(&b, "written", Options{BlockTokens: tr.BlockTokens, Strict: true})
	must.Do(t, err, "reading what was written")
	if back.Format != format || len(back.Lint.Notes()) != 0 && !formatOf(t, back).WholeSeconds {
		t.Fatalf("format %s, notes %q; want a clean %s trace", back.Format, back.Lint.Notes(), format)
	}
	return back
}

func TestRoundTrip(t *testing.T) {
	awkward := `{"chat_id":1,"timestamp":3,"input_length":1,"output_length":1,"type":"a \"quoted\" \\ \u0001 type \ud83d\ude00"}`
	for _, file := range []string{bailianFile, mooncakeFile, awkward, azureFile} {
		tr := read(t, file, Options{}).With(numbered)
		for _, format := range Written() {
			if f, _ := formats.ByName(format); f.Words {
				sameWords(t, roundTrip(t, tr, format), tr)
				continue
			}
			back := roundTrip(t, tr, format)
			if tr.Session != nil && back.Session != nil && formatOf(t, back).Has(rows.SessionField) {
				want(t, "Session", back.Session, tr.Session)
				back.Session = nil // turns are counted anew
			}
			sameTrace(t, back, tr)
		}
	}
	// A Mooncake trace has no conversations: in Bailian's format each row becomes one.
	back := roundTrip(t, read(t, mooncakeFile, Options{}), "bailian")
	want(t, "Session", back.Session, []int64{0, 1, 2})
	want(t, "Turn", back.Turn, []int32{1, 1, 1})
	want(t, "Types", back.Types, []string{""})
}

// TestNamedSessionsRoundTrip: conversations that have a name keep it where the format has names, and their turns
// elsewhere.
func TestNamedSessionsRoundTrip(t *testing.T) {
	tr := read(t, strings.ReplaceAll(burstFile, ",0,", ",7,"), Options{})
	back := roundTrip(t, tr, "burstgpt")
	sameTrace(t, back, tr)
	want(t, "Session", back.Session, tr.Session)
	back = roundTrip(t, tr, "bailian")
	want(t, "Parent", back.Parent, tr.Parent)
	want(t, "Turn", back.Turn, tr.Turn)
	want(t, "Chat", back.Chat, tr.Chat)
}

// TestPartialBlocksGetIDs: a last block without an id gets one that no other row has, where the format wants one of
// every block.
func TestPartialBlocksGetIDs(t *testing.T) {
	const file = `{"id":"a","block_size":64,"hash_id_scope":"global","requests":[{"t":0,"in":130,"out":5,"hash_ids":[1,9]},` +
		`{"t":1,"in":200,"out":5,"hash_ids":[1,9,3]},{"t":2,"in":192,"out":5,"hash_ids":[1,9,3]},{"t":3,"in":40,"out":5,"hash_ids":[]}]}`
	for _, format := range []string{"mooncake", "bailian"} {
		var b bytes.Buffer
		must.Do(t, Write(&b, read(t, file, Options{Format: "weka"}), format))
		back := read(t, b.String(), Options{Format: format, BlockTokens: 64, Strict: true})
		for i, ids := range [][]uint64{{1, 9, 10}, {1, 9, 3, 11}, {1, 9, 3}, nil} {
			want(t, format, back.Blocks(i), ids)
		}
	}
}

// headersFile has a row with headers of its own.
const headersFile = `{"timestamp":0,"input_length":5,"output_length":1,"tenant":"a","headers":{"cookie":"secret"}}`

// TestOwnHeadSaysWhatIsLost: the head of a trace that is made of another says what is left out of it, and which rows.
// So does that of one that is made of several of our own.
func TestOwnHeadSaysWhatIsLost(t *testing.T) {
	heads := func(format string, tr *Trace) Head {
		var out bytes.Buffer
		must.Do(t, Write(&out, tr, Own))
		return must.Have(Read(&out, format, Options{}))(t).Heads[0]
	}
	agents := must.Have(Open("../../bench/samples/copilot.jsonl", Options{}))(t)
	h := heads("copilot", agents)
	expect.List(t, h.Dropped, []string{"dependencies"}, "left out of jobs")
	expect.Equal(t, h.LostWords(), "5 failed", "rows lost")
	expect.List(t, heads("bailian", must.Have(Read(strings.NewReader(bailianFile), "bailian", Options{}))(t)).Dropped, []string{"types"}, "left out of conversations")
	file := filepath.Join(t.TempDir(), "day.jsonl")
	must.Do(t, WriteFile(file, agents, Own))
	both := heads("both", must.Have(OpenAll([]string{file, file}, Options{}))(t))
	expect.List(t, both.Dropped, []string{"dependencies"}, "left out of two files")
	expect.Equal(t, both.LostWords(), "10 failed", "rows lost of two files")
	var out bytes.Buffer
	must.Do(t, Write(&out, agents, Own))
	damaged := strings.Replace(out.String(), `"input_length":`, `"input_length":-`, 1)
	one := must.Have(Read(strings.NewReader(damaged), "one", Options{Lenient: true}))(t)
	expect.Equal(t, heads("one", one).LostWords(), "5 failed, 1 malformed", "rows lost of a damaged file")
	expect.Equal(t, one.Heads[0].LostWords(), "5 failed", "rows lost of it before")
}

// TestHeadersAreNotShared: the own format, which is made to be handed out, has no headers of rows, and the trace that is
// written keeps them.
func TestHeadersAreNotShared(t *testing.T) {
	var b bytes.Buffer
	tr := read(t, headersFile, Options{})
	must.Do(t, Write(&b, tr, Own))
	expect.Lacks(t, b.String(), "secret", "the file")
	expect.Equal(t, read(t, b.String(), Options{Strict: true}).OwnerOf(0), rows.Owner{Tenant: "a"}, "the written owner")
	expect.Equal(t, tr.OwnerOf(0), rows.Owner{Tenant: "a", Headers: "cookie: secret"}, "the trace's owner")
}

func TestWriteNotes(t *testing.T) {
	for _, c := range []struct {
		file, format string
		notes        []string
	}{
		{bailianFile, "bailian", nil},
		{bailianFile, "mooncake", []string{
			"mooncake has no place for types: they are left out",
			"the block ids stand for 16 tokens, where mooncake has 512: read the file with --block-tokens 16",
		}},
		{bailianFile, "burstgpt", []string{"burstgpt has no place for block ids: they are left out"}},
		{oldBurstFile, "azure", []string{"azure has no place for types: they are left out"}},
		{mooncakeFile, "mooncake", nil},
		{azureFile, "mooncake", nil},
		{azureFile, "bailian", nil},
		{headersFile, "mooncake", nil},
		{headersFile, Own, []string{"fastreplay has no place for headers: they are left out"}},
		{headersFile, "azure", []string{
			"azure has no place for tenants, models, classes and priorities: they are left out",
			"azure has no place for headers: they are left out",
		}},
	} {
		notes := must.Have(WriteNotes(read(t, c.file, Options{}), c.format))(t)
		want(t, c.format+"'s notes", notes, c.notes)
	}
	expect.Refused(WriteNotes(read(t, mooncakeFile, Options{}), "none"))(t, "", "an unknown format: no error")
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte(bailianFile))
	f.Add([]byte(mooncakeFile))
	f.Add([]byte(azureFile))
	f.Add([]byte(burstFile))
	f.Add([]byte(oldBurstFile))
	for _, file := range []string{rawFile, inputsFile, genAIFile, batchFile, captureFile(), singleFile, multiFile, shareFile, graphFile} {
		f.Add([]byte(file))
	}
	for _, file := range anyWritten() {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		tr, err := Read(bytes.NewReader(file), "f", Options{Lenient: true})
		if err != nil || tr.Lint.Repaired > 0 {
			t.Skip() // repaired rows would be repaired again
		}
		if formatOf(t, tr).Write == nil {
			t.Skip()
		}
		if tr.Parent != nil && (tr.Len() != tr.FileRows || tr.Format == "burstgpt" && tr.Lint.Unsorted > 0) {
			tr.Session = nil // rows cut off may have been parents, and rows without a conversation are numbered by their place
		}
		words := formatOf(t, tr).Words
		tr = tr.With(numbered)
		var b bytes.Buffer
		if err := Write(&b, tr, tr.Format); err != nil && words {
			t.Skip() // a chat with several questions, for one
		} else if err != nil {
			t.Fatal(err)
		}
		back, err := Read(&b, "written", Options{Format: tr.Format})
		must.Do(t, err, "reading what was written")
		if words {
			sameAsked(t, back.With(numbered), tr)
			return
		}
		sameTrace(t, back, tr)
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestWriteErrors(t *testing.T) {
	tr := read(t, mooncakeFile, Options{})
	if err := Write(fullDisk{}, tr, "mooncake"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	expect.Error(t, Write(&bytes.Buffer{}, tr, "parquet"), "known are "+strings.Join(Formats(), ", "), "an unknown format")
}

// TestLoggedOwners: whose request it is passes the checks of a row, wherever it stands in a log.
func TestLoggedOwners(t *testing.T) {
	log := func(owner string) string {
		return `{"request":{"messages":[{"role":"user","content":"a"}]},"response":{"usage":{"completion_tokens":2}},"owner":` + owner + "}\n"
	}
	for owner, what := range map[string]string{
		`{"priority":"1,\"x\":2"}`: "no whole number", `{"tenant":"a\u0000b"}`: "control character", `{"class":{}}`: "neither text nor a number",
		`{"model":"` + strings.Repeat("x", 513) + `"}`: "512 at most",
	} {
		_, err := Read(strings.NewReader(log(owner)), "log", Options{})
		expect.Contains(t, fmt.Sprint(err), what, owner)
	}
	var b bytes.Buffer
	must.Do(t, Write(&b, read(t, log(`{"priority":5}`)+log(`{"priority":"+6","tenant":"","class":null}`), Options{}), "mooncake"))
	back := read(t, b.String(), Options{Strict: true})
	want(t, "priorities", []string{back.OwnerOf(0).Priority, back.OwnerOf(1).Priority}, []string{"5", "6"})
}
