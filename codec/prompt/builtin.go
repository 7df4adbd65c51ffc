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

// BuiltIn returns the vocabulary of words that are single tokens in every public
// vocabulary that could be checked.
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
