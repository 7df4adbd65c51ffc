package prompt

import (
	_ "embed"
	"strings"
)

// words is the built-in vocabulary, one word a line. A star behind a word says
// that it is a single token without a leading space too. scripts/vocabulary
// makes the file and names the vocabularies that it is the intersection of.
//
//go:embed words.txt
var words string

// wordLetters is the length of the words at positions 0, 1, 2 and 3 (and 4, 5,
// …) of a run: with fixed lengths a prompt's size follows from its tokens.
var wordLetters = [columns]int{4, 5, 6, 7}

// Text writes prompts of common lower-case words, separated by one space, of
// which each is exactly one token in every vocabulary that the list was made
// from, whatever stands beside it. The first word has no leading space and is
// one that is a single token that way.
type Text struct {
	writer
	words [columns][]string
	first []string
}

// NewText makes a source of text from the built-in vocabulary. The seed decides
// which words a block stands for.
func NewText(seed uint64) *Text {
	t := &Text{}
	for line := range strings.Lines(words) {
		word, bare := strings.CutSuffix(strings.TrimSpace(line), "*")
		if word == "" || word[0] == '#' {
			continue
		}
		for j, letters := range wordLetters {
			if len(word) == letters {
				t.words[j] = append(t.words[j], word)
			}
		}
		if bare && len(word) == wordLetters[0] {
			t.first = append(t.first, word)
		}
	}
	var all [columns]column
	for j := range all {
		all[j] = newColumn(t.words[j], ' ')
	}
	t.writer = newWriter(seed, all, newColumn(t.first, ' '))
	return t
}

// Words returns the number of words that prompts are made of.
func (t *Text) Words() int {
	n := 0
	for _, column := range t.words {
		n += len(column)
	}
	return n
}

// AppendWords adds every word once, separated by spaces and led by one that may
// come first: Words() + 1 tokens, by which a server is asked whether each word
// is a single token there.
func (t *Text) AppendWords(dst []byte) []byte {
	dst = append(dst, t.first[0]...)
	for _, column := range t.words {
		for _, word := range column {
			dst = append(dst, ' ')
			dst = append(dst, word...)
		}
	}
	return dst
}
