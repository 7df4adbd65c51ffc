package json

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestPlain puts every byte at every place of a string, alone and before a byte that ends the search.
func TestPlain(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, after := range []byte{'x', '"', '\\', 0, 0xff} {
				b := []byte("éxxxxxxxxxxxxxxxxxxxxx")
				b[at], b[at+1] = byte(c), after
				for from := range at + 1 {
					want := from
					for want < len(b) && b[want] != '"' && b[want] != '\\' && b[want] >= ' ' {
						want++
					}
					must.Equal(t, Plain(b, from), want, "%q from %d", b, from)
				}
			}
		}
	}
}

func TestAppendUnescaped(t *testing.T) {
	for in, want := range map[string]string{
		`too \"long\"\n\u00e9 \ud83d\ude00`: "too \"long\"\né 😀", `\ud83d!`: "\ufffd!",
		`cut\`: `cut\`, `cut\u00`: `cut\u00`, `\x`: `\x`, "": "",
	} {
		expect.Equal(t, string(AppendUnescaped([]byte("> "), []byte(in))), "> "+want, "%q: %q", in, want)
	}
}

func TestRepair(t *testing.T) {
	for in, want := range map[string]string{
		``: ``, `abc`: `abc`, `\ud83d\ude00`: `\ud83d\ude00`, `x\ud83d`: `x\ufffd`, `\ude00\ud83d`: `\ufffd\ufffd`, `\ud83d\ud83d\ude00`: `\ufffd\ud83d\ude00`,
		`\ud83dx\ude00`: `\ufffdx\ufffd`, `\\ud83d`: `\\ud83d`, `\\\ud83d`: `\\\ufffd`, `\n\"\u00e9é`: `\n\"\u00e9é`, "a\xf0\x9f": "a\ufffd", "\xff\\ud83d": "\ufffd\\ufffd",
		`\ud83d\u0041`: `\ufffd\u0041`,
	} {
		expect.Equal(t, string(Repair([]byte(in))), want, in)
	}
}

// FuzzRepair wants what encoding/json decodes to stay the same, and no surrogate to be left alone.
func FuzzRepair(f *testing.F) {
	f.Add([]byte(`a\ud83d\ude00\ud83d\\\ude00`))
	f.Add([]byte("\xf0\x9f\\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		quote := func(b []byte) []byte { return []byte(`"` + string(b) + `"`) }
		var want, got string
		if json.Unmarshal(quote(in), &want) != nil {
			return
		}
		out := Repair(append([]byte(nil), in...))
		must.Do(t, json.Unmarshal(quote(out), &got), "%q → %q", in, out)
		if utf8.Valid(in) && got != want || !utf8.Valid(out) {
			t.Fatalf("%q → %q: %q, want %q", in, out, got, want)
		}
		must.Equal(t, string(Repair(append([]byte(nil), out...))), string(out), "%q → %q →", in, out)
	})
}

// FuzzUnescape compares with encoding/json.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{``, `abc`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u20ac`, `\ud83d\ude00`, `\ud83d`, `\ud83d\u0041`, `\ude00\ud83d\ude00`, `\uD83D\n`, `\`, `\u12`, `\ud83d\u`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := AppendUnescaped(nil, raw)
		quoted := append(append([]byte{'"'}, raw...), '"')
		var want string
		if !utf8.Valid(raw) || json.Unmarshal(quoted, &want) != nil {
			return
		}
		must.Equal(t, string(got), want, "%q: got %q", raw, got)
	})
}

// FuzzSkip: the scanner accepts what encoding/json accepts. Where both refuse, the error stands inside the input.
func FuzzSkip(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{},[],-0.5e-7,true,false,null,"\u0041\ud83d\ude00\\"]}`, ` [ 1 , 2 ] `, `01`, `-`, `1.`, `1e+`, `nul`, `"\x"`, `"\u12g4"`, "\"\x01\"", `{"a"}`, `{"a":1,}`,
		`[1,]`, `[1 2]`, `{1:2}`, `"`, ``, `{} {}`, `{"\u0061":1}`, `[1234567,12, 3,45,]`, `[1,01,2345678]`, `[12,34567890,1,2,3]`, `[1,2,3x,45678]`, `[1,2,3 ,45678,]`, `[1,-2,3.5,45678]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := Scanner{Data: in, MaxDepth: 10000}
		s.Skip()
		s.End("more")
		err := s.Err()
		must.Equal(t, err == nil, json.Valid(in), "%q: %v, encoding/json accepts it", in, err)
		var syntax *SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.At > len(in) || string(in[syntax.At:]) != string(syntax.Rest)) {
			t.Fatalf("%q: %#v", in, err)
		}
	})
}
