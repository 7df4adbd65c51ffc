package prompt

import (
	"fmt"
	"slices"
	"strconv"
)

// Limits on the ids of a prompt.
const (
	// minIDs is how many ids there must be. With fewer, different blocks would begin alike too often for cache hits to
	// be predicted.
	minIDs = 1000
	// maxID is the largest id that fits a table slot beside its comma.
	maxID = 9999999
)

// BuiltInIDs returns ids of ordinary text in every popular vocabulary, without special tokens and single bytes. They
// are all ids of five digits in the smallest of these vocabularies, Llama 2's of 32,000 ids.
func BuiltInIDs() []int {
	const first, end = 10000, 32000
	ids := make([]int, 0, end-first)
	for id := first; id < end; id++ {
		ids = append(ids, id)
	}
	return ids
}

// TokenIDs writes prompts as arrays of token ids. All its ids have the same number of digits. Of the given ids it uses
// those with the most frequent number of digits, at most 65,536.
type TokenIDs struct {
	writer
	first, last int
}

// NewTokenIDs makes a source of some of the given ids, such as BuiltInIDs or a tokenizer's ordinary ones, which may
// have gaps. They must be sorted and below ten million. The seed decides which ids a block stands for.
func NewTokenIDs(seed uint64, ids []int) (*TokenIDs, error) {
	for i, id := range ids {
		if id < 0 || id > maxID || i > 0 && id <= ids[i-1] {
			return nil, fmt.Errorf("token id %d: want ids from 0 to %d in order", id, maxID)
		}
	}
	used := widest(ids)
	if len(used) < minIDs {
		return nil, fmt.Errorf(
			"at most %d of them have the same number of digits, and %d are needed",
			len(used),
			minIDs,
		)
	}
	tokens := make([]string, len(used))
	for i, id := range used {
		tokens[i] = strconv.Itoa(id)
	}
	c := newColumn(tokens, ',')
	return &TokenIDs{
		writer: newWriter(seed, [columns]column{c, c, c, c}, c),
		first:  used[0],
		last:   used[len(used)-1],
	}, nil
}

// Range returns the smallest and the largest id that prompts may have.
func (t *TokenIDs) Range() (first, last int) { return t.first, t.last }

// widest returns the ids of the digit count that most have, cut to what a column can hold.
func widest(ids []int) []int {
	var best []int
	for low, high := 0, 10; low <= maxID; low, high = high, high*10 {
		from, _ := slices.BinarySearch(ids, low)
		end, _ := slices.BinarySearch(ids, high)
		if end-from >= len(best) {
			best = ids[from:end]
		}
	}
	return best[:min(len(best), maxColumn)]
}
