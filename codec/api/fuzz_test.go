package api

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/must"
)

// FuzzParse compares every parser with its oracle: the definitions applied to what encoding/json reads.
func FuzzParse(f *testing.F) {
	for _, c := range documents(f) {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(`{"a":[{},[],-0.5e-7,true,false,"\u0041\ud83d\ude00\\"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		tree, wrong := decode(in)
		object, isObject := tree.(ordered)
		for name, oracle := range oracles {
			b := backend(t, name, Options{Model: "m"})
			var d Delta
			err := b.ParseBody(in, &d)
			if (err == nil) != (wrong == nil && isObject) {
				if err != nil && strings.Contains(err.Error(), "nested too deep") {
					return
				}
				t.Fatalf("%s: %q: error %v, encoding/json: %v, object: %v", name, in, err, wrong, isObject)
			}
			if err != nil {
				continue
			}
			got, want := saidBy(&d), oracle(object)
			unsure := !utf8.Valid(in) || len(want.Finish) > maxFinishBytes
			switch {
			case name != "chat" && (unsure || bytes.Contains(in, []byte(`\`))):
				continue // names are compared as they stand
			case name != "chat":
				got, want = got.weighed(), want.weighed()
			case unsure:
				got.Finish, want.Finish, got.Content, want.Content = "", "", "", ""
			}
			must.Equal(t, got, want, "%s: %q", name, in)
			if d.IsError && len(d.Error) > 0 && !bytes.Contains(in, d.Error) {
				t.Fatalf("%s: %q: error message %q", name, in, d.Error)
			}
			sameTwice(t, b, in, in)
		}
	})
}

// FuzzTwo looks for a chunk that reads otherwise after another one.
func FuzzTwo(f *testing.F) {
	f.Add([]byte(completionChunk), []byte(strings.Replace(completionChunk, "hello", "again", 1)))
	f.Add([]byte(chatChunk), []byte(chatChunk))
	f.Add([]byte(`{"choices":[{"text":"x"}]}`), []byte(`{"choices":[{"text":"y"}]}`))
	f.Add([]byte(`{"choices":[{"text":"x","delta":{"content":"y"}}]}`), []byte(`{"choices":[{"text":"x","delta":{"content":""}}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) { sameTwice(t, backend(t, "chat", Options{}), first, second) })
}
