package tokenizer

import (
	"fmt"
	"maps"
	"math/rand/v2"
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

// Words chooses words of two to seven lower-case letters that are single tokens everywhere. That is behind a space,
// between any chosen words, and at the end of a prompt. Those of first are single tokens without the space too, at the
// start of a text and of a chat message. That is behind newlines, special tokens and "[INST] ". All of them are among
// words. Both are sorted.
//
// It proves the choice by encoding: each word alone in every place, and random runs of at least 100,000 words. It takes
// about a second, once; the slices are shared. If no word may come first, there are none at all. An error means that
// the proof came to no end.
func (t *Tokenizer) Words() (words, first []string, err error) {
	t.once.Do(func() { t.found = t.choose() })
	return t.found.words, t.found.first, t.found.err
}

func (t *Tokenizer) choose() (found choice) {
	defer catch(&found.err)
	c := chooser{
		t:    t,
		ids:  map[string]int32{},
		word: map[int32]string{},
	}
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

func (c *chooser) sorted() []string {
	return slices.Sorted(maps.Keys(c.ids))
}

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

// takeSingle takes the words that are one ordinary token behind a space. If there are many, it takes those with the
// smallest ids: vocabularies begin with the commonest.
func (c *chooser) takeSingle() {
	ordinary := make(map[int32]bool)
	for _, id := range c.t.Ordinary() {
		ordinary[int32(id)] = true
	}
	shape := regexp.MustCompile(`^(?: |▁|Ġ)?([a-z]{2,7})$`)
	c.t.model.each(func(id int32, _, text string) {
		m := shape.FindStringSubmatch(text)
		if m != nil && ordinary[id] {
			c.word[id] = m[1]
		}
	})
	for _, id := range slices.Sorted(maps.Keys(c.word)) {
		word := c.word[id]
		_, known := c.ids[word]
		if known || len(c.ids) == maxWords {
			continue
		}
		three := c.count(word, " ", word, " ", word)
		if three < 3 {
			continue
		}
		ids := c.encode(word, " ", word, " ", word, " ", word)
		own := ids[len(ids)-1]
		if len(ids) == three+1 && ids[three-1] == own && ids[three-2] == own && c.word[own] == word {
			c.ids[word] = own
		}
	}
}

// contexts returns what may stand before a message, in templates of chats: line ends, special tokens of every kind, and
// Mistral's bracketed words.
func (c *chooser) contexts(before bool) []string {
	all := []string{"\n", "\n\n", " [/INST]"}
	if before {
		all[2] = "[INST] "
	}
	kinds := make(map[addedToken]bool)
	for _, a := range c.t.added.all {
		kind := a
		kind.ID = 0
		kind.id = 0
		kind.Content = ""
		if a.Special && !kinds[kind] {
			kinds[kind] = true
			all = append(all, a.Content, a.Content+"\n")
		}
	}
	return all
}

// takeFirst takes the words that may open a prompt. Alone they are one token. Behind a context they are their own last
// token, and add as many tokens as most words do. A context may end in a space that joins the word, or in newlines that
// are one token only at the end of a text.
func (c *chooser) takeFirst() {
	c.first = make(map[string]int32)
	for word := range c.ids {
		ids := c.encode(word)
		if len(ids) == 1 && c.word[ids[0]] == word {
			c.first[word] = ids[0]
		}
	}
	for _, context := range append(c.contexts(true), "") {
		c.first = c.behind(context)
	}
	for _, context := range rareContexts {
		kept := c.behind(context)
		if len(kept) >= len(c.first)*3/4 {
			c.first = kept
		}
	}
}

// rareContexts are ends of roles and tags, as few templates have them right before a message. Words that join them are
// left out where that leaves most.
var rareContexts = [...]string{"User:", "<user>", "[INST]", "\"", "\t"}

// behind returns the words of first that stay what they are behind a context.
func (c *chooser) behind(context string) map[string]int32 {
	kept := make(map[string]int32, len(c.first))
	added := make(map[string]int, len(c.first))
	for word, id := range c.first {
		ids := c.encode(context, word, " ", word)
		n := len(ids)
		alone := n == 2 && ids[0] == id
		if n < 2 || context == "" && !alone {
			continue
		}
		if c.word[ids[n-2]] == word && ids[n-1] == c.ids[word] {
			kept[word] = id
			added[word] = n
		}
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

// dropByTails drops words to which the end of a prompt adds more or fewer tokens than to most.
func (c *chooser) dropByTails() {
	for _, context := range c.contexts(false) {
		added := make(map[string]int, len(c.ids))
		for word := range c.ids {
			plain := c.count(word, " ", word)
			added[word] = c.count(word, " ", word, context) - plain
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

// Sizes of the proof.
const (
	provenWords  = 100000 // in runs, at least
	provenRounds = 8      // and each word this often
	runWords     = 512
	maxAttempts  = 20
)

// proveInRuns encodes random runs of all words, in random contexts, and drops the words that do not come out as their
// own tokens. Then it begins anew, until a whole proof goes without.
func (c *chooser) proveInRuns() error {
	chance := rand.New(rand.NewPCG(1, 2))
	for range maxAttempts {
		if len(c.first) == 0 || c.attempt(chance) {
			return nil
		}
	}
	return fmt.Errorf(
		"after %d attempts its words still do not stay single tokens beside each other: use --prompt token-ids",
		maxAttempts,
	)
}

// attempt is one whole proof; false if it dropped a word.
func (c *chooser) attempt(chance *rand.Rand) bool {
	words := c.sorted()
	first := slices.Sorted(maps.Keys(c.first))
	heads := append(c.contexts(true), "")
	tails := append(c.contexts(false), "")
	around := make(map[[2]string]int) // tokens beside the words, by head and tail
	clean := true
	for proven := 0; proven < max(provenWords, provenRounds*len(words)); proven += len(words) {
		chance.Shuffle(len(words), func(i, j int) {
			words[i], words[j] = words[j], words[i]
		})
		for run := range slices.Chunk(words, runWords) {
			run = append([]string{anyOf(chance, first)}, run...)
			if !c.runIsExact(run) {
				clean = false
				continue
			}
			place := [2]string{anyOf(chance, heads), anyOf(chance, tails)}
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

// anyOf is one of some texts, each equally likely.
func anyOf(chance *rand.Rand, texts []string) string {
	return texts[chance.IntN(len(texts))]
}

// runIsExact reports whether every word of a run is its own token, and drops the first two that are not.
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

// dropCrossing makes sure that no piece of the vocabulary reaches from one word into the next. A pre-tokenizer that
// cuts between words does so for all of them. Without one ("▁of▁the" in a SentencePiece vocabulary) a piece could cross
// a space between two chosen words. Then one of its sides is dropped, whichever has the fewest words. A side is a word
// in its middle, the words that end as it begins, or those that begin as it ends. What is left cannot be joined:
// whatever a merge or a search makes is a piece.
func (c *chooser) dropCrossing() {
	space, apart := c.space()
	if apart {
		return
	}
	var crossing [][]string
	inner := regexp.MustCompile(`[a-z]` + regexp.QuoteMeta(space))
	c.t.model.each(func(_ int32, _, text string) {
		if inner.MatchString(text) {
			crossing = append(crossing, strings.Split(text, space))
		}
	})
	slices.SortFunc(crossing, slices.Compare[[]string])
	for _, parts := range crossing {
		for _, word := range c.fewest(parts) {
			c.drop(word)
		}
	}
}

// space returns how the model sees a space between words, and whether the pre-tokenizer always keeps words apart.
func (c *chooser) space() (mark string, apart bool) {
	words := c.t.cut("ab cd ef")
	all := strings.Join(words, "")
	from := strings.Index(all, "ab")
	end := strings.Index(all, "cd")
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

// fewest returns the words to drop so that the piece made of parts, with a space between each, cannot occur; none if it
// cannot anyway.
func (c *chooser) fewest(parts []string) (drop []string) {
	last := len(parts) - 1
	var sides [][]string
	if parts[0] != "" { // else it begins with a space: nothing is asked of the word before
		sides = append(sides, c.having(strings.HasSuffix, parts[0]))
	}
	if parts[last] != "" {
		sides = append(sides, c.having(strings.HasPrefix, parts[last]))
	}
	for _, word := range parts[1:max(1, last)] {
		if _, in := c.ids[word]; !in {
			return nil
		}
		sides = append(sides, []string{word})
	}
	for i, side := range sides {
		if i == 0 || len(side) < len(drop) {
			drop = side
		}
	}
	return drop
}

// having returns the words still in that begin or end so.
func (c *chooser) having(has func(word, part string) bool, part string) (words []string) {
	for word := range c.ids {
		if has(word, part) {
			words = append(words, word)
		}
	}
	return words
}
