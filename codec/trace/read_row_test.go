package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oracleRow decodes a line with encoding/json and math/big, knowing nothing of the scanner. Sure is false where the
// oracle itself would take too long.
func oracleRow(line []byte, f *format) (r row, ok, sure bool) {
	values, ok := oracleValues(line, f)
	if !ok {
		return row{}, false, true
	}
	r = row{parent: noParent, turn: 1}
	for key, value := range values {
		if string(value) == "null" {
			continue
		}
		d := f.field([]byte(key))
		r.seen |= setOf(d)
		good := true
		switch d {
		case textField, messagesField, payloadField, toolsField, extraField:
			good, sure = oracleVerbatim(&r, d, value), true
		case sessionField:
			good, sure = oracleSession(&r, value), true
		case idsField:
			r.ids, good, sure = oracleIDs(value)
		case typeField:
			var s string
			good, sure = json.Unmarshal(value, &s) == nil && len(s) <= 128, true
			r.typ = []byte(s)
		default:
			good, sure = oracleNumber(&r, d, value)
		}
		if !sure {
			return row{}, false, false
		}
		ok = ok && good
	}
	return r, ok && f.required&^r.seen == 0 && (f.check == nil || oracleMooncake(&r)), true
}

// oracleVerbatim keeps what stands between the outermost quotes or brackets.
func oracleVerbatim(r *row, f field, value []byte) bool {
	text := string(value)
	inside := text[min(1, len(text)-1):max(len(text)-1, 1)]
	var list []map[string]any
	var object map[string]json.RawMessage
	switch f {
	case textField:
		r.verbatim.Kind, r.verbatim.Content = VerbatimText, []byte(inside)
		return text[0] == '"' && text != `""`
	case messagesField:
		r.verbatim.Kind, r.verbatim.Content = VerbatimMessages, []byte(inside)
		return json.Unmarshal(value, &list) == nil && len(list) > 0 && !slices.ContainsFunc(list, func(m map[string]any) bool { return m == nil })
	case payloadField:
		r.verbatim.Kind, r.verbatim.Content = VerbatimPayload, []byte(inside)
		return json.Unmarshal(value, &object) == nil && len(object) > 0
	case toolsField:
		r.verbatim.Tools = value
		return json.Unmarshal(value, &list) == nil && !slices.ContainsFunc(list, func(m map[string]any) bool { return m == nil })
	}
	r.verbatim.Extra = value
	return json.Unmarshal(value, &object) == nil
}

// oracleSession takes a name or a number; the empty name is none.
func oracleSession(r *row, value []byte) bool {
	var name string
	if json.Unmarshal(value, &name) != nil {
		if strings.ContainsRune("[{tf", rune(value[0])) {
			return false
		}
		name = string(value)
	}
	if name == "" {
		r.seen &^= setOf(sessionField)
		return true
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 {
		r.session = n
		return true
	}
	r.session, r.sessionName = -1, []byte(name) // some number
	return true
}

// oracleMooncake is the rule about what a row must have, once more.
func oracleMooncake(r *row) bool {
	has := func(f field) bool { return r.seen&(1<<f) != 0 }
	prompts := 0
	for _, f := range []field{inputField, textField, messagesField, payloadField} {
		if has(f) {
			prompts++
		}
	}
	return prompts == 1 && (!has(inputField) || has(outputField)) && (has(inputField) || !has(idsField)) &&
		(has(messagesField) || !has(toolsField)) && (has(sessionField) || !has(delayField))
}

// oracleValues is the values of the known keys; a known key that occurs twice, and anything but one object, is not ok.
func oracleValues(line []byte, f *format) (map[string]json.RawMessage, bool) {
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
		if f.field([]byte(name)) == unknownField {
			continue
		}
		if _, twice := values[name]; twice {
			return nil, false
		}
		values[name] = value
	}
	return values, true
}

