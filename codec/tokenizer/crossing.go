package tokenizer

import (
	"regexp"
	"slices"
	"strings"
)

// dropCrossing makes sure that no piece of the vocabulary reaches from one word
// into the next. A pre-tokenizer that cuts between words does so for all of
// them. Without one ("▁of▁the" in a SentencePiece vocabulary) every piece that
// could cross a space between two chosen words loses one side: a word in its
// middle, the words that end as it begins, or those that begin as it ends,
// whichever are fewest. What is left cannot be joined: whatever a merge or a
// search makes is a piece.
func (c *chooser) dropCrossing() {
	space, apart := c.space()
	if apart {
		return
	}
	var crossing [][]string
	inner := regexp.MustCompile(`[a-z]` + regexp.QuoteMeta(space))
	c.t.pieces(func(_ int32, _, text string) {
		if inner.MatchString(text) {
			crossing = append(crossing, strings.Split(text, space))
		}
	})
	slices.SortFunc(crossing, func(a, b []string) int { return slices.Compare(a, b) })
	index := newEnds(c.sorted())
	for _, parts := range crossing {
		fewest, ok := c.fewest(index, parts)
		if !ok {
			continue
		}
		for _, word := range fewest {
			c.drop(word)
		}
	}
}

// space returns how the model sees a space between words, and whether the
// pre-tokenizer always keeps words apart.
func (c *chooser) space() (mark string, apart bool) {
	words := c.t.cut("ab cd ef")
	all := strings.Join(words, "")
	from, end := strings.Index(all, "ab"), strings.Index(all, "cd")
	if from < 0 || end < from {
		return " ", false
	}
	apart = true
	letters := regexp.MustCompile(`[a-z]+`)
	for _, word := range words {
		apart = apart && len(letters.FindAllString(word, -1)) <= 1
	}
	return all[from+len("ab") : end], apart
}

// fewest returns the words to drop so that the piece made of parts, with a space
// between each, cannot occur; false if it cannot anyway.
func (c *chooser) fewest(index ends, parts []string) (drop []string, ok bool) {
	last := len(parts) - 1
	sides := [][]string{c.left(index.suffix[parts[0]]), c.left(index.prefix[parts[last]])}
	if parts[0] == "" { // it begins with a space: nothing is asked of the word before
		sides = sides[1:]
	}
	if parts[last] == "" { // it ends with one: nothing is asked of the word behind
		sides = sides[:len(sides)-1]
	}
	for _, word := range parts[1:max(1, last)] {
		if _, in := c.ids[word]; !in {
			return nil, false
		}
		sides = append(sides, []string{word})
	}
	for i, side := range sides {
		if len(side) == 0 {
			return nil, false
		}
		if i == 0 || len(side) < len(drop) {
			drop = side
		}
	}
	return drop, len(sides) > 0
}

// left returns those of words that are still in.
func (c *chooser) left(words []string) (in []string) {
	for _, word := range words {
		if _, ok := c.ids[word]; ok {
			in = append(in, word)
		}
	}
	return in
}

// ends finds words by what they begin and end with.
type ends struct{ prefix, suffix map[string][]string }

func newEnds(words []string) ends {
	e := ends{prefix: make(map[string][]string), suffix: make(map[string][]string)}
	for _, word := range words {
		for i := range len(word) {
			e.suffix[word[i:]] = append(e.suffix[word[i:]], word)
			e.prefix[word[:i+1]] = append(e.prefix[word[:i+1]], word)
		}
	}
	return e
}
