package agents

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// Growth is how a prompt grew of which a trace has only the length. Each prompt of a conversation is the one before,
// the answer to that and new tokens. So the conversation is one stream of tokens, and a prompt is its beginning. Block
// ids that say so are made for whole blocks; what is left of a prompt is unique to it.
//
// Where the trace says how many tokens were kept, that many are. Else all of the prompt before are, as far as they fit,
// if the prompt is at least as long as that one. If it is shorter, the conversation was rewritten: compacted, cut, or
// its reasoning left out. Then it keeps the tokens that the recorded server found in its cache. Those are no measure of
// what a longer prompt keeps. A server's cache may forget, and a prompt is not rewritten for that. TraceLab's own
// analysis does not count a smaller cached prefix as compaction either (https://github.com/uw-syfi/TraceLab,
// artifacts/session/session_token_steps).
//
// A conversation's first prompt has nothing before it. What of it was cached is the beginning of other conversations
// (a system prompt, tools). So first prompts of one head have as many tokens in common as were cached of both.
type Growth struct {
	Counted bool   // the prompt is only known by its length
	From    int32  // request whose prompt and answer it continues, FromBefore or FromNothing
	Kept    int32  // tokens of those two at its beginning; None = not said
	Head    string // whose first prompts begin alike, such as the model; "" = nobody's
}

// What a prompt continues where no request is named.
const (
	FromBefore  = -1 - iota // the nearest request before in its conversation whose answer had ended
	FromNothing             // it is a first prompt
)

// GrowByLength is the growth of a prompt in a conversation whose requests only have lengths.
func GrowByLength(head string) Growth {
	return Growth{Counted: true, From: FromBefore, Kept: None, Head: head}
}

// Prompts are the requests of a trace, a column for each property.
type Prompts struct {
	Growth       []Growth
	InputTokens  []int32
	OutputTokens []int32
	CachedTokens []int32 // when it was recorded, None = not known; nil = of none
	BeganNS      []int64
	TookNS       []int64 // None = not known, so it took none; nil = of none
	Conversation func(i int32) int64
	BlockTokens  int
}

// Grow returns the block ids of prompts that are known by their lengths; others have none. Order is the requests that
// count, in order of time.
func (p *Prompts) Grow(order []int32) lists.Store[uint64] {
	from := p.continued(order)
	tree := make([]int32, len(from))
	trees := int32(0) // of requests that come from one another
	for _, i := range order {
		if from[i] != None {
			tree[i] = tree[from[i]]
		} else {
			tree[i] = trees
			trees++
		}
	}
	together := slices.Clone(order) // so that a prompt lies where the one before does
	slices.SortStableFunc(together, func(a, b int32) int {
		return cmp.Compare(tree[a], tree[b])
	})
	g := grower{
		Prompts: p,
		place:   make([]int32, len(from)),
		heads:   map[string][]uint64{},
		last:    None,
	}
	g.streams.Add(nil) // of requests that are not counted
	for _, i := range together {
		if p.Growth[i].Counted {
			g.add(i, from[i])
		}
	}
	ids := g.streams.Fork(len(from))
	for i, place := range g.place {
		blocks := int(p.InputTokens[i]) / p.BlockTokens
		ids.AddFrom(&g.streams, int(place), blocks)
	}
	return ids
}

// continued finds the request that each one continues, None for none.
func (p *Prompts) continued(order []int32) []int32 {
	from := slices.Repeat([]int32{None}, len(p.Growth))
	place := make([]int, len(from)) // in order
	var counted []int32             // in the order in which they began
	for n, i := range order {
		place[i] = n
		if p.Growth[i].Counted {
			counted = append(counted, i)
		}
	}
	ended := slices.Clone(counted)
	slices.SortStableFunc(ended, func(a, b int32) int {
		return cmp.Compare(p.endNS(a), p.endNS(b))
	})
	latest := map[int64]int32{} // of those that had ended, the request of a conversation that came last
	for _, i := range counted {
		for len(ended) > 0 {
			first := ended[0]
			if place[first] >= place[i] || p.endNS(first) > p.BeganNS[i] {
				break
			}
			conversation := p.Conversation(first)
			if b, known := latest[conversation]; !known || place[b] < place[first] {
				latest[conversation] = first
			}
			ended = ended[1:]
		}
		said := p.Growth[i].From
		if said >= 0 {
			from[i] = said
		} else if b, known := latest[p.Conversation(i)]; known && said == FromBefore {
			from[i] = b
		}
	}
	return from
}

// endNS is when the answer to a request ended.
func (p *Prompts) endNS(i int32) int64 {
	if p.TookNS == nil {
		return p.BeganNS[i]
	}
	return After(p.BeganNS[i], p.TookNS[i])
}

// grower makes the streams of conversations.
type grower struct {
	*Prompts
	streams lists.Store[uint64] // a prompt's blocks, and behind them those of its answer
	place   []int32             // of a request's stream
	heads   map[string][]uint64 // blocks with which first prompts begin
	next    uint64              // id
	last    int32               // request added last
	list    []uint64            // scratch
}

// add makes the stream of request i, which continues request from.
func (g *grower) add(i, from int32) {
	var before []uint64
	goesOn := false // it has all of the stream added last
	if from != None {
		before = g.streams.Row(int(g.place[from]))
		all := len(before)
		kept := g.keeps(i, from) / int32(g.BlockTokens)
		before = before[:min(all, int(kept))]
		goesOn = from == g.last && len(before) == all
	} else if cached := g.cached(i); cached > 0 && g.Growth[i].Head != "" {
		kept := min(cached, g.InputTokens[i]) / int32(g.BlockTokens)
		before = g.head(g.Growth[i].Head, int(kept))
	}
	tokens := int(g.InputTokens[i]) + int(g.OutputTokens[i])
	g.list = append(g.list[:0], before...)
	g.list = g.fresh(g.list, tokens/g.BlockTokens)
	g.place[i] = int32(g.streams.Len())
	if goesOn {
		g.streams.AddLonger(g.list, g.streams.Len()-1)
	} else {
		g.streams.Add(g.list)
	}
	g.last = i
}

// keeps is how many tokens request i has in common with the prompt of request from and its answer.
func (g *grower) keeps(i, from int32) int32 {
	kept := g.Growth[i].Kept
	stream := g.InputTokens[from] + g.OutputTokens[from]
	switch {
	case kept != None:
	case g.InputTokens[i] >= g.InputTokens[from]:
		kept = stream
	default:
		kept = max(0, g.cached(i))
	}
	return min(kept, g.InputTokens[i], stream)
}

// cached is how many tokens of request i's prompt were cached when it was recorded, None if that is not known.
func (p *Prompts) cached(i int32) int32 {
	if p.CachedTokens == nil {
		return None
	}
	return p.CachedTokens[i]
}

// head is the first blocks with which first prompts begin.
func (g *grower) head(name string, blocks int) []uint64 {
	g.heads[name] = g.fresh(g.heads[name], blocks)
	return g.heads[name][:blocks]
}

// fresh appends new ids up to a number of blocks.
func (g *grower) fresh(list []uint64, blocks int) []uint64 {
	for len(list) < blocks {
		g.next++
		list = append(list, g.next)
	}
	return list
}
