package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// oracleRow decodes a line with encoding/json and math/big, knowing nothing of the scanner. Sure is false where the
// oracle itself would take too long.
func oracleRow(line []byte, f *formats.Format) (r rows.Row, ok, sure bool) {
	values, ok := oracleValues(line, f)
	if !ok {
		return rows.Row{}, false, true
	}
	r = rows.Row{Parent: rows.NoParent, Turn: 1}
	for key, value := range values {
		if string(value) == "null" {
			continue
		}
		d := f.Field([]byte(key))
		r.Seen |= rows.SetOf(d)
		good := true
		switch d {
		case rows.TextField, rows.MessagesField, rows.PayloadField, rows.ToolsField, rows.ExtraField:
			good, sure = oracleVerbatim(&r, d, value), true
		case rows.SessionField:
			good, sure = oracleSession(&r, value), true
		case rows.HashIDsField:
			r.IDs, good, sure = oracleIDs(value)
		case rows.TypeField:
			var s string
			good, sure = json.Unmarshal(value, &s) == nil && len(s) <= 128, true
			r.Type = []byte(s)
		default:
			good, sure = oracleNumber(&r, d, value)
		}
		if !sure {
			return rows.Row{}, false, false
		}
		ok = ok && good
	}
	return r, ok && f.Required&^r.Seen == 0 && (f.Check == nil || oracleMooncake(&r)), true
}

// oracleVerbatim keeps what stands between the outermost quotes or brackets.
func oracleVerbatim(r *rows.Row, f rows.Field, value []byte) bool {
	text := string(value)
	inside := text[min(1, len(text)-1):max(len(text)-1, 1)]
	var list []map[string]any
	var object map[string]json.RawMessage
	switch f {
	case rows.TextField:
		r.Verbatim.Kind, r.Verbatim.Content = VerbatimText, []byte(inside)
		return text[0] == '"' && text != `""`
	case rows.MessagesField:
		r.Verbatim.Kind, r.Verbatim.Content = VerbatimMessages, []byte(inside)
		return json.Unmarshal(value, &list) == nil && len(list) > 0 && !slices.ContainsFunc(list, func(m map[string]any) bool { return m == nil })
	case rows.PayloadField:
		r.Verbatim.Kind, r.Verbatim.Content = VerbatimPayload, []byte(inside)
		return json.Unmarshal(value, &object) == nil && len(object) > 0
	case rows.ToolsField:
		r.Verbatim.Tools = value
		return json.Unmarshal(value, &list) == nil && !slices.ContainsFunc(list, func(m map[string]any) bool { return m == nil })
	}
	r.Verbatim.Extra = value
	return json.Unmarshal(value, &object) == nil
}

// oracleSession takes a name or a number; the empty name is none.
func oracleSession(r *rows.Row, value []byte) bool {
	var name string
	if json.Unmarshal(value, &name) != nil {
		if strings.ContainsRune("[{tf", rune(value[0])) {
			return false
		}
		name = string(value)
	}
	if name == "" {
		r.Seen &^= rows.SetOf(rows.SessionField)
		return true
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 {
		r.Session = n
		return true
	}
	r.Session, r.SessionName = -1, []byte(name) // some number
	return true
}

// oracleMooncake is the rule about what a row must have, once more.
func oracleMooncake(r *rows.Row) bool {
	has := func(f rows.Field) bool { return r.Seen&(1<<f) != 0 }
	prompts := 0
	for _, f := range []rows.Field{rows.InputField, rows.TextField, rows.MessagesField, rows.PayloadField} {
		if has(f) {
			prompts++
		}
	}
	return prompts == 1 && (!has(rows.InputField) || has(rows.OutputField)) && (has(rows.InputField) || !has(rows.HashIDsField)) &&
		(has(rows.MessagesField) || !has(rows.ToolsField)) && (has(rows.SessionField) || !has(rows.DelayField))
}

// oracleValues is the values of the known keys; a known key that occurs twice, and anything but one object, is not ok.
func oracleValues(line []byte, f *formats.Format) (map[string]json.RawMessage, bool) {
	if !json.Valid(line) || bytes.TrimSpace(line)[0] != '{' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	values := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, false
		}
		name := key.(string)
		if f.Field([]byte(name)) == rows.UnknownField {
			continue
		}
		if _, twice := values[name]; twice {
			return nil, false
		}
		values[name] = value
	}
	return values, true
}

