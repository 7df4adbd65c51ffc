package mockllm

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

var jsonSeeds = []string{
	`{}`, `[]`, `null`, `true`, `0`, `-0`, `01`, `-`, `1.5e+10`, `1.`, `.5`, `1e`, `"a"`, `"\u00e9\n\"\\\/"`, `"\ud83d\ude00"`, `"\ud83d"`,
	`"\ud83dx"`, `"\ude00\ud83d"`, `"\u12g4"`, `"\x"`, `"`, "\"\t\"", `{"a":[1,{"b":null},"c"],"d":{}}`, `{"a" : 1 , "b":2}`, `{"a":1,}`, `[1,]`,
	`[1 2]`, `{"a"}`, `{a:1}`, ` [ 1 , 2 ] `, `[1]x`, `nul`, `truefalse`, `[[[[[[]]]]]]`, "\"\xff\"", `{"a":1}{}`, "\ufeff{}",
}

// FuzzSkip: the scanner accepts exactly what encoding/json accepts.
func FuzzSkip(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := scanner{b: body}
		err := s.skip(0)
		if err == nil {
			err = s.end()
		}
		if got, want := err == nil, json.Valid(body); got != want && !strings.Contains(errText(err), "deeply") {
			t.Fatalf("%q: accepted %v (%v), want %v", body, got, err, want)
		}
	})
}

// FuzzText: a string reads as encoding/json reads it.
func FuzzText(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) {
			t.Skip("encoding/json replaces invalid UTF-8, the scanner keeps it")
		}
		s := scanner{b: body}
		got, err := s.text()
		if err == nil {
			err = s.end()
		}
		var want string
		wantErr := json.Unmarshal(body, &want)
		if strings.TrimSpace(string(body)) == "null" { // leaves a string as it was
			wantErr = &json.SyntaxError{}
		}
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != want {
			t.Fatalf("%q: got %q, %v; want %q, %v", body, got, err, want, wantErr)
		}
	})
}

// FuzzInteger: whole numbers of 64 bits, and nothing else.
func FuzzInteger(f *testing.F) {
	for _, s := range append(jsonSeeds, "12", "-7", "9223372036854775807", "9223372036854775808", "99999999999999999999", "1.0", "1e2") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := scanner{b: body}
		got, err := s.integer()
		if err == nil {
			err = s.end()
		}
		var want *int64
		wantErr := json.Unmarshal(body, &want)
		ok := wantErr == nil && want != nil
		if (err == nil) != ok || ok && got != *want {
			t.Fatalf("%q: got %d, %v; want accepted %v", body, got, err, ok)
		}
	})
}

func TestSkipDepth(t *testing.T) {
	for _, depth := range []int{1, maxDepth, maxDepth + 2, 100_000} {
		body := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		s := scanner{b: body}
		if err := s.skip(0); (err == nil) != (depth <= maxDepth+1) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
