package prompt

import (
	"fmt"
	"slices"
	"strconv"
)

// Limits on the ids of a prompt.
const (
	// DefaultFirstID and DefaultEndID bound the default range: ordinary text in
	// every popular vocabulary, clear of special tokens and single bytes. Of its
	// ids only those of five digits are sent; see TokenIDs.
	DefaultFirstID = 1024
	DefaultEndID   = 32000
	// MinIDs is how many ids a range must offer. With fewer, different blocks
	// would begin alike too often for cache hits to be predicted.
	MinIDs = 1000
	// MaxID is the largest id that fits a table slot beside its comma.
	MaxID = 9999999
)

// IDRange is a half-open range of token ids, First <= id < End. The zero value
// stands for DefaultFirstID to DefaultEndID.
type IDRange struct{ First, End int }

// TokenIDs writes prompts as arrays of token ids. All its ids have the same
// number of digits: of what it was given it uses the ids of the digit count
// that most of them have, at most 65,536. Of the default range these are the
// five-digit ids, 10,000 to 31,999.
type TokenIDs struct {
	writer
	ids IDRange
}

// NewTokenIDs makes a source of ids inside r. The seed decides which ids a
// block stands for.
func NewTokenIDs(seed uint64, r IDRange) (*TokenIDs, error) {
	if r == (IDRange{}) {
		r = IDRange{First: DefaultFirstID, End: DefaultEndID}
	}
	if r.First < 0 || r.End <= r.First || r.End > MaxID+1 {
		return nil, fmt.Errorf("token ids from %d up to %d: need 0 <= first < end <= %d", r.First, r.End, MaxID+1)
	}
	ids := make([]int, 0, r.End-r.First)
	for id := r.First; id < r.End; id++ {
		ids = append(ids, id)
	}
	t, err := NewTokenIDsOf(seed, ids)
	if err != nil {
		return nil, fmt.Errorf("token ids from %d up to %d: %w; give a wider range", r.First, r.End, err)
	}
	return t, nil
}

// NewTokenIDsOf makes a source of some of the given ids, such as a tokenizer's
// ordinary ones, which may have gaps. They must be sorted and at most MaxID.
func NewTokenIDsOf(seed uint64, ids []int) (*TokenIDs, error) {
	for i, id := range ids {
		if id < 0 || id > MaxID || i > 0 && id <= ids[i-1] {
			return nil, fmt.Errorf("token id %d: want ids from 0 to %d in order", id, MaxID)
		}
	}
	used := widest(ids)
	if len(used) < MinIDs {
		return nil, fmt.Errorf("at most %d of them have the same number of digits, and %d are needed", len(used), MinIDs)
	}
	tokens := make([]string, len(used))
	for i, id := range used {
		tokens[i] = strconv.Itoa(id)
	}
	c := newColumn(tokens, ',')
	return &TokenIDs{
		writer: newWriter(seed, [columns]column{c, c, c, c}, c),
		ids:    IDRange{First: used[0], End: used[len(used)-1] + 1},
	}, nil
}

// Range returns the range that the ids of prompts lie in.
func (t *TokenIDs) Range() IDRange { return t.ids }

// widest returns the ids of the digit count that most have, cut to what a column
// can hold.
func widest(ids []int) []int {
	var best []int
	for low, high := 0, 10; low <= MaxID; low, high = high, high*10 {
		from, _ := slices.BinarySearch(ids, low)
		end, _ := slices.BinarySearch(ids, high)
		if end-from >= len(best) {
			best = ids[from:end]
		}
	}
	return best[:min(len(best), maxColumn)]
}
