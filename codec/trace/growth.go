package trace

import (
	"cmp"
	"slices"
)

// growth is how a prompt grew of which a trace has only the length: each prompt of a conversation is the one before,
// the answer to that and new tokens. So the conversation is one stream of tokens, and a prompt is its beginning.
// Block ids that say so are made for whole blocks; what is left of a prompt is unique to it.
//
// Where the trace says how many tokens were kept, that many are. Else all of the prompt before are, as far as they fit,
// if the prompt is at least as long as that one. If it is shorter, the conversation was rewritten (compacted, cut, or
// its reasoning left out): then it keeps the tokens that the recorded server found in its cache. Those are no measure
// of what a longer prompt keeps. A server's cache may forget, and a prompt is not rewritten for that: TraceLab's own
// analysis does not count a smaller cached prefix as compaction either
// (https://github.com/uw-syfi/TraceLab, artifacts/session/session_token_steps).
//
// A conversation's first prompt has nothing before it. What of it was cached is the beginning of other conversations
// (a system prompt, tools). So first prompts of one head have as many tokens in common as were cached of both.
type growth struct {
	counted bool   // the prompt is only known by its length
	from    int64  // number of the row whose prompt and answer it continues; fromBefore = see [loader.continued]
	kept    int32  // tokens of those two at its beginning; noValue = not said
	head    string // whose first prompts begin alike, such as the model; "" = nobody's
}

// grownBlock is the tokens of a block in traces that only have lengths, as in Weka's.
const grownBlock = 64

// counted is a format of agents' requests with dates, of whose prompts it has only the lengths.
func counted(f format) *format {
	f.blockTokens, f.dates, f.surely, f.floor, f.tree = grownBlock, true, true, true, true
	return &f
}

const (
	fromBefore = -1 - iota
	fromNothing
)

// byLength is the growth of a prompt in a conversation whose rows only have lengths.
func byLength(head string) growth {
	return growth{counted: true, from: fromBefore, kept: noValue, head: head}
}

// growIDs makes the block ids of prompts that are known by their lengths, in order of time.
func (l *loader) growIDs(order []int32) {
	if l.growths == nil {
		return
	}
	from := l.continued(order)
	tree, trees := make([]int32, len(from)), int32(0) // of rows that come from one another
	for _, i := range order {
		if from[i] != noValue {
			tree[i] = tree[from[i]]
		} else {
			tree[i] = trees
			trees++
		}
	}
	together := slices.Clone(order) // so that a prompt lies where the one before does
	slices.SortStableFunc(together, func(a, b int32) int { return cmp.Compare(tree[a], tree[b]) })
	g := grower{loader: l, place: make([]int32, len(from)), heads: map[string][]uint64{}, last: noValue}
	g.streams.add(nil) // of rows that are not counted
	for _, i := range together {
		if l.growths[i].counted {
			g.add(i, from[i])
		}
	}
	l.ids = idStore{slabs: g.streams.slabs, held: g.streams.held, rows: make([]span, len(from))}
	for i, place := range g.place {
		l.ids.rows[i] = g.streams.rows[place]
		l.ids.rows[i].n = min(l.ids.rows[i].n, uint32(int(l.InputTokens[i])/l.BlockTokens))
	}
}

// continued finds the row that each row continues, noValue for none. Where it is not said, it is the nearest row before
// in its conversation whose answer had ended.
func (l *loader) continued(order []int32) []int32 {
	from := slices.Repeat([]int32{noValue}, len(l.ArrivalNS))
	place := make([]int, len(from)) // in order
	var counted []int32             // rows in the order in which their answers ended
	for n, i := range order {
		if place[i] = n; l.growths[i].counted {
			counted = append(counted, i)
		}
	}
	ended := slices.Clone(counted)
	slices.SortStableFunc(ended, func(a, b int32) int { return cmp.Compare(l.endOf(a), l.endOf(b)) })
	latest := map[int64]int32{} // of those that had ended, the row of a conversation that came last
	for _, i := range counted {
		for len(ended) > 0 && place[ended[0]] < place[i] && l.endOf(ended[0]) <= l.ArrivalNS[i] {
			session := l.sessionOf(ended[0])
			if b, known := latest[session]; !known || place[b] < place[ended[0]] {
				latest[session] = ended[0]
			}
			ended = ended[1:]
		}
		if number := l.growths[i].from; number >= 0 {
			if at, found := slices.BinarySearch(l.Row, int32(number)); found && !l.unusable[int32(at)] {
				from[i] = int32(at)
			}
		} else if b, known := latest[l.sessionOf(i)]; known && number == fromBefore {
			from[i] = b
		}
	}
	return from
}

// sessionOf is the number of a row's conversation, one of its own where it has none.
func (l *loader) sessionOf(i int32) int64 {
	if l.Session != nil {
		return l.Session[i]
	}
	return noSession(int(l.Row[i]))
}

// endOf is when the answer to a row ended. A request that is not known to have taken any time took none.
func (l *loader) endOf(i int32) int64 {
	if took := l.TookNS; took != nil {
		return sumOf(l.ArrivalNS[i], took[i])
	}
	return l.ArrivalNS[i]
}

// grower makes the streams of conversations.
type grower struct {
	*loader
	streams idStore             // a prompt's blocks, and behind them those of its answer
	place   []int32             // of a row's stream
	heads   map[string][]uint64 // blocks with which first prompts begin
	next    uint64              // id
	last    int32               // row added last
	list    []uint64            // scratch
}

// add makes the stream of row i, which continues row from.
func (g *grower) add(i, from int32) {
	blocks := (int(g.InputTokens[i]) + int(g.OutputTokens[i])) / g.BlockTokens
	var before []uint64
	if from != noValue {
		before = g.streams.row(int(g.place[from]))
		before = before[:min(len(before), int(g.keeps(i, from))/g.BlockTokens)]
	} else if cached := g.cachedOf(i); cached > 0 && g.growths[i].head != "" {
		before = g.head(g.growths[i].head, int(min(cached, g.InputTokens[i]))/g.BlockTokens)
	}
	g.list = g.fresh(append(g.list[:0], before...), blocks)
	g.place[i] = int32(len(g.streams.rows))
	if from != noValue && from == g.last && len(before) == int(g.streams.rows[g.place[from]].n) {
		g.streams.addLonger(g.list, len(g.streams.rows)-1)
	} else {
		g.streams.add(g.list)
	}
	g.last = i
}

// keeps is how many tokens row i has in common with the prompt of row from and its answer.
func (g *grower) keeps(i, from int32) int32 {
	kept, stream := g.growths[i].kept, g.InputTokens[from]+g.OutputTokens[from]
	switch {
	case kept != noValue:
	case g.InputTokens[i] >= g.InputTokens[from]:
		kept = stream
	default:
		kept = max(0, g.cachedOf(i))
	}
	return min(kept, g.InputTokens[i], stream)
}

// cachedOf is how many tokens of row i's prompt were cached when it was recorded, noValue if that is not known.
func (g *grower) cachedOf(i int32) int32 {
	if cached := g.Cached; cached != nil {
		return cached[i]
	}
	return noValue
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
