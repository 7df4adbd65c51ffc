package prompt

import (
	"fmt"
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
// number of digits: of the range it was given it uses the ids of the digit
// count that most of them have, at most 65,536. Of the default range these are
// the five-digit ids, 10,000 to 31,999.
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
	used := widest(r)
	if n := used.End - used.First; n < MinIDs {
		return nil, fmt.Errorf("token ids from %d up to %d: at most %d of them have the same number of digits, "+
			"and %d are needed; give a wider range", r.First, r.End, n, MinIDs)
	}
	tokens := make([]string, 0, used.End-used.First)
	for id := used.First; id < used.End; id++ {
		tokens = append(tokens, strconv.Itoa(id))
	}
	c := newColumn(tokens, ',')
	return &TokenIDs{writer: newWriter(seed, [columns]column{c, c, c, c}, c), ids: used}, nil
}

// Range returns the ids that prompts are made of.
func (t *TokenIDs) Range() IDRange { return t.ids }

// widest returns the part of r with the most ids of one digit count, cut to
// what a column can hold.
func widest(r IDRange) IDRange {
	best := IDRange{}
	for low, high := 0, 10; low < r.End; low, high = high, high*10 {
		part := IDRange{First: max(r.First, low), End: min(r.End, high)}
		if part.End-part.First >= best.End-best.First {
			best = part
		}
	}
	best.End = min(best.End, best.First+maxColumn)
	return best
}
