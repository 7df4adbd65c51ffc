package trace

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const azureFile = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" +
	"2023-11-16 18:17:03.9799600,4808,10\r\n" +
	"2023-11-16 18:17:04.0319601,3180,8\r\n" +
	"\"2023-11-16 18:17:04.031960100\", \"110\" ,27.0\r\n" +
	"2023-11-16T19:17:05.5+01:00,7433,14\r\n" +
	"2023-11-16 18:17:06Z,34,1\r\n"

const burstFile = `Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,17,3.1,ChatGPT,472,18,490,Conversation log
45,,0.4,GPT-4,1087,230,1317,API log
45.25,17,0,ChatGPT,510,0,510,Conversation log
60,17,2.5,ChatGPT,560,33,593,Conversation log
61,,,GPT-4,12,1,13,"log, ""other"""
62,d3b07384,2.5,ChatGPT,5,6,11,Conversation log
70,d3b07384,2.5,ChatGPT,50,60,110,Conversation log
`

const oldBurstFile = `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,230,1317,API log
`

func TestReadAzure(t *testing.T) {
	tr := read(t, azureFile, Options{Strict: true})
	if tr.Format != "azure" || tr.TimeUnit != time.Second || tr.FileRows != 5 || len(tr.Lint.Notes()) != 0 {
		t.Errorf("got %s, %v, %d rows, notes %q", tr.Format, tr.TimeUnit, tr.FileRows, tr.Lint.Notes())
	}
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 52_000_100, 52_000_100, 1_520_040_000, 2_020_040_000})
	want(t, "InputTokens", tr.InputTokens, []int32{4808, 3180, 110, 7433, 34})
	want(t, "OutputTokens", tr.OutputTokens, []int32{10, 8, 27, 14, 1})
	want(t, "Row", tr.Row, []int32{0, 1, 2, 3, 4})
	if tr.Session != nil || tr.Type != nil || tr.BlockRefs() != 0 {
		t.Errorf("sessions %v, types %v, %d blocks; want none", tr.Session, tr.Type, tr.BlockRefs())
	}
	moved := "GeneratedTokens,Region,ContextTokens,TIMESTAMP\n8,\"a,b\",3180,2024-05-10 00:00:00.009930+00:00\n"
	tr = read(t, moved, Options{})
	if tr.Format != "azure" || tr.InputTokens[0] != 3180 || tr.OutputTokens[0] != 8 {
		t.Errorf("columns in another order: %+v", tr)
	}
}

func TestReadBurstGPT(t *testing.T) {
	tr := read(t, burstFile, Options{})
	if tr.Format != "burstgpt" || tr.TimeUnit != time.Second || tr.FileRows != 7 || tr.Lint.Failed != 1 || tr.Lint.Dropped != 0 {
		t.Errorf("got %s, %v, %d rows, %d failed, %d dropped", tr.Format, tr.TimeUnit, tr.FileRows, tr.Lint.Failed, tr.Lint.Dropped)
	}
	want(t, "notes", tr.Lint.Notes(), []string{"1 row left out: requests that failed when they were recorded"})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 40e9, 55e9, 56e9, 57e9, 65e9})
	want(t, "InputTokens", tr.InputTokens, []int32{472, 1087, 560, 12, 5, 50})
	want(t, "OutputTokens", tr.OutputTokens, []int32{18, 230, 33, 1, 6, 60})
	want(t, "Row", tr.Row, []int32{0, 1, 3, 4, 5, 6})
	hashed := tr.Session[4]
	want(t, "Session", tr.Session, []int64{17, -2, 17, -5, hashed, hashed})
	if hashed < 1<<32 {
		t.Errorf("the conversation d3b07384 is %d, want a hash", hashed)
	}
	want(t, "Turn", tr.Turn, []int32{1, 1, 2, 1, 1, 2})
	want(t, "Chat", tr.Chat, []int64{0, 1, 3, 4, 5, 6})
	want(t, "Parent", tr.Parent, []int64{-1, -1, 0, -1, -1, 5})
	want(t, "Types", tr.Types, []string{"Conversation log", "API log", `log, "other"`})
	want(t, "Type", tr.Type, []uint16{0, 1, 0, 2, 0, 0})

	_, err := Read(strings.NewReader(burstFile), "t", Options{Strict: true})
	wantError(t, err, "t:4: the request failed when it was recorded; leave the row out, or replay without --bad-rows strict\n1 of 7 rows cannot be replayed; fix them, or leave them out with --bad-rows drop")
}

