package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// naiveBPE merges by looking through all pairs each time.
func naiveBPE(m *bpe, word string) []int32 {
	var ids []int32
	for _, c := range word {
		ids = append(ids, m.vocabulary[string(c)])
	}
	for {
		best, at := merge{}, -1
		for i := range len(ids) - 1 {
			if found, ok := m.merges[pairKey(ids[i], ids[i+1])]; ok && (at < 0 || found.rank < best.rank) {
				best, at = found, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.id)
	}
}

// randomBPE makes a model over a few characters, one of which stands for a space, with merges of what earlier merges
// made.
func randomBPE(t *testing.T, chance *rand.Rand) *bpe {
	vocabulary := map[string]int{"a": 0, "b": 1, "c": 2, "▁": 3}
	pieces := []string{"a", "b", "c", "▁"}
	var merges [][2]string
	for len(merges) < 40 {
		left, right := pieces[chance.IntN(len(pieces))], pieces[chance.IntN(len(pieces))]
		if _, taken := vocabulary[left+right]; taken || chance.IntN(3) > 0 && strings.HasPrefix(right, "▁") {
			continue
		}
		vocabulary[left+right] = len(pieces)
		pieces = append(pieces, left+right)
		merges = append(merges, [2]string{left, right})
	}
	m := must.Have(newBPE(mustJSON(t, map[string]any{"vocab": vocabulary, "merges": merges}), nil))(t)
	return m
}

// Merging with a heap, in parts and by way of the cache is merging the naive way.
func TestMergesAgreeWithNaive(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		m, s := randomBPE(t, chance), newScratch()
		for range 50 {
			var word strings.Builder
			for range 1 + chance.IntN(60) {
				word.WriteString([]string{"a", "b", "c", "▁"}[chance.IntN(4)])
			}
			want := naiveBPE(m, word.String())
			for range 2 {
				if got := s.append(nil, word.String(), m); !slices.Equal(got, want) {
					t.Fatalf("%q: got %v, want %v", word.String(), got, want)
				}
			}
		}
	}
}

// always encodes every word alike.
type always struct {
	model
	ids []int32
}

func (a always) append(dst []int32, _ string, _ *scratch) []int32 { return append(dst, a.ids...) }

// A cache that was emptied goes on giving the right tokens.
func TestCacheIsBounded(t *testing.T) {
	s := newScratch()
	for i := range int32(3 * maxCachedWords) {
		word := string([]rune{'a' + i%7, 0x4e00 + i%20000, 0x3400 + i/20000})
		s.append(nil, word, always{ids: []int32{i, i + 1}})
		if ids := s.append(nil, word, always{}); !slices.Equal(ids, []int32{i, i + 1}) {
			t.Fatalf("word %d: got %v", i, ids)
		}
		if len(s.words) > maxCachedWords || len(s.ids) > 2*maxCachedWords {
			t.Fatalf("%d words with %d tokens are kept", len(s.words), len(s.ids))
		}
	}
	long := strings.Repeat("a", maxCachedBytes+1)
	s.append(nil, long, always{ids: []int32{1}})
	expect.List(t, s.append(nil, long, always{ids: []int32{2}}), []int32{2}, "a long word is kept")
}
