// Package kvcache models the prefix caches of LLM servers over the hash ids of a trace's blocks.
//
// It owns what a cache would hold for a prompt, in tokens. It does not own how tokens are written, which server caches,
// or when prompts arrive. A model gets prompts in the order of their arrival, or the events of requests in the order of
// time. Models are not safe for concurrent use. They allocate as they grow, with the number of distinct blocks in
// distinct contexts: Infinite 24 to 40 bytes each.
package kvcache

import "hash/maphash"

// Infinite is an ideal prefix cache of unlimited size: what it holds for a prompt is the most that any server could
// reuse.
type Infinite struct {
	blockTokens  int // tokens that one hash id stands for
	engineTokens int // tokens that the server caches as one piece
	prefixes     *tree
	ends         *tree // where prompts without unique tokens ended: behind which node, after how many of its tokens
	started      bool  // a prompt was seen, so the template's head is held
}

// end is the last block of a text and how many tokens of it belong to the text.
type end struct {
	node   uint32
	tokens uint32
}

// NewInfinite makes an empty cache for hash ids of blockTokens tokens each. The server caches engineBlockTokens tokens
// at a time. Both are at least 1.
func NewInfinite(blockTokens, engineBlockTokens int) *Infinite {
	if blockTokens < 1 || engineBlockTokens < 1 {
		panic("BUG: kvcache: a block of less than one token")
	}
	return &Infinite{
		blockTokens:  blockTokens,
		engineTokens: engineBlockTokens,
		prefixes:     newTree(),
		ends:         newTree(),
	}
}

// Expected returns how many tokens of a prompt an ideal cache holds when the prompt arrives, then remembers the prompt.
// The prompt's text has so many tokens and begins with blocks; a last partial one is a prefix of its full block. What
// lies beyond them is unique. head is the number of template tokens before the text. total is what the server counts:
// head, text and tail.
//
// The cache holds whole engine blocks of the longest prefix shared with any earlier prompt: floor(min(head+shared,
// total-1)/b)*b. It never holds the whole prompt, since the server has to compute the last token. Prompts of equal text
// share the template's tail too. The first prompt finds nothing.
func (c *Infinite) Expected(blocks []uint64, tokens, head, total int) int {
	return c.Remember(blocks, tokens).Usable(head, total, c.engineTokens)
}

// Remember remembers a prompt and returns what the cache held of it before. The text is given as in Expected.
func (c *Infinite) Remember(blocks []uint64, tokens int) Found {
	shared, last, fresh, unique := c.remember(blocks, tokens)
	f := Found{tokens: shared, any: c.started}
	switch {
	case unique > 0:
	case fresh:
		c.ends.add(last.node, uint64(last.tokens), 1)
	default:
		_, seen := c.ends.extend(last.node, uint64(last.tokens), 1)
		f.again = seen > 0
	}
	c.started = true
	return f
}

// Held is what Expected returns, but nothing is remembered.
func (c *Infinite) Held(blocks []uint64, tokens, head, total int) int {
	f := Found{any: c.started}
	var last end
	for _, id := range blocks {
		n := min(tokens, c.blockTokens)
		if n <= 0 {
			break
		}
		node := c.prefixes.find(last.node, id)
		if node == 0 {
			return f.Usable(head, total, c.engineTokens)
		}
		f.tokens += min(n, int(c.prefixes.nodes[node].longest))
		last = end{node: node, tokens: uint32(n)}
		tokens -= n
	}
	f.again = tokens <= 0 && c.ends.find(last.node, uint64(last.tokens)) != 0
	return f.Usable(head, total, c.engineTokens)
}

// Found is what a cache held of a prompt when it came.
type Found struct {
	tokens int  // at the front of its text
	again  bool // the same text came before
	any    bool // some prompt came before, so the template's head is held
}

// Usable is how many tokens of the prompt a server takes from such a cache, which it keeps in blocks of engineTokens.
// head and total are as in Expected.
func (f Found) Usable(head, total, engineTokens int) int {
	held := head + f.tokens
	if f.again {
		held = total
	}
	if !f.any {
		return 0
	}
	return usable(held, total, engineTokens)
}

// usable returns what a server uses of a prompt of which it holds so many tokens. It uses whole blocks, and not the
// last token, which has to be computed.
func usable(held, total, engineTokens int) int {
	held = clamp(held, total-1)
	return held - held%engineTokens
}

// Answered remembers what the server has made behind a prompt. From now on it holds the first tokens of a text that
// blocks begin, of which the prompt is the beginning.
func (c *Infinite) Answered(blocks []uint64, tokens int) {
	c.remember(blocks, tokens)
}

// remember adds a text. It returns how many tokens at its front were seen before and its last block. It also returns
// whether that block is new, and how many tokens lie beyond it.
func (c *Infinite) remember(blocks []uint64, tokens int) (shared int, last end, fresh bool, unique int) {
	for _, id := range blocks {
		n := min(tokens, c.blockTokens)
		if n <= 0 {
			break
		}
		var node, seen uint32
		if fresh { // so there is nothing to find behind it
			node = c.prefixes.add(last.node, id, uint32(n))
		} else {
			node, seen = c.prefixes.extend(last.node, id, uint32(n))
			fresh = seen == 0
		}
		shared += min(n, int(seen)) // once a block was not whole, those after it are new
		last = end{node: node, tokens: uint32(n)}
		tokens -= n
	}
	return shared, last, fresh, tokens
}