// TestReadOldBurstGPT has no conversations, but types.
func TestReadOldBurstGPT(t *testing.T) {
	tr := read(t, oldBurstFile, Options{})
	want(t, "Types", tr.Types, []string{"Conversation log", "API log"})
	want(t, "Type", tr.Type, []uint16{0, 1})
	if tr.Format != "burstgpt" || tr.Session != nil || tr.Turn != nil || tr.Chat != nil || tr.Parent != nil {
		t.Errorf("%+v: want no conversations", tr)
	}
}

// TestBurstGPTTurnsFollowTime: turns count in order of time, over the whole file, whatever is selected.
func TestBurstGPTTurnsFollowTime(t *testing.T) {
	head := "Timestamp,Session ID,Request tokens,Response tokens\n"
	tr := read(t, head+"9,1,3,1\n5,1,1,1\n7,1,2,1\n", Options{From: time.Second})
	want(t, "InputTokens", tr.InputTokens, []int32{2, 3})
	want(t, "Turn", tr.Turn, []int32{2, 3})
	want(t, "Parent", tr.Parent, []int64{1, 2})
}

// TestBurstGPTSparse: a quiet night or half a year of requests is no wrong unit.
func TestBurstGPTSparse(t *testing.T) {
	var file strings.Builder
	file.WriteString("Timestamp,Request tokens,Response tokens\n")
	for i := range 30 {
		file.WriteString(strings.Repeat("9", 1+i/5) + ",10,10\n")
	}
	file.WriteString("18403200,10,10\n") // 213 days
	if tr := read(t, file.String(), Options{}); tr.Len() != 31 {
		t.Errorf("%d rows", tr.Len())
	}
	if _, err := Read(strings.NewReader(azureFile), "t", Options{TimeUnit: time.Second}); err == nil || err.Error() != "t: timestamps of azure are dates, which have no unit; leave --time-unit out" {
		t.Errorf("a unit for dates: %v", err)
	}
}

func TestFields(t *testing.T) {
	names := map[string]string{"timestamp": "ts", "input_length": "prompt_tokens", "output_length": "completion_tokens", "hash_ids": "blocks"}
	file := `{"ts":1.5,"prompt_tokens":600,"completion_tokens":7,"blocks":[3,4],"timestamp":"noon","hash_ids":0}` + "\n" +
		`{"ts":2.5,"prompt_tokens":60,"completion_tokens":8,"z":"x"}` + "\n"
	tr := read(t, file, Options{Fields: names, TimeUnit: time.Second})
	if tr.Format != "mooncake" || tr.Session != nil {
		t.Errorf("%+v", tr)
	}
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 1e9})
	want(t, "InputTokens", tr.InputTokens, []int32{600, 60})
	want(t, "Blocks(0)", tr.Blocks(0), []uint64{3, 4})

	_, err := Read(strings.NewReader(strings.Replace(file, "60,", "-60,", 1)), "t", Options{Fields: names})
	wantError(t, err, "t:2: prompt_tokens -60 is out of range; it must be from 1 to 16777216\n1 of 2 rows cannot be replayed; fix them, or leave them out with --bad-rows drop")
	_, err = Read(strings.NewReader(`{"ts":1,"prompt_tokens":2}`), "t", Options{Fields: names})
	if err == nil || !strings.HasPrefix(err.Error(), "t:1: missing completion_tokens; ") {
		t.Errorf("a missing field: %v", err)
	}
	names["chat_id"] = "conversation"
	if tr := read(t, strings.ReplaceAll(file, `"ts"`, `"conversation":9,"ts"`), Options{Fields: names, BlockTokens: 512}); tr.Format != "bailian" || tr.Session[1] != 9 {
		t.Errorf("with chat ids: %+v", tr)
	}
	csv := "ts,prompt_tokens,completion_tokens\n4,5,6\n"
	if tr := read(t, csv, Options{Fields: names, Format: "burstgpt"}); tr.InputTokens[0] != 5 || tr.OutputTokens[0] != 6 {
		t.Errorf("columns by other names: %+v", tr)
	}
}

// TestLongNames: a column's name may be long; a message shows the beginning of a few.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("tokens", 20)
	tr := read(t, "TIMESTAMP,"+long+",GeneratedTokens\n2024-01-01 00:00:00,5,6\n", Options{Fields: map[string]string{"input_length": long}})
	want(t, "InputTokens", tr.InputTokens, []int32{5})
	_, err := Read(strings.NewReader(strings.Repeat(long+",", 100)), "t", Options{})
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), ", …; name its columns, as in --format burstgpt --fields ") {
		t.Errorf("a hundred long names: %v", err)
	}
}

