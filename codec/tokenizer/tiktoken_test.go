package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTiktokenCuts: a text cut where the patterns cut, with words remembered, has the ids of the text in one piece.
func TestTiktokenCuts(t *testing.T) {
	parts := []string{" ", "  ", "\n", "\t", "\r\n", "a", "B", "word", "don't", "'s", "1", "2345", ".", "...", "/", "é", "日本", " the", " x1", "\u00a0", "🙂", "\x7f", "_", "\u0301"}
	chance := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{CL100K, O200K} {
		tok, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			var text strings.Builder
			for range 1 + chance.IntN(30) {
				text.WriteString(parts[chance.IntN(len(parts))])
			}
			want := tok.encoder.(tiktoken).encodeFresh(nil, text.String())
			if got := tok.MustAppend(nil, text.String(), false); !slices.Equal(got, want) {
				t.Fatalf("%s, %q: %v, want %v", name, text.String(), got, want)
			}
		}
	}
}
