package tokenizer

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxWords are chosen: more make prompts no better, and take longer to prove.
const maxWords = 8192

// choice is the outcome of choosing words.
type choice struct {
	words, first []string
	err          error
}

// Words chooses words of two to seven lower-case letters that are single tokens
// in any company: behind a space, whatever chosen words stand before and behind
// it, and at the end of a prompt. Those of first are single tokens without the
// space too, at the start of a text and of a chat message, that is behind
// newlines, special tokens and "[INST] "; all of them are among words. Both are
// sorted.
//
// It proves the choice by encoding: each word alone in every place, and random
// runs of at least 100,000 words. It takes about a second, once; the slices are
// shared. Where no word may come first, there are none at all. An error says that
// the proof came to no end.
func (t *Tokenizer) Words() (words, first []string, err error) {
	t.once.Do(func() { t.found = t.choose() })
	return t.found.words, t.found.first, t.found.err
}

func (t *Tokenizer) choose() (found choice) {
	defer catch(&found.err)
	c := chooser{t: t, ids: make(map[string]int32), word: make(map[int32]string)}
	c.takeSingle()
	c.dropCrossing()
	c.takeFirst()
	c.dropByTails()
	if err := c.proveInRuns(); err != nil {
		return choice{err: err}
	}
	if len(c.first) == 0 {
		return choice{}
	}
	return choice{words: c.sorted(), first: slices.Sorted(maps.Keys(c.first))}
}

// chooser narrows down the words.
type chooser struct {
	t     *Tokenizer
	ids   map[string]int32 // of the words still in, behind a space
	first map[string]int32 // ids of those that may come first, without a space
	word  map[int32]string // what ids spell, but for a space before it
	buf   []int32
}

func (c *chooser) sorted() []string { return slices.Sorted(maps.Keys(c.ids)) }

func (c *chooser) drop(word string) {
	delete(c.ids, word)
	delete(c.first, word)
}

// encode returns the ids of a text, valid until the next call.
func (c *chooser) encode(parts ...string) []int32 {
	c.buf = c.t.encode(c.buf[:0], strings.Join(parts, ""))
	return c.buf
}

func (c *chooser) count(parts ...string) int { return len(c.encode(parts...)) }

// takeSingle takes the words that are one ordinary token behind a space, those
// with the smallest ids if there are many: vocabularies begin with the commonest.
func (c *chooser) takeSingle() {
	ordinary := make(map[int32]bool)
	for _, id := range c.t.Ordinary() {
		ordinary[int32(id)] = true
	}
	shape := regexp.MustCompile(`^(?: |▁|Ġ)?([a-z]{2,7})$`)
	c.t.pieces(func(id int32, _, text string) {
		if m := shape.FindStringSubmatch(text); m != nil && ordinary[id] {
			c.word[id] = m[1]
		}
	})
	for _, id := range slices.Sorted(maps.Keys(c.word)) {
		word := c.word[id]
		if _, known := c.ids[word]; known || len(c.ids) == maxWords {
			continue
		}
		if three, own := c.count(word, " ", word, " ", word), int32(0); three >= 3 {
			ids := c.encode(word, " ", word, " ", word, " ", word)
			own = ids[len(ids)-1]
			if len(ids) == three+1 && ids[three-1] == own && ids[three-2] == own && c.word[own] == word {
				c.ids[word] = own
			}
		}
	}
}

// contexts returns what may stand before a message, in templates of chats: line
// ends, special tokens of every kind, and Mistral's bracketed words.
func (c *chooser) contexts(before bool) []string {
	all := []string{"\n", "\n\n"}
	if before {
		all = append(all, "[INST] ")
	} else {
		all = append(all, " [/INST]")
	}
	kinds := make(map[addedToken]bool)
	for _, a := range c.t.addedIDs() {
		kind := addedToken{SingleWord: a.SingleWord, LStrip: a.LStrip, RStrip: a.RStrip, Normalized: a.Normalized}
		if a.Special && !kinds[kind] {
			kinds[kind] = true
			all = append(all, a.Content, a.Content+"\n")
		}
	}
	return all
}

// takeFirst takes the words that may open a prompt. Alone they are one token.
// Behind a context they are their own last token, and add as much to what stands
// before them as most words do: it may end in a space that goes with the word,
// or in newlines that are one token only at the end of a text.
func (c *chooser) takeFirst() {
	c.first = make(map[string]int32)
	for word := range c.ids {
		if ids := c.encode(word); len(ids) == 1 && c.word[ids[0]] == word {
			c.first[word] = ids[0]
		}
	}
	for _, context := range append(c.contexts(true), "") {
		c.first = c.behind(context)
	}
	for _, context := range rareContexts {
		if kept := c.behind(context); len(kept) >= len(c.first)*3/4 {
			c.first = kept
		}
	}
}

// rareContexts are ends of roles and tags, as few templates have them right
// before a message. Words that join them are left out where that leaves most.
var rareContexts = [...]string{"User:", "<user>", "[INST]", "\"", "\t"}

// behind returns the words of first that stay what they are behind a context.
func (c *chooser) behind(context string) map[string]int32 {
	kept := make(map[string]int32, len(c.first))
	added := make(map[string]int, len(c.first))
	for word, id := range c.first {
		ids := c.encode(context, word, " ", word)
		n := len(ids)
		if n < 2 || ids[n-1] != c.ids[word] || c.word[ids[n-2]] != word || context == "" && (n != 2 || ids[0] != id) {
			continue
		}
		kept[word], added[word] = id, n
	}
	c.keepUsual(added, kept)
	return kept
}

// keepUsual deletes the words from words whose count is not the commonest.
func (*chooser) keepUsual(counts map[string]int, words map[string]int32) {
	want := usual(counts)
	for word, n := range counts {
		if n != want {
			delete(words, word)
		}
	}
}

// dropByTails drops words to which the end of a prompt adds more or fewer tokens
// than to most.
func (c *chooser) dropByTails() {
	for _, context := range c.contexts(false) {
		added := make(map[string]int, len(c.ids))
		for word := range c.ids {
			added[word] = c.count(word, " ", word, context) - c.count(word, " ", word)
		}
		c.keepUsual(added, c.ids)
	}
	for word := range c.first {
		if _, in := c.ids[word]; !in {
			delete(c.first, word)
		}
	}
}

// usual returns the commonest value, the smallest of several.
func usual(values map[string]int) (best int) {
	counts := make(map[int]int)
	for _, v := range values {
		counts[v]++
	}
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		if counts[v] > counts[best] {
			best = v
		}
	}
	return best
}
