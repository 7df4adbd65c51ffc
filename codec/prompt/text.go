package prompt

import (
	_ "embed"
	"fmt"
	"strings"
)

// Lengths of the words that fit a table slot beside their space, in letters.
const (
	minLetters = 2
	maxLetters = slotBytes - 1
)

// What a vocabulary must offer. With fewer, different blocks would begin alike too often for cache hits to be
// predicted. With a hundred words at a position, two blocks share the first by chance in one case of a hundred. They
// share the first two in one of ten thousand. The first word of a prompt matters less, since only the start of a prompt
// has it.
const (
	MinWords = 100 // of one length
	MinFirst = 64
)

// Vocabulary is what text prompts are made of: words of lower-case letters that are single tokens behind a space in any
// company. Only those of two to seven letters are used.
type Vocabulary struct {
	Words []string
	// First are those of Words that are a single token without a leading space too, at the start of a prompt or
	// message.
	First []string
}

// Text writes prompts of words separated by one space, each exactly one token, whatever stands beside it. The first
// word has no leading space and is one that is a single token that way.
type Text struct {
	writer
	words [columns][]string // a length may serve several columns
	first []string
}

// NewText makes a source of text from a vocabulary. The seed decides which words a block stands for, and so do the
// words and their order.
func NewText(seed uint64, v Vocabulary) (*Text, error) {
	words, err := byLetters(v.Words)
	if err != nil {
		return nil, err
	}
	first, err := byLetters(v.First)
	if err != nil {
		return nil, err
	}
	letters := chooseLetters(words, first)
	t := &Text{first: first[letters[0]]}
	var all [columns]column
	for j, n := range letters {
		t.words[j] = words[n]
		if len(t.words[j]) < MinWords || len(t.first) < MinFirst {
			return nil, fmt.Errorf(
				"text prompts: the vocabulary has %d words of %d letters and %d of %d letters to begin with, "+
					"and %d and %d are needed: use --prompt token-ids",
				len(t.words[j]),
				n,
				len(t.first),
				letters[0],
				MinWords,
				MinFirst,
			)
		}
		all[j] = newColumn(t.words[j], ' ')
	}
	t.writer = newWriter(seed, all, newColumn(t.first, ' '))
	return t, nil
}

// lists holds words by their number of letters.
type lists [maxLetters + 1][]string

// byLetters sorts words into lists, each in the order given.
func byLetters(words []string) (l lists, err error) {
	for _, word := range words {
		for _, c := range []byte(word) {
			if c < 'a' || c > 'z' {
				return l, fmt.Errorf("text prompts: %.40q is no word of lower-case letters", word)
			}
		}
		if n := len(word); n >= minLetters && n <= maxLetters && len(l[n]) < maxColumn {
			l[n] = append(l[n], word)
		}
	}
	return l, nil
}

// chooseLetters returns the lengths of the words at positions 0, 1, 2 and 3 (and 4, 5, …) of a run. With fixed lengths
// a prompt's size follows from its tokens. The first is the length that most words to begin with have. The others go to
// the lengths with most words, divided by the columns that each would serve (d'Hondt's rule). So a length with very
// many words serves twice before one with few serves at all.
func chooseLetters(words, first lists) (letters [columns]int) {
	letters[0] = minLetters
	for n := range first {
		if len(first[n]) > len(first[letters[0]]) {
			letters[0] = n
		}
	}
	var serves [maxLetters + 1]int
	serves[letters[0]] = 1
	for range columns - 1 {
		best := minLetters
		for n := range words {
			if len(words[n])*(serves[best]+1) > len(words[best])*(serves[n]+1) {
				best = n
			}
		}
		serves[best]++
	}
	serves[letters[0]]--
	j := 1
	for n, times := range serves {
		for range times {
			letters[j] = n
			j++
		}
	}
	return letters
}

// Words returns the number of words that prompts are made of.
func (t *Text) Words() int {
	n := 0
	for _, list := range t.distinct() {
		n += len(list)
	}
	return n
}

// distinct returns the words of each length that serves, once.
func (t *Text) distinct() (all [][]string) {
	seen := [maxLetters + 1]bool{}
	for _, list := range t.words {
		if n := len(list[0]); !seen[n] {
			seen[n] = true
			all = append(all, list)
		}
	}
	return all
}

// AppendWords adds every word once, separated by spaces and led by one that may come first. By these Words() + 1 tokens
// a server is asked whether each word is a single token there.
func (t *Text) AppendWords(dst []byte) []byte {
	dst = append(dst, t.first[0]...)
	for _, list := range t.distinct() {
		for _, word := range list {
			dst = append(dst, ' ')
			dst = append(dst, word...)
		}
	}
	return dst
}

// words is the built-in vocabulary, one word a line. A star behind a word marks a single token without a leading space
// too. scripts/vocabulary makes the file. It names the vocabularies of which it is the intersection.
//
//go:embed words.txt
var words string

// BuiltIn returns the vocabulary of words that are single tokens in every public vocabulary that could be checked.
func BuiltIn() (v Vocabulary) {
	for line := range strings.Lines(words) {
		word, first := strings.CutSuffix(strings.TrimSpace(line), "*")
		if word == "" || word[0] == '#' {
			continue
		}
		v.Words = append(v.Words, word)
		if first {
			v.First = append(v.First, word)
		}
	}
	return v
}