// Prompts are the prompts of many requests, taken apart once for any number of Fleets. Each is a list of blocks by
// number. A block is its content together with all before it. When all are added, any number of goroutines may read
// them. They take 4 bytes for each block of each prompt, and 24 to 40 for each distinct one.
type Prompts struct {
	blockTokens int // tokens that one hash id stands for
	head        int // template tokens before every text
	prefixes    *tree
	alone       uint64 // blocks that belong to one prompt only
	seed        maphash.Seed
	first       []int // prompt i's blocks begin at first[i]
	blocks      []uint32
	ends        []ending
}

// ending is what a prompt has besides its blocks.
type ending struct {
	total  int32 // tokens as the server counts them
	shared int32 // tokens of the blocks that other prompts can have, head and tail left out
	text   bool
}

// A prompt of which only the text is known is cut into pieces of so many bytes. Each counts as so many tokens: a token
// of English text has about 4 bytes.
const (
	pieceBytes  = 64
	pieceTokens = 16
)

// NewPrompts begins a list of prompts with hash ids of blockTokens tokens, at least 1, and head template tokens before
// the text of each.
func NewPrompts(blockTokens, head int) *Prompts {
	if blockTokens < 1 || head < 0 {
		panic("BUG: kvcache: a block of less than one token or a head below 0")
	}
	return &Prompts{
		blockTokens: blockTokens,
		head:        head,
		prefixes:    newTree(),
		seed:        maphash.MakeSeed(),
		first:       []int{0},
	}
}

// Add appends a prompt, given as in Infinite.Expected.
func (p *Prompts) Add(ids []uint64, tokens, total int) {
	known := max(0, min(tokens, total-p.head, len(ids)*p.blockTokens))
	node := uint32(0)
	if p.head > 0 {
		node = p.extend(node, 0, p.head)
	}
	inNode := 0
	for at := 0; at < known; at += inNode {
		inNode = min(p.blockTokens, known-at)
		node = p.extend(node, ids[at/p.blockTokens], inNode)
	}
	switch rest := total - p.head - known; {
	case rest > 0 && known == tokens: // equal texts share the template's tail
		p.extend(node|tail, uint64(inNode), rest)
	case rest > 0:
		p.extend(tail, p.alone, rest)
		p.alone++
	}
	p.end(ending{total: int32(total), shared: int32(known)})
}

// AddText appends a prompt of which no tokens are known, by its text. It takes part in the choice of an instance, and
// in no count of tokens.
func (p *Prompts) AddText(text []byte) {
	node := uint32(0)
	tokens := 0
	for ; len(text) >= pieceBytes; text = text[pieceBytes:] {
		id := maphash.Bytes(p.seed, text[:pieceBytes])
		node = p.extend(node, id, pieceTokens)
		tokens += pieceTokens
	}
	p.end(ending{
		total:  int32(tokens) + 1,
		shared: int32(tokens),
		text:   true,
	})
}

func (p *Prompts) extend(parent uint32, id uint64, tokens int) uint32 {
	node, _ := p.prefixes.extend(parent, id, uint32(tokens))
	p.blocks = append(p.blocks, node)
	return node
}

func (p *Prompts) end(e ending) {
	p.ends = append(p.ends, e)
	p.first = append(p.first, len(p.blocks))
}

// Len is how many prompts there are.
func (p *Prompts) Len() int { return len(p.ends) }

// Tokens is the length of prompt i as the server counts it; 0 where only its text is known.
func (p *Prompts) Tokens(i int) int {
	if p.ends[i].text {
		return 0
	}
	return int(p.ends[i].total)
}

// headOf is how many template tokens precede prompt i.
func (p *Prompts) headOf(i int) int {
	if p.ends[i].text {
		return 0
	}
	return p.head
}

// of is prompt i's blocks.
func (p *Prompts) of(i int) []uint32 {
	return p.blocks[p.first[i]:p.first[i+1]]
}

// distinct is one more than the largest number of a block.
func (p *Prompts) distinct() int { return len(p.prefixes.nodes) }

// most is how many tokens of a block any prompt has.
func (p *Prompts) most(block uint32) int32 {
	return int32(p.prefixes.nodes[block].longest)
}

// upTo is how many tokens prompt i's first n blocks have.
func (p *Prompts) upTo(i, n int) int {
	e := &p.ends[i]
	switch {
	case n == 0:
		return 0
	case e.text:
		return n * pieceTokens
	case n == p.first[i+1]-p.first[i]:
		return int(e.total)
	case p.head > 0:
		return p.head + min((n-1)*p.blockTokens, int(e.shared))
	}
	return min(n*p.blockTokens, int(e.shared))
}
