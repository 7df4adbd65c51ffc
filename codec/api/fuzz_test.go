package api

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse compares with encoding/json and the definitions applied to what it reads.
func FuzzParse(f *testing.F) {
	for _, c := range documents {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(`{"a":[{},[],-0.5e-7,true,false,"\u0041\ud83d\ude00\\"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var d Delta
		err := parseBody(in, &d, choices)
		tree, wrong := decode(in)
		object, isObject := tree.(ordered)
		if (err == nil) != (wrong == nil && isObject) {
			if err != nil && strings.Contains(err.Error(), "nested too deep") {
				return
			}
			t.Fatalf("%q: error %v, encoding/json: %v, object: %v", in, err, wrong, isObject)
		}
		if err != nil {
			return
		}
		got, want := saidBy(&d), meaning(object)
		if !utf8.Valid(in) || len(want.Finish) > maxFinishBytes {
			got.Finish, want.Finish = "", ""
			got.Content, want.Content = "", ""
		}
		if got != want {
			t.Fatalf("%q\ngot  %+v\nwant %+v", in, got, want)
		}
		if d.IsError && len(d.Error) > 0 && !bytes.Contains(in, d.Error) {
			t.Fatalf("%q: error message %q", in, d.Error)
		}
	})
}

// FuzzTwo looks for a chunk that reads otherwise after another one.
func FuzzTwo(f *testing.F) {
	f.Add([]byte(completionChunk), []byte(strings.Replace(completionChunk, "hello", "again", 1)))
	f.Add([]byte(chatChunk), []byte(chatChunk))
	f.Add([]byte(`{"choices":[{"text":"x"}]}`), []byte(`{"choices":[{"text":"y"}]}`))
	f.Add([]byte(`{"choices":[{"text":"x","delta":{"content":"y"}}]}`), []byte(`{"choices":[{"text":"x","delta":{"content":""}}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) { sameTwice(t, first, second) })
}
