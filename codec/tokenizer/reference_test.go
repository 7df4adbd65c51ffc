package tokenizer_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
)

// write is for scripts/tokenizers/make.sh.
var write = flag.String("write", "", "write the prompts that the reference is to count into this directory, and check nothing")

// trained are the tokenizers of testdata, one of each kind.
func trained() []string { return []string{"qwen2", "llama3", "llama2", "mistral", "unigram", "t5"} }

func open(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	if slices.Contains(trained(), name) {
		name = filepath.Join("testdata", name+".json")
	}
	tok := must.Have(tokenizer.Open(name))(t)
	return tok
}

// The ids are those of the reference implementation, with and without special tokens.
func TestGoldenVectors(t *testing.T) {
	var texts []string
	readJSON(t, "texts", &texts)
	for _, name := range append(trained(), tokenizer.CL100K, tokenizer.O200K) {
		var want [][]int32
		readJSON(t, name, &want)
		tok := open(t, name)
		head, tail := tok.Special()
		for i, text := range texts {
			expect.List(t, tok.MustAppend(nil, text, true), want[i], "%s: %q", name, text)
			plain := want[i][head : len(want[i])-tail]
			expect.List(t, tok.MustAppend(nil, text, false), plain, "%s: %q without special tokens", name, text)
		}
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	must.Do(t, err)
}

// Prompts is how many prompts of 1 to maxPrompt tokens the reference counted for each tokenizer.
const (
	prompts   = 1000
	maxPrompt = 20000
)

// referencePrompts calls each for every prompt that the reference counted, with -short for one in ten.
func referencePrompts(t *testing.T, tok *tokenizer.Tokenizer, each func(i int, s prompt.Spec, text []byte)) {
	t.Helper()
	words, first, err := tok.Words()
	must.Do(t, err)
	source := must.Have(prompt.NewText(7, prompt.Vocabulary{Words: words, First: first}))(t)
	chance := rand.New(rand.NewPCG(3, 4))
	var buf []byte
	for i := range prompts {
		s := prompt.Spec{BlockTokens: []int{16, 64, 512}[i%3], Tokens: 1 + chance.IntN(maxPrompt), Unique: uint64(i)}
		if i < 40 {
			s.Tokens = i + 1
		} else if i == 40 {
			s.Tokens = maxPrompt
		}
		for range chance.IntN(1 + s.Tokens/s.BlockTokens) {
			s.Blocks = append(s.Blocks, chance.Uint64N(1000))
		}
		if testing.Short() && i%10 != 0 {
			continue
		}
		buf = source.Append(buf[:0], s)
		each(i, s, buf)
	}
}

// TestReferenceCountsPrompts: the prompts are, byte for byte, those in which the reference implementation counted as
// many tokens as were asked for.
func TestReferenceCountsPrompts(t *testing.T) {
	for _, name := range trained() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := open(t, name)
			if *write != "" {
				writePrompts(t, tok, filepath.Join(*write, name+".txt"))
				return
			}
			digest, made, tokens := sha256.New(), 0, 0
			referencePrompts(t, tok, func(i int, s prompt.Spec, text []byte) {
				writePrompt(digest, s, text)
				made, tokens = made+1, tokens+s.Tokens
				if i%50 == 0 {
					expect.Equal(t, tok.MustCount(string(text), false), s.Tokens, "prompt %d: Count", i)
				}
			})
			if testing.Short() {
				t.Skip("the reference's digest is of all prompts")
			}
			if got, want := fmt.Sprintf("%s %d %d %x", name, made, tokens, digest.Sum(nil)), counted(t, name); got != want {
				t.Errorf("name, prompts, tokens and digest are\n%s by the reference,\n%s here; "+
					"if the choice of words changed, run scripts/tokenizers/make.sh count", want, got)
			}
		})
	}
}

// counted is what the reference says of a tokenizer's prompts.
func counted(t *testing.T, name string) string {
	t.Helper()
	data := must.Have(os.ReadFile(filepath.Join("testdata", "prompts.txt")))(t)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, name+" ") {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return "unknown"
}

// writePrompt writes the line that the reference reads.
func writePrompt(w io.Writer, s prompt.Spec, text []byte) { fmt.Fprintf(w, "%d %s\n", s.Tokens, text) }

func writePrompts(t *testing.T, tok *tokenizer.Tokenizer, path string) {
	t.Helper()
	f := must.Have(os.Create(path))(t)
	w := bufio.NewWriter(f)
	referencePrompts(t, tok, func(_ int, s prompt.Spec, text []byte) {
		if bytes.ContainsAny(text, "\n\r") {
			t.Fatal("a prompt with a line end")
		}
		writePrompt(w, s, text)
	})
	must.Do(t, errors.Join(w.Flush(), f.Close()))
}
