package tokenizer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Sizes of the proof.
const (
	provenWords  = 100000 // in runs, at least
	provenRounds = 8      // and each word this often
	runWords     = 512
	maxAttempts  = 20
)

// proveInRuns encodes random runs of all words, in random contexts, and drops
// the words that do not come out as their own tokens. Then it begins anew, until
// a whole proof goes without.
func (c *chooser) proveInRuns() error {
	chance := rand.New(rand.NewPCG(1, 2))
	for range maxAttempts {
		if len(c.first) == 0 || c.attempt(chance) {
			return nil
		}
	}
	return fmt.Errorf("after %d attempts its words still do not stay single tokens beside each other: use --prompt token-ids", maxAttempts)
}

// attempt is one whole proof; false if it dropped a word.
func (c *chooser) attempt(chance *rand.Rand) bool {
	words, first := c.sorted(), slices.Sorted(maps.Keys(c.first))
	heads, tails := append(c.contexts(true), ""), append(c.contexts(false), "")
	around := make(map[[2]string]int) // tokens beside the words, by head and tail
	clean := true
	for proven := 0; proven < max(provenWords, provenRounds*len(words)); proven += len(words) {
		chance.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		for run := range slices.Chunk(words, runWords) {
			run = append([]string{first[chance.IntN(len(first))]}, run...)
			if !c.runIsExact(run) {
				clean = false
				continue
			}
			place := [2]string{heads[chance.IntN(len(heads))], tails[chance.IntN(len(tails))]}
			extra := c.count(place[0], strings.Join(run, " "), place[1]) - len(run)
			if usual, known := around[place]; known && usual != extra {
				c.drop(run[0])
				c.drop(run[len(run)-1])
				clean = false
			}
			around[place] = extra
		}
	}
	return clean
}

// runIsExact says whether every word of a run is its own token, and drops the
// first two that are not.
func (c *chooser) runIsExact(run []string) bool {
	got := c.encode(strings.Join(run, " "))
	for i, word := range run {
		want := c.ids[word]
		if i == 0 {
			want = c.first[word]
		}
		if _, in := c.ids[word]; !in {
			return false // dropped since the shuffle
		}
		if i >= len(got) || got[i] != want {
			c.drop(word)
			c.drop(run[min(i+1, len(run)-1)])
			return false
		}
	}
	return len(got) == len(run)
}
