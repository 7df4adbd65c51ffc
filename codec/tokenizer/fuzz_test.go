package tokenizer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/must"
)

// FuzzAppend: encoding never fails, keeps what stands before it, says the same twice and counts what it appends. A text
// in two parts, cut where a word is cut anyway, has the tokens of both.
func FuzzAppend(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.json")
	must.Do(f, err)
	var all []*Tokenizer
	for _, path := range paths {
		tok, err := Open(path)
		must.Do(f, err)
		all = append(all, tok)
	}
	for _, text := range []string{"", "hello  world\n\n", "<s>é e\u0301 漢字👍🏽\x00\xff", "[INST] a [/INST]", "①\u0308\r\n", "İſ'S"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range all {
			before := []int32{-7}
			got := tok.MustAppend(before, text, true)
			if got[0] != -7 || !slices.Equal(got[1:], tok.MustAppend(nil, text, true)) {
				t.Fatalf("%s: %q: %v", tok.Name(), text, got)
			}
			head, tail := tok.Special()
			must.Equal(t, tok.MustCount(text, false), len(got)-1-head-tail, "%s: tokens of %q", tok.Name(), text)
			if n := tok.MustCount(text, false); n > 4*len(text)+1 && utf8.ValidString(text) {
				t.Fatalf("%s: %q: %d tokens", tok.Name(), text, n)
			}
			if slices.ContainsFunc(got[1:], func(id int32) bool { return id < 0 }) {
				t.Fatalf("%s: %q: %v", tok.Name(), text, got[1:])
			}
		}
	})
}

// FuzzParse: whatever a file says, reading it ends with a tokenizer that works or with an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":` + tinyModel + `}`))
	f.Add([]byte(`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"CAAAAAABAAAAAAAAYQA="},"model":` + tinyModel + `}`))
	f.Add([]byte(`{"added_tokens":[{"id":7,"content":"<s>","special":true,"lstrip":true}],"pre_tokenizer":{"type":"Sequence","pretokenizers":` +
		`[{"type":"Digits"},{"type":"Metaspace","replacement":"_"},{"type":"ByteLevel"}]},"model":` + tinyModel + `}`))
	f.Add([]byte(`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},` +
		`"content":"▁"}]},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],` +
		`"special_tokens":{"<s>":{"ids":[1]}}},"model":{"type":"BPE","unk_token":"<u>","fuse_unk":true,"byte_fallback":true,` +
		`"vocab":{"<u>":0,"▁":1,"a":2,"▁a":3,"<0x0A>":4},"merges":[["▁","a"]]}}`))
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0],["a",-1.5],["ab",-2]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		// A pattern may take for ever, and a Replace may make texts grow without end. That is the author's
		// responsibility.
		if strings.Contains(string(data), "Regex") || strings.Count(string(data), "Replace") > 2 {
			return
		}
		h, err := parse(data)
		if err != nil {
			return
		}
		for _, text := range []string{"", "ab  ba\n", "é漢👍🏽\u200d <s>x</s>"} {
			if ids := h.encode(nil, text); slices.Contains(ids, none) {
				t.Fatalf("%q: %v", text, ids)
			}
		}
	})
}
