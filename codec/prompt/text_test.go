package prompt

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// encodings are vocabularies that a Go test can ask; scripts/vocabulary asks the others.
var encodings = []tokenizer.Encoding{
	tokenizer.R50kBase, tokenizer.P50kBase, tokenizer.Cl100kBase, tokenizer.O200kBase,
}

// eachCodec runs a subtest for each of encodings with a function that counts tokens.
func eachCodec(t *testing.T, test func(t *testing.T, count func(text string) int)) {
	for _, encoding := range encodings {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			codec := must.Have(tokenizer.Get(encoding))(t)
			test(t, func(text string) int {
				n := must.Have(codec.Count(text))(t)
				return n
			})
		})
	}
}

// newText makes a source from the built-in vocabulary.
func newText(t testing.TB, seed uint64) *Text {
	t.Helper()
	text := must.Have(NewText(seed, BuiltIn()))(t)
	return text
}

func TestWordList(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]{4,7}\*?$`)
	var list []string
	for line := range strings.Lines(words) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !shape.MatchString(line) {
			t.Errorf("line %q is no word of 4 to 7 letters with or without a star", line)
		}
		list = append(list, strings.TrimSuffix(line, "*"))
	}
	if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Error("words are not sorted, or one is there twice")
	}
	text := newText(t, 1)
	if len(list) != text.Words() || len(list) < 3000 {
		t.Errorf("%d words in the file, %d in use, want the same and at least 3,000", len(list), text.Words())
	}
	for _, column := range text.words {
		if len(column) < 500 {
			t.Errorf("%d words of %d letters, want at least 500", len(column), len(column[0]))
		}
	}
	if len(text.first) < 200 {
		t.Errorf("%d words to begin a prompt with, want at least 200", len(text.first))
	}
}

func TestEachWordIsOneToken(t *testing.T) {
	text := newText(t, 1)
	eachCodec(t, func(t *testing.T, count func(string) int) {
		for _, word := range slices.Concat(text.words[:]...) {
			expect.Equal(t, count(" "+word), 1, "%q tokens behind a space", word)
		}
		for _, word := range text.first {
			if n, behind := count(word), count("\n"+word)-count("\n"); n != 1 || behind != 1 {
				t.Errorf("%q is %d tokens at the start of a text and %d behind a newline", word, n, behind)
			}
		}
	})
}

func TestStarredWordsAreOneTokenWithoutSpace(t *testing.T) {
	eachCodec(t, func(t *testing.T, count func(string) int) {
		for line := range strings.Lines(words) {
			word, starred := strings.CutSuffix(strings.TrimSpace(line), "*")
			if starred && count(word) != 1 {
				t.Errorf("%q is %d tokens", word, count(word))
			}
		}
	})
}

func TestRandomPromptsHaveExactTokens(t *testing.T) {
	eachCodec(t, func(t *testing.T, count func(string) int) {
		chance := rand.New(rand.NewPCG(1, 2))
		text := newText(t, chance.Uint64())
		for range 60 {
			s := randomSpec(chance, []int{1, 7, 16, 512}[chance.IntN(4)], 6)
			prompt := string(text.Append(nil, s))
			expect.Equal(t, count(prompt), s.Tokens, "tokens: %s", prompt)
			expect.Equal(t, count("user\n"+prompt)-count("user\n"), s.Tokens, "tokens behind a newline: %s", prompt)
		}
	})
}

func TestAppendWords(t *testing.T) {
	text := newText(t, 1)
	prompt := string(text.AppendWords([]byte("x")))[1:]
	fields := strings.Fields(prompt)
	if len(fields) != text.Words()+1 || !slices.Contains(text.first, fields[0]) {
		t.Fatalf("%d words led by %q, want %d", len(fields), fields[0], text.Words()+1)
	}
	if rest := slices.Sorted(slices.Values(fields[1:])); len(slices.Compact(rest)) != text.Words() {
		t.Errorf("%d different words, want %d", len(slices.Compact(rest)), text.Words())
	}
	eachCodec(t, func(t *testing.T, count func(string) int) {
		expect.Equal(t, count(prompt), text.Words()+1, "tokens")
	})
}