func oracleNumber(r *rows.Row, f rows.Field, value []byte) (good, sure bool) {
	if strings.ContainsRune(`"[{tfn`, rune(value[0])) {
		return false, true
	}
	if !isPlainNumber(string(value)) {
		return false, false
	}
	v, _ := new(big.Rat).SetString(string(value))
	if f == rows.TimestampField || f == rows.DelayField {
		at := &r.TimeNS
		if f == rows.DelayField {
			at = &r.DelayNS
		}
		if v.Sign() < 0 {
			return false, true
		}
		v.Mul(v, big.NewRat(1_000_000_000, 1))
		if *at = 0; v.Cmp(big.NewRat(1<<62, 1)) > 0 && !v.IsInt() {
			return false, false // near the limit only whole numbers are sure
		}
		v.Add(v, big.NewRat(1, 2))
		ns := new(big.Int).Quo(v.Num(), v.Denom())
		*at = ns.Int64()
		return ns.IsInt64(), true
	}
	low, high := int64(0), int64(1<<63-1)
	switch f {
	case rows.InputField:
		low, high = 1, 16_777_216
	case rows.OutputField:
		high = 16_777_216
	case rows.TurnField:
		high = 1<<31 - 1
	case rows.ParentField:
		low = -1
	}
	if !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() < low || v.Num().Int64() > high {
		return false, true
	}
	n := v.Num().Int64()
	switch f {
	case rows.InputField:
		r.InputTokens = int32(n)
	case rows.OutputField:
		r.OutputTokens = int32(n)
	case rows.TurnField:
		r.Turn = int32(n)
	case rows.ChatField:
		r.Chat = n
	case rows.ParentField:
		r.Parent = n
	}
	return true, true
}

func oracleIDs(value []byte) (ids []uint64, good, sure bool) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil, false, true
	}
	for _, v := range list {
		if strings.ContainsRune(`"[{tfn`, rune(v[0])) {
			return nil, false, true
		}
		if !isPlainNumber(string(v)) {
			return nil, false, false
		}
		n, _ := new(big.Rat).SetString(string(v))
		if !n.IsInt() || !n.Num().IsUint64() {
			return nil, false, true
		}
		ids = append(ids, n.Num().Uint64())
	}
	return ids, true, true
}

// jsonFormats is the formats of which a line is a JSON object, one of them also with other names.
func jsonFormats() []*formats.Format {
	var list []*formats.Format
	for _, f := range formats.All() {
		if !f.CSV && f.Import == nil {
			list = append(list, f)
		}
	}
	return append(list, named("mooncake").Renamed(map[string]string{"timestamp": "ts", "hash_ids": "turn"}))
}

// checkRow compares a line's decoding with the oracle's, in each format: as the first of a file, after the line itself,
// and after usual rows.
func checkRow(t *testing.T, line []byte) {
	t.Helper()
	seeds := rowSeeds()
	for _, f := range jsonFormats() {
		want, ok, sure := oracleRow(line, f)
		if !sure {
			return
		}
		for _, before := range []string{"", string(line), seeds[0], seeds[1]} {
			p := rows.NewReader(&f.Layout, time.Second)
			if before != "" {
				_, _ = p.Parse([]byte(before))
			}
			got, err := p.Parse(line)
			if (err == nil) != ok {
				t.Fatalf("%s, %q after %q: error %v, but the oracle accepts it: %v", f.Name, line, before, err, ok)
			}
			if err == nil && !sameRow(*got, want) {
				t.Fatalf("%s, %q after %q:\ngot  %+v\nwant %+v", f.Name, line, before, *got, want)
			}
		}
	}
}

func sameRow(a, b rows.Row) bool {
	return a.TimeNS == b.TimeNS && a.InputTokens == b.InputTokens && a.OutputTokens == b.OutputTokens && a.Turn == b.Turn &&
		a.Chat == b.Chat && a.Parent == b.Parent && string(a.Type) == string(b.Type) && slices.Equal(a.IDs, b.IDs) &&
		a.Seen == b.Seen && a.DelayNS == b.DelayNS && string(a.SessionName) == string(b.SessionName) && (a.Session == b.Session || a.SessionName != nil) &&
		a.Verbatim.Kind == b.Verbatim.Kind && string(a.Verbatim.Content) == string(b.Verbatim.Content) &&
		string(a.Verbatim.Tools) == string(b.Verbatim.Tools) && string(a.Verbatim.Extra) == string(b.Verbatim.Extra)
}