// TestWrongHead: with the format given, the head must have its columns.
func TestWrongHead(t *testing.T) {
	_, err := Read(strings.NewReader("TIMESTAMP,ContextTokens\n"), "t", Options{Format: "azure", Lenient: true})
	wantError(t, err, "t:1: no column GeneratedTokens; the first line names the columns; rename them with --fields, or check --format")
	_, err = Read(strings.NewReader(mooncakeFile), "t", Options{Format: "azure"})
	if err == nil || !strings.HasPrefix(err.Error(), "t:1: no column TIMESTAMP, ContextTokens, GeneratedTokens; ") {
		t.Errorf("JSONL read as CSV: %v", err)
	}
}

func TestCSVAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, file := range []string{azureFile, burstFile} {
		lines := bytes.Split([]byte(strings.TrimSpace(file)), []byte("\n"))
		name := "azure"
		if file == burstFile {
			name = "burstgpt"
		}
		p := rows.NewReader(&named(name).Layout, time.Second)
		noError(t, p.TakeHead(lines[0]))
		parse := func() {
			for _, at := range []int{1, 2, 3} {
				if _, err := p.Parse(bytes.TrimSpace(lines[at])); err != nil && err != rows.ErrFailed {
					t.Fatal(err)
				}
			}
		}
		parse()
		if n := testing.AllocsPerRun(100, parse); n != 0 {
			t.Errorf("%s: %v allocations for 3 rows, want 0", name, n)
		}
	}
}

// FuzzCSVRow reads a row of each CSV format: no panic, and what is taken lies within the bounds.
func FuzzCSVRow(f *testing.F) {
	for _, file := range []string{azureFile, burstFile} {
		for line := range strings.SplitSeq(file, "\n") {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte("1969-12-31 23:59:60.1,1,1"))
	f.Add([]byte("2261-12-31 23:59:59.999999999-23:59,1,1"))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range formats.All() {
			if !format.CSV {
				continue
			}
			p := rows.NewReader(&format.Layout, format.Unit)
			noError(t, p.TakeHead([]byte(strings.TrimSpace(format.Write.Head))))
			r, err := p.Parse(line)
			if err != nil {
				continue
			}
			if r.TimeNS < 0 || r.InputTokens < 1 || r.InputTokens > rows.MaxTokens || r.OutputTokens < 0 || r.OutputTokens > rows.MaxTokens || r.Session < 0 || len(r.Type) > 128 {
				t.Fatalf("%s, %q: %+v", format.Name, line, r)
			}
		}
	})
}

// oracleDate reads a date with time.Parse, which is more lenient about hours of one digit and the like.
func oracleDate(text string) (time.Time, bool) {
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:[0-5]\d)?$`).MatchString(text) {
		return time.Time{}, false
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func dateSeeds() []string {
	return []string{
		"2023-11-16 18:17:03.9799600", "2024-05-10 00:00:00.009930+00:00", "2024-02-29T23:59:59Z", "2023-02-29 00:00:00", "2023-13-01 00:00:00",
		"2023-00-10 00:00:00", "2023-01-00 00:00:00", "2023-01-01 24:00:00", "2023-01-01 00:60:00", "2023-01-01 00:00:60", "2023-01-01 00:00:00.",
		"2023-01-01 00:00:00.123456789999", "2023-01-01 00:00:00-23:59", "2023-01-01 00:00:00+24:00", "2023-01-01 00:00:00+25:00", "2023-01-01 00:00:00+00:60",
		"2023-01-01 00:00:00+0000", "2023-01-01", "", "2023-1-01 00:00:00", "2023-01-01  0:00:00", "0000-01-01 00:00:00", "2023-01-01 00:00:d0",
		"9999-12-31 23:59:59.999999999-24:00",
	}
}

func checkDate(t *testing.T, text string) {
	t.Helper()
	got, err := rows.InstantOf("t", []byte(text))
	want, ok := oracleDate(text)
	ok = ok && want.Unix() >= 0 && want.Unix() < math.MaxInt64/int64(time.Second)
	if (err == nil) != ok || ok && got != want.UnixNano() {
		t.Errorf("%q: %v, %v; time.Parse says %v, %v", text, got, err, want, ok)
	}
}

func TestDates(t *testing.T) {
	for _, text := range dateSeeds() {
		checkDate(t, text)
		for i := range len(text) {
			for _, c := range "0359:-+.ZT " {
				checkDate(t, text[:i]+string(c)+text[i+1:])
			}
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, text := range dateSeeds() {
		f.Add(text)
	}
	f.Fuzz(checkDate)
}
