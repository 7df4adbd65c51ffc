package prompt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// invented returns n words of some letters.
func invented(letters, n int) (words []string) {
	for i := range n {
		word := make([]byte, letters)
		for j, rest := 0, i; j < letters; j, rest = j+1, rest/26 {
			word[j] = 'a' + byte(rest%26)
		}
		words = append(words, string(word))
	}
	return words
}

// vocabulary has as many words and first words of each length as counts say.
func vocabulary(counts map[int][2]int) (v Vocabulary) {
	for letters := range 10 {
		words := invented(letters, counts[letters][0])
		v.Words = append(v.Words, words...)
		v.First = append(v.First, words[:counts[letters][1]]...)
	}
	return v
}

func TestLengthsOfWords(t *testing.T) {
	cases := []struct {
		name   string
		counts map[int][2]int
		want   [columns]int
	}{
		{"as built in", map[int][2]int{4: {934, 436}, 5: {912, 296}, 6: {903, 215}, 7: {791, 133}}, [columns]int{4, 5, 6, 7}},
		{"the most of six", map[int][2]int{2: {200, 200}, 3: {300, 90}, 4: {400, 100}, 5: {500, 110}, 6: {600, 120}, 7: {100, 1}}, [columns]int{2, 4, 5, 6}},
		{"one serves twice", map[int][2]int{3: {120, 80}, 4: {900, 70}, 5: {410, 0}, 6: {300, 0}, 7: {299, 0}}, [columns]int{3, 4, 4, 5}},
		{"one serves for all", map[int][2]int{3: {120, 80}, 4: {10, 0}}, [columns]int{3, 3, 3, 3}},
		{"too long ones are left out", map[int][2]int{3: {120, 80}, 8: {5000, 5000}}, [columns]int{3, 3, 3, 3}},
	}
	for _, c := range cases {
		text, err := NewText(1, vocabulary(c.counts))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got [columns]int
		for j, list := range text.words {
			got[j] = len(list[0])
		}
		expect.Equal(t, got, c.want, "%s: words letters", c.name)
		checkVocabulary(t, c.name, text)
	}
}

// checkVocabulary: every word comes once in the probe, and prompts have as many words as tokens were asked for and the
// size that was promised.
func checkVocabulary(t *testing.T, name string, text *Text) {
	t.Helper()
	fields := strings.Fields(string(text.AppendWords(nil)))
	if rest := slices.Sorted(slices.Values(fields[1:])); len(rest) != text.Words() || len(slices.Compact(rest)) != text.Words() {
		t.Errorf("%s: %d words in the probe, want each of %d once", name, len(rest), text.Words())
	}
	for tokens := range 40 {
		s := Spec{Blocks: []uint64{1, 2}, BlockTokens: 7, Tokens: tokens}
		got := string(text.Append(nil, s))
		words := strings.Fields(got)
		if len(words) != tokens || len(got) != text.Size(s) || strings.Join(words, " ") != got {
			t.Fatalf("%s: %d tokens asked for: %q", name, tokens, got)
		}
		if tokens > 0 && !slices.Contains(text.first, words[0]) {
			t.Errorf("%s: %q comes first", name, words[0])
		}
	}
}

func TestVocabulariesThatCannotWork(t *testing.T) {
	cases := []struct {
		name string
		v    Vocabulary
		says string
	}{
		{"empty", Vocabulary{}, "0 words of 2 letters"},
		{"too few words", vocabulary(map[int][2]int{4: {99, 99}}), "99 words of 4 letters"},
		{"too few first words", vocabulary(map[int][2]int{4: {500, 63}}), "63 of 4 letters to begin with"},
		{"not letters", Vocabulary{Words: []string{`quo"te`}}, "no word of lower-case letters"},
	}
	for _, c := range cases {
		expect.Refused(NewText(1, c.v))(t, c.says, c.name)
	}
}

func TestTokenIDsWithGaps(t *testing.T) {
	var ids []int
	for id := 300; id < 40000; id += 3 {
		ids = append(ids, id)
	}
	source := must.Have(NewTokenIDs(1, ids))(t)
	if first, last := source.Range(); first != 10002 || last != 39999 {
		t.Errorf("uses %d to %d", first, last)
	}
	for _, field := range strings.Split(string(source.Append(nil, Spec{Tokens: 5000})), ",") {
		var id int
		if _, err := fmt.Sscan(field, &id); err != nil || len(field) != 5 || id%3 != 0 || id >= 40000 {
			t.Fatalf("id %s is none of those given", field)
		}
	}
}