// rowSeeds covers key order, escapes, unknown values of every kind and every kind of fault.
func rowSeeds() []string {
	return []string{
		`{"chat_id":159,"parent_chat_id":55,"timestamp":61.114,"input_length":521,"output_length":132,"type":"text","turn":2,"hash_ids":[1089,1090,1091,6326]}`,
		`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 18446744073709551615]}`,
		` { "hash_ids" : [ 1 ,2,	3 , 4.0,5e0 ] , "output_length" : 5.0 , "input_length" : 5e2 , "timestamp" : 1.5E-3 , "chat_id" : 1 } `,
		`{"\u0074imestamp":1,"input_length":2,"output_length":3,"chat_id":4,"type":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d x"}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"extra":{"a":[1,{"b":null},[]],"c":{}},"x":true,"y":false,"z":"\u1234\"}","w":-1.5e-7}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":null,"type":null,"turn":null,"parent_chat_id":null}`,
		`{"timestamp":1,"timestamp":2,"input_length":2,"output_length":3,"chat_id":4}`,
		"{\"timestamp\":1,\"input_length\":2,\"output_length\":3,\"chat_id\":4,\"type\":\"\xff\xc3\x28 long enough for words\"}",
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":[]}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":[01]}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":[1,]}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":[1 2]}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4,"hash_ids":[99999999999999999999,-1]}`,
		`{"timestamp":-1,"input_length":2,"output_length":3,"chat_id":9223372036854775807}`,
		`{"timestamp":9223372036.854775807,"input_length":2,"output_length":3,"chat_id":9223372036854775808}`,
		`{"timestamp":9223372036.854775807,"input_length":16777216,"output_length":0,"chat_id":0}`,
		`{"timestamp":1.,"input_length":2,"output_length":3,"chat_id":4}`,
		`{"timestamp":.5,"input_length":2,"output_length":3,"chat_id":4}`,
		`{"timestamp":1e,"input_length":2,"output_length":3,"chat_id":4}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4}}`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":4`,
		`{"timestamp":1,"input_length":2,"output_length":3,"chat_id":nul}`,
		`{"ts":1,"timestamp":"x","input_length":2,"output_length":3,"turn":[4]}`,
		`{"text_input":"caf\u00e9 \"a\"\n","output_length":20,"extra":{"temperature":0}}`,
		`{"timestamp":1,"messages":[{"role":"user","content":"a ]} b"}],"tools":[{"type":"function"}],"session_id":"x-1","delay":1.5}`,
		`{"payload":{"model":"m","prompt":[1,2]},"session_id":17,"timestamp":null}`,
		`{"messages":[ ],"text_input":"","payload":{ },"tools":[null],"extra":[]}`,
		`{"timestamp":1,"input_length":2,"text_input":"x","output_length":3}`,
		`{}`, `[]`, `null`, `1`, `"x"`, `{"a"}`, `{"a":}`, `{,}`, `{"a":1,}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\x01\"}",
	}
}

func TestRowsMatchOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	for _, s := range rowSeeds() {
		checkRow(t, []byte(s))
		for cut := range len(s) { // every prefix, and every line with one byte changed
			checkRow(t, []byte(s[:cut]))
			for _, c := range []byte(`0,"\]} e.`) {
				changed := []byte(s)
				changed[cut] = c
				checkRow(t, changed)
			}
		}
	}
}

func FuzzRow(f *testing.F) {
	for _, s := range rowSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(bytes.TrimSpace(line)) == 0 {
			t.Skip() // the reader skips blank lines
		}
		checkRow(t, line)
	})
}

// FuzzTwoRows looks for a row that reads otherwise after another one.
func FuzzTwoRows(f *testing.F) {
	seeds := rowSeeds()
	for i := range seeds {
		f.Add([]byte(seeds[i]), []byte(seeds[i]))
		f.Add([]byte(seeds[i]), []byte(seeds[(i+1)%len(seeds)]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, format := range jsonFormats() {
			fresh, used := rows.NewReader(&format.Layout, time.Second), rows.NewReader(&format.Layout, time.Second)
			want, wantErr := fresh.Parse(second)
			_, _ = used.Parse(first)
			for range 2 {
				got, err := used.Parse(second)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && !sameRow(*got, *want) {
					t.Fatalf("%s, %q after %q\ngot  %+v, %v\nwant %+v, %v", format.Name, second, first, got, err, want, wantErr)
				}
			}
		}
	})
}

func TestNestingLimit(t *testing.T) {
	for _, depth := range []int{1, 100, 9998, 9999, 10000, 10001} {
		for _, pair := range []string{"[]", `{}`} {
			open, shut := pair[:1], pair[1:]
			inner := "1"
			if open == "{" {
				open, inner = `{"a":`, "1"
			}
			line := []byte(`{"timestamp":1,"input_length":2,"output_length":3,"x":` + strings.Repeat(open, depth) + inner + strings.Repeat(shut, depth) + `}`)
			p := rows.NewReader(&named("mooncake").Layout, time.Second)
			if _, err := p.Parse(line); (err == nil) != json.Valid(line) {
				t.Errorf("%d × %s: error %v, encoding/json accepts it: %v", depth, pair, err, json.Valid(line))
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	lines := [][]byte{[]byte(rowSeeds()[0]), []byte(rowSeeds()[2]), []byte(rowSeeds()[3])}
	p := rows.NewReader(&named("bailian").Layout, time.Second)
	parse := func() {
		for _, l := range lines {
			_, err := p.Parse(l)
			must.Do(t, err)
		}
	}
	parse() // grows the scratch buffers
	expect.Equal(t, testing.AllocsPerRun(100, parse), 0, "allocations for %d rows", len(lines))
}

// isPlainNumber reports whether s is a JSON number whose exponent big.Rat can bear.
func isPlainNumber(s string) bool {
	if s == "" || !strings.ContainsRune("-0123456789", rune(s[0])) || !json.Valid([]byte(s)) || strings.TrimSpace(s) != s {
		return false
	}
	at := strings.IndexAny(s, "eE")
	return at < 0 || len(s)-at < 6
}

// named is the format with a name.
func named(name string) *formats.Format {
	f, err := formats.ByName(name)
	if err != nil {
		panic(err)
	}
	return f
}
