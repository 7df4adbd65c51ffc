package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data := must.Have(json.Marshal(v))(t)
	return data
}

const tinyModel = `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`

func TestFilesThatCannotWork(t *testing.T) {
	cases := []struct{ file, says string }{
		{``, "the file is empty"},
		{`[]`, "no tokenizer.json"},
		{`{`, "no valid JSON"},
		{`{}`, "no model in it"},
		{`{"model":null}`, "no model in it"},
		{`{"model":{"type":"WordPiece","vocab":{}}}`, `type "WordPiece": not supported; --prompt token-ids needs no tokenizer`},
		{`{"model":{"vocab":{}}}`, `model: type ""`},
		{`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`, `id -1 of "a"`},
		{`{"model":{"type":"BPE","vocab":{"a":1e9},"merges":[]}}`, "model BPE"},
		{`{"model":{"type":"BPE","vocab":{"a":99999999},"merges":[]}}`, "want 0 to 9999999"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`, "not in the vocabulary"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}}`, "merge 0 is no pair"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a","a"]]}}`, "merge 0 is no pair"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":7}}`, "neither strings nor pairs"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"<unk>"}}`, `unk_token "<unk>"`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}`, "dropout 0.1"},
		{`{"model":{"type":"Unigram","vocab":[]}}`, "0 pieces"},
		{`{"model":{"type":"Unigram","vocab":[["a",0]]}}`, "unk_id"},
		{`{"model":{"type":"Unigram","unk_id":1,"vocab":[["a",0]]}}`, "unk_id"},
		{`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`, "piece 0: want a pair"},
		{`{"normalizer":{"type":"BertNormalizer"},"model":` + tinyModel + `}`, `normalizer: type "BertNormalizer"`},
		{`{"normalizer":{"type":"Replace","pattern":{},"content":""},"model":` + tinyModel + `}`, "normalizer Replace: pattern"},
		{`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAA="},"model":` + tinyModel + `}`, "2 bytes"},
		{`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="},"model":` + tinyModel + `}`, "a trie of"},
		{`{"pre_tokenizer":{"type":"BertPreTokenizer"},"model":` + tinyModel + `}`, `pre_tokenizer: type "BertPreTokenizer"`},
		{`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"["},"behavior":"Isolated"},"model":` + tinyModel + `}`, "class without end"},
		{`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"},"model":` + tinyModel + `}`, "not supported"},
		{`{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"},"model":` + tinyModel + `}`, `behavior "Odd"`},
		{`{"pre_tokenizer":{"type":"Metaspace","replacement":""},"model":` + tinyModel + `}`, "want one character"},
		{`{"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"odd"},"model":` + tinyModel + `}`, `prepend_scheme "odd"`},
		{`{"post_processor":{"type":"Odd"},"model":` + tinyModel + `}`, `post_processor: type "Odd"`},
		{`{"post_processor":{"type":"BertProcessing","sep":["x"],"cls":["y",1]},"model":` + tinyModel + `}`, "BertProcessing"},
		{`{"post_processor":{"type":"TemplateProcessing","single":[]},"model":` + tinyModel + `}`, "the text 0 times"},
		{`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}]},"model":` + tinyModel + `}`, "special_tokens"},
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		must.Do(t, os.WriteFile(path, []byte(c.file), 0o600))
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), path) {
			t.Errorf("%s:\ngot error %v\nwant one with %q, without the file's name", c.file, err, c.says)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: an error of several lines: %v", c.file, err)
		}
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	if _, err := Open(folder); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no tokenizer.json in it (no such file or directory); copy the model's there") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Open(filepath.Join(folder, "o200k")); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "no such file or directory; give a tokenizer.json,") {
		t.Errorf("no such file: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, fileName), []byte(`{"model":`+tinyModel+`}`), 0o600))
	tok := must.Have(Open(folder))(t)
	if tok.Name() != folder || tok.MustCount("abba", true) != 3 {
		t.Errorf("%s: %v", tok.Name(), tok.MustAppend(nil, "abba", true))
	}
	expect.Equal(t, tok.MustCount("ab\xffab", false), tok.MustCount("ab\uFFFDab", false), "bytes that are no UTF-8 are not U+FFFD")
	if words, first, err := tok.Words(); err != nil || !slices.Equal(words, []string{"ab"}) || !slices.Equal(first, words) {
		t.Errorf("words of a tokenizer of one word: %q, %q, %v", words, first, err)
	}
}

// The patterns of the reference's syntax, and what they are in regexp2's.
func TestTranslate(t *testing.T) {
	cases := []struct{ ruby, want string }{
		{gpt2Pattern, gpt2Pattern},
		{`a{1,3}+b`, `(?:a{1,3})+b`},
		{`x(ab|[cd]){2}+`, `x(?:(ab|[cd]){2})+`},
		{`\p{N}{1,3}+|é{,2}`, `(?:\p{N}{1,3})+|é{0,2}`},
		{`^a$`, `(?m:^)a(?m:$)`},
		{`\w+[\w-]`, `[` + wordClass + `]+[` + wordClass + `-]`},
		{`\p{^L}++`, `\P{L}++`},
		{`(?i)a`, `(?i)a`},
	}
	for _, c := range cases {
		expect.Equal(t, must.Have(translate(c.ruby))(t), c.want, c.ruby)
	}
	for _, ruby := range []string{`\h`, `\X`, `\R`, `\b`, `[[:alpha:]]`, `[a&&b]`, `[a[b]]`, `[]a]`, `a(?i)b`, `(?<n>a)`, `(?m:.)`, `a{x}`, `a\`, `\1`, `\pL`} {
		if got, err := translate(ruby); !errors.Is(err, errUnsupported) {
			t.Errorf("%s: got %s, %v, want a refusal", ruby, got, err)
		}
	}
}
