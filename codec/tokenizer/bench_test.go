package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// benchText is a prompt of words of a tokenizer.
func benchText(b *testing.B, tok *Tokenizer, n int) string {
	words, _, err := tok.Words()
	must.Do(b, err)
	chance := rand.New(rand.NewPCG(1, 2))
	run := make([]string, n)
	for i := range run {
		run[i] = words[chance.IntN(len(words))]
	}
	return strings.Join(run, " ")
}

func BenchmarkAppend(b *testing.B) {
	const tokens = 20000
	for _, name := range []string{"qwen2", "llama3", "llama2", "mistral", "unigram", "t5", O200K} {
		path := name
		if name != O200K {
			path = "testdata/" + name + ".json"
		}
		tok, err := Open(path)
		must.Do(b, err)
		b.Run(name, func(b *testing.B) {
			text := benchText(b, tok, tokens)
			var ids []int32
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ids = tok.MustAppend(ids[:0], text, false)
			}
			if len(ids) != tokens && len(ids) != tokens+1 {
				b.Fatalf("%d tokens, want %d", len(ids), tokens)
			}
		})
	}
}

// BenchmarkLongWord is the worst a text can be: 100 kB that nothing cuts.
func BenchmarkLongWord(b *testing.B) {
	text := strings.Repeat("abcdefghij", 10000)
	for _, name := range []string{"qwen2", "llama2", "unigram"} {
		tok, err := Open("testdata/" + name + ".json")
		must.Do(b, err)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if tok.MustCount(text, false) == 0 {
					b.Fatal("no tokens")
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open("testdata/llama2.json"); err != nil {
			b.Fatal(err)
		}
	}
}
