package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// MustAppend is Append for tests.
func (t *Tokenizer) MustAppend(dst []int32, text string, special bool) []int32 {
	ids, err := t.Append(dst, text, special)
	if err != nil {
		panic(err)
	}
	return ids
}

// MustCount is Count for tests.
func (t *Tokenizer) MustCount(text string, special bool) int {
	return len(t.MustAppend(nil, text, special))
}

// TestLimits: a file that would make the work on a text unbounded is refused when it is opened, or when it meets such a
// text.
func TestLimits(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	vocab, merges := `"a":0,"b":1`, ``
	model := func(more string) string {
		return `"model":{"type":"BPE","vocab":{` + vocab + `},"merges":[` + merges + `]` + more + `}`
	}
	sequence := func(part string, n int) string {
		return `{"type":"Sequence","normalizers":[` + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + `]}`
	}
	nested := strings.Repeat(`{"type":"Sequence","normalizers":[`, 1000) + `"` + strings.Repeat("x", 5<<20) + `"` + strings.Repeat("]}", 1000)
	ids := strings.TrimSuffix(strings.Repeat("0,", 5000), ",")
	for name, file := range map[string]string{
		"prepend":            `{"normalizer":{"type":"Prepend","prepend":"` + long + `"},` + model("") + `}`,
		"replacement":        `{"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + long + `"},` + model("") + `}`,
		"doubled 60 times":   `{"normalizer":` + sequence(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`, 60) + `,` + model("") + `}`,
		"byte letters again": `{"normalizer":` + sequence(`{"type":"ByteLevel"}`, 60) + `,` + model("") + `}`,
		"long sequence":      `{"normalizer":` + sequence(`{"type":"NFC"}`, 100_000) + `,` + model("") + `}`,
		"nested":             `{"normalizer":` + nested + `,` + model("") + `}`,
		"byte levels":        `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[` + strings.TrimSuffix(strings.Repeat(`{"type":"ByteLevel"},`, 40), ",") + `]},` + model("") + `}`,
		"template":           `{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[` + ids + `]}}},` + model("") + `}`,
		"added token":        `{"added_tokens":[{"id":0,"content":"` + long + `"}],` + model("") + `}`,
		"prefix":             `{` + model(`,"continuing_subword_prefix":"`+long+`"`) + `}`,
		"suffix":             `{` + model(`,"end_of_word_suffix":"`+long+`"`) + `}`,
		"unigram piece":      `{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",-1],["` + long + `",-2]]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), fileName)
			must.Do(t, os.WriteFile(path, []byte(file), 0o600))
			tok, err := Open(path)
			if err == nil {
				_, err = tok.Count(strings.Repeat("é a", 100), true)
			}
			if limit := (*LimitError)(nil); !errors.As(err, &limit) || len(err.Error()) > 200 {
				t.Errorf("got %.300v, want a LimitError of one line", err)
			}
		})
	}
}

// TestSlowPattern: a pattern that backtracks without end ends with an error, not with the program.
func TestSlowPattern(t *testing.T) {
	e := must.Have(newExpression(`(a+)+$`))(t)
	e.re.MatchTimeout = 1 // ns
	defer func() {
		if _, ok := recover().(*LimitError); !ok {
			t.Error("no LimitError")
		}
	}()
	found := e.find(strings.Repeat("a", 40) + "!")
	t.Error(fmt.Sprint("it found ", found))
}
