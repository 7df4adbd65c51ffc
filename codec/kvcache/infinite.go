// Package kvcache models the prefix caches of LLM servers over the hash ids of
// a trace's blocks.
//
// It owns what a cache would hold for a prompt, in tokens. It does not know how
// tokens are written, which server caches, or when prompts arrive: a model is
// shown prompts in the order of their arrival, or what became of them in the
// order of time. Models are not safe for concurrent use. They allocate as they
// grow, with the number of distinct blocks in distinct contexts: Infinite 24 to
// 40 bytes each.
package kvcache

// Infinite is an ideal prefix cache of unlimited size: what it holds for a
// prompt is the most that any server could reuse.
type Infinite struct {
	blockTokens  int // tokens that one hash id stands for
	engineTokens int // tokens that the server caches as one piece
	prefixes     *tree
	ends         map[end]struct{} // where prompts without unique tokens ended
	started      bool             // a prompt was seen, so the template's head is held
}

// end is the last block of a text and how many tokens of it belong to the text.
type end struct {
	node   uint32
	tokens uint32
}

// NewInfinite makes an empty cache for hash ids of blockTokens tokens each and a
// server that caches engineBlockTokens tokens at a time, both at least 1.
func NewInfinite(blockTokens, engineBlockTokens int) *Infinite {
	if blockTokens < 1 || engineBlockTokens < 1 {
		panic("BUG: kvcache: a block of less than one token")
	}
	return &Infinite{
		blockTokens:  blockTokens,
		engineTokens: engineBlockTokens,
		prefixes:     newTree(),
		ends:         make(map[end]struct{}),
	}
}

// Expected returns how many tokens of a prompt an ideal cache holds when the
// prompt arrives, then remembers the prompt. The prompt's text is tokens long
// and begins with blocks, of which a last partial one is a prefix of its full
// block; what lies beyond them is unique. head is the number of template tokens
// before the text, total what the server counts: head, text and tail.
//
// Held are whole engine blocks of the longest prefix shared with any earlier
// prompt, never the whole prompt, since the server has to compute the last
// token: floor(min(head+shared, total-1)/b)*b. Prompts of equal text share the
// template's tail too. The first prompt finds nothing.
func (c *Infinite) Expected(blocks []uint64, tokens, head, total int) int {
	shared, whole := c.remember(blocks, tokens)
	if !c.started {
		c.started = true
		return 0
	}
	held := head + shared
	if whole {
		held = total
	}
	held = max(0, min(held, total-1))
	return held - held%c.engineTokens
}

// remember adds a text and returns how many tokens at its front were seen
// before, and whether the very same text was.
func (c *Infinite) remember(blocks []uint64, tokens int) (shared int, whole bool) {
	var last end
	rest := max(0, tokens)
	for _, id := range blocks {
		if rest == 0 {
			break
		}
		n := min(rest, c.blockTokens)
		node, seen := c.prefixes.extend(last.node, id, uint32(n))
		shared += min(n, int(seen)) // once a block was not whole, those after it are new
		last = end{node: node, tokens: uint32(n)}
		rest -= n
	}
	if rest > 0 {
		return shared, false
	}
	_, whole = c.ends[last]
	if !whole {
		c.ends[last] = struct{}{}
	}
	return shared, whole
}
