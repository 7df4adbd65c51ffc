package tokenizer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// each runs a subtest for every tokenizer at hand.
func each(t *testing.T, test func(t *testing.T, tok *Tokenizer)) {
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d tokenizers in testdata, %v", len(paths), err)
	}
	for _, name := range append(paths, CL100K, O200K) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			tok := must.Have(Open(name))(t)
			test(t, tok)
		})
	}
}

// Every chosen word is one token in every place, and prompts of them have as many tokens as words.
func TestWordsAreSingleTokens(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer) {
		words, first, err := tok.Words()
		must.Do(t, err)
		if len(words) < 400 || len(first) < 64 || !slices.IsSorted(words) || !slices.IsSorted(first) {
			t.Fatalf("%d words, %d first, or they are not sorted", len(words), len(first))
		}
		for _, word := range words {
			beside := first[0]
			expect.Equal(t, tok.MustCount(beside+" "+word+" "+beside, false), 3, "%q in the middle: tokens in all", word)
			expect.Equal(t, tok.MustCount(beside+" "+word, false), 2, "%q at the end: tokens in all", word)
		}
		contexts := []string{"", "\n", "\n\n", "[INST] "}
		for _, a := range tok.added.all {
			if a.Special {
				contexts = append(contexts, a.Content)
			}
		}
		for _, context := range contexts {
			extra := tok.MustCount(context+first[0]+" "+words[0], false)
			for _, word := range first {
				if n := tok.MustCount(context+word+" "+words[0], false); n != extra || context == "" && n != 2 {
					t.Errorf("%q behind %q: %d tokens in all, of the first word %d", word, context, n, extra)
				}
			}
		}
		chance := rand.New(rand.NewPCG(7, 8))
		for range 100 {
			run := []string{first[chance.IntN(len(first))]}
			for range chance.IntN(1000) {
				run = append(run, words[chance.IntN(len(words))])
			}
			must.Equal(t, tok.MustCount(strings.Join(run, " "), false), len(run), "tokens of %.200s", strings.Join(run, " "))
		}
	})
}

// crossed makes a Unigram vocabulary of n words that no pre-tokenizer cuts. Each of the crossings words behind the
// first three has a piece with each of those.
func crossed(t *testing.T, n, crossings int) (*Tokenizer, []string) {
	t.Helper()
	vocabulary := [][2]any{{"<unk>", 0}, {"▁", -10}}
	for c := 'a'; c <= 'z'; c++ {
		vocabulary = append(vocabulary, [2]any{string(c), -10})
	}
	var words []string
	for i := range n {
		word := string([]rune{'a' + rune(i%26), 'a' + rune(i/26%26), 'a' + rune(i/676), 'a' + rune((i*7+3)%26)})
		words = append(words, word)
		vocabulary = append(vocabulary, [2]any{"▁" + word, -5})
	}
	for i := range crossings {
		for j := range 3 {
			vocabulary = append(vocabulary, [2]any{"▁" + words[3+i] + "▁" + words[j], -6})
		}
	}
	data := mustJSON(t, map[string]any{
		"normalizer":    map[string]any{"type": "Nmt"}, // a line's end is a space
		"pre_tokenizer": map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false},
		"model":         map[string]any{"type": "Unigram", "unk_id": 0, "vocab": vocabulary},
	})
	path := filepath.Join(t.TempDir(), fileName)
	must.Do(t, os.WriteFile(path, data, 0o600))
	tok := must.Have(Open(path))(t)
	return tok, words
}

// Where pieces reach across a space, the side with fewer words goes, however seldom chance would bring both together.
func TestWordsThatMergeAcrossSpacesAreDropped(t *testing.T) {
	tok, all := crossed(t, 1000, 500)
	must.Equal(t, tok.MustCount(all[0]+" "+all[3]+" "+all[0], false), 2, "the vocabulary does not join words: tokens")
	c := chooser{t: tok, ids: make(map[string]int32), word: make(map[int32]string)}
	c.takeSingle()
	must.Equal(t, len(c.ids), len(all), "words are single tokens alone")
	c.dropCrossing()
	left := c.sorted()
	for _, word := range all[:3] {
		if slices.Contains(left, word) {
			t.Errorf("%q is still in, although 500 words merge with it", word)
		}
	}
	if len(left) < 990 {
		t.Errorf("%d of %d words are left", len(left), len(all))
	}
}

// Without the look at pieces, the proof finds words that do not keep to themselves.
func TestProofFindsWhatMerges(t *testing.T) {
	tok, all := crossed(t, 500, 400)
	c := chooser{t: tok, ids: make(map[string]int32), word: make(map[int32]string)}
	c.takeSingle()
	c.takeFirst()
	must.Equal(t, len(c.first), len(all), "words may come first")
	if err := c.proveInRuns(); err == nil && slices.Contains(c.sorted(), all[0]) && slices.Contains(c.sorted(), all[1]) && slices.Contains(c.sorted(), all[2]) {
		t.Error("the proof went through with words that merge")
	}
}

// No added token and no byte of its own is ordinary; the words are. How many ids of the trained vocabularies are was
// counted in the files by other means.
func TestOrdinaryIDs(t *testing.T) {
	counts := map[string]int{"qwen2.json": 2344, "llama3.json": 2344, "llama2.json": 2261, "mistral.json": 2261, "unigram.json": 2243, "t5.json": 1718,
		CL100K: 99993, O200K: 199734}
	each(t, func(t *testing.T, tok *Tokenizer) {
		ids := tok.Ordinary()
		if want := counts[filepath.Base(tok.Name())]; len(ids) != want || !slices.IsSorted(ids) {
			t.Fatalf("%d ids, want %d; sorted: %v", len(ids), want, slices.IsSorted(ids))
		}
		special := make(map[string]int)
		for _, a := range tok.added.all {
			special[a.Content] = int(a.id)
		}
		tok.model.each(func(id int32, piece, _ string) {
			if strings.HasPrefix(piece, "<0x") {
				special[piece] = int(id)
			}
		})
		for piece, id := range special {
			if _, ordinary := slices.BinarySearch(ids, id); ordinary {
				t.Errorf("%s, id %d, is ordinary", piece, id)
			}
		}
		words, _, err := tok.Words()
		must.Do(t, err)
		for _, id := range tok.MustAppend(nil, strings.Join(words[:100], " "), false) {
			if !slices.Contains(ids, int(id)) {
				t.Errorf("the token %d of a word is not ordinary", id)
			}
		}
	})
}
