package trace

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
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
		must.Do(t, p.TakeHead(lines[0]))
		parse := func() {
			for _, at := range []int{1, 2, 3} {
				if _, err := p.Parse(bytes.TrimSpace(lines[at])); err != nil && err != rows.ErrFailed {
					t.Fatal(err)
				}
			}
		}
		parse()
		expect.Equal(t, testing.AllocsPerRun(100, parse), 0, "%s: allocations for 3 rows", name)
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
			must.Do(t, p.TakeHead([]byte(strings.TrimSpace(format.Write.Head))))
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