func oracleNumber(r *row, f field, value []byte) (good, sure bool) {
	if strings.ContainsRune(`"[{tfn`, rune(value[0])) {
		return false, true
	}
	if !isPlainNumber(string(value)) {
		return false, false
	}
	v, _ := new(big.Rat).SetString(string(value))
	if f == timestampField || f == delayField {
		at := &r.timeNS
		if f == delayField {
			at = &r.delayNS
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
	case inputField:
		low, high = 1, 16_777_216
	case outputField:
		high = 16_777_216
	case turnField:
		high = 1<<31 - 1
	case parentField:
		low = -1
	}
	if !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() < low || v.Num().Int64() > high {
		return false, true
	}
	n := v.Num().Int64()
	switch f {
	case inputField:
		r.input = int32(n)
	case outputField:
		r.output = int32(n)
	case turnField:
		r.turn = int32(n)
	case chatField:
		r.chat = n
	case parentField:
		r.parent = n
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
func jsonFormats() []*format {
	var list []*format
	for _, f := range formats() {
		if !f.csv && f.items == nil {
			list = append(list, f)
		}
	}
	return append(list, mooncake().renamed(map[string]string{"timestamp": "ts", "hash_ids": "turn"}))
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
			p := newRowParser(f, time.Second)
			if before != "" {
				_ = p.parse([]byte(before))
			}
			err := p.parse(line)
			if (err == nil) != ok {
				t.Fatalf("%s, %q after %q: error %v, but the oracle accepts it: %v", f.name, line, before, err, ok)
			}
			if err == nil && !sameRow(p.row, want) {
				t.Fatalf("%s, %q after %q:\ngot  %+v\nwant %+v", f.name, line, before, p.row, want)
			}
		}
	}
}

func sameRow(a, b row) bool {
	return a.timeNS == b.timeNS && a.input == b.input && a.output == b.output && a.turn == b.turn &&
		a.chat == b.chat && a.parent == b.parent && string(a.typ) == string(b.typ) && slices.Equal(a.ids, b.ids) &&
		a.seen == b.seen && a.delayNS == b.delayNS && string(a.sessionName) == string(b.sessionName) && (a.session == b.session || a.sessionName != nil) &&
		a.verbatim.Kind == b.verbatim.Kind && string(a.verbatim.Content) == string(b.verbatim.Content) &&
		string(a.verbatim.Tools) == string(b.verbatim.Tools) && string(a.verbatim.Extra) == string(b.verbatim.Extra)
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
			fresh, used := newRowParser(format, time.Second), newRowParser(format, time.Second)
			want := fresh.parse(second)
			_ = used.parse(first)
			for range 2 {
				if got := used.parse(second); fmt.Sprint(got) != fmt.Sprint(want) || got == nil && !sameRow(used.row, fresh.row) {
					t.Fatalf("%s, %q after %q\ngot  %+v, %v\nwant %+v, %v", format.name, second, first, used.row, got, fresh.row, want)
				}
			}
		}
	})
}

// TestShapeIsUsed keeps the short way from falling into disuse unnoticed.
func TestShapeIsUsed(t *testing.T) {
	const (
		usual = `{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5], "x": "y"}`
		alike = `{"timestamp": 2.5, "input_length": 20, "output_length": 30, "hash_ids": [], "x": {"z": 0}}`
	)
	for _, c := range []struct {
		row  string
		same bool
	}{
		{usual, true},
		{alike, true},
		{strings.Replace(alike, " ", "", 1), false},
		{strings.Replace(alike, "}}", "} }", 1), false},
		{strings.Replace(alike, "20", "-20", 1), false},
		{strings.Replace(alike, "output", "0utput", 1), false},
		{alike + " ", false},
		{`{}`, false},
	} {
		p := newRowParser(mooncake(), time.Second)
		noError(t, p.parse([]byte(usual)))
		p.empty()
		if same := p.sameShape([]byte(c.row)); same != c.same {
			t.Errorf("%s: the same shape: %v, want %v", c.row, same, c.same)
		}
	}
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
			p := newRowParser(mooncake(), time.Second)
			if err := p.parse(line); (err == nil) != json.Valid(line) {
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
	p := newRowParser(bailian(), time.Second)
	parse := func() {
		for _, l := range lines {
			noError(t, p.parse(l))
		}
	}
	parse() // grows the scratch buffers
	if n := testing.AllocsPerRun(100, parse); n != 0 {
		t.Errorf("%v allocations for %d rows, want 0", n, len(lines))
	}
}

// TestWords compares the word trick with a loop over bytes, on words that mix the bytes around every boundary.
func TestWords(t *testing.T) {
	edges := []byte{0, 1, ' ' - 1, ' ', '!', '"', '#', '/', '0', '1', '5', '8', '9', ':', '[', '\\', ']', 0x7f, 0x80, 0xb0, 0xb9, 0xc6, 0xff}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500_000 {
		var b [8]byte
		for i := range b {
			b[i] = edges[rng.IntN(len(edges))]
			if rng.IntN(2) == 0 {
				b[i] = '0' + byte(rng.IntN(10))
			}
		}
		word := binary.LittleEndian.Uint64(b[:])
		digits := 0
		for digits < 8 && b[digits] >= '0' && b[digits] <= '9' {
			digits++
		}
		want, _ := strconv.ParseUint(string(b[:digits]), 10, 64)
		if v, n := leadingDigits(word); n != digits || v != want {
			t.Fatalf("leadingDigits(%q) = %d, %d; want %d, %d", b, v, n, want, digits)
		}
	}
}

func TestPlainNumber(t *testing.T) {
	for _, c := range []struct {
		in string
		v  uint64
		n  int
	}{
		{"", 0, 0}, {"x", 0, 0}, {"7", 7, 1}, {"0,", 0, 1}, {"01", 0, 0}, {"0000000000", 0, 0}, {"12345678", 12345678, 8}, {"123456789,1234567", 123456789, 9},
		{"1234567,", 1234567, 7}, {"9999999999999999999", 9999999999999999999, 19}, {"9999999999999999999]      ", 9999999999999999999, 19},
		{"10000000000000000000", 0, 0}, {"18446744073709551615", 0, 0},
	} {
		if v, n := plainNumber([]byte(c.in), 0); n != c.n || n > 0 && v != c.v {
			t.Errorf("plainNumber(%q) = %d, %d; want %d, %d", c.in, v, n, c.v, c.n)
		}
	}
}
