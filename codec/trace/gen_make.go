package trace

import (
	"math"
	"math/rand/v2"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const (
	// earlierPrompts is how many earlier first prompts are kept for later conversations to begin like.
	earlierPrompts = 64
	// earlierTries is how many of them are looked at for one that is long enough.
	earlierTries = 4
)

// conversation is one that goes on: its latest turn, from which the next one grows.
type conversation struct {
	root   int64 // chat id of the first turn
	chat   int64 // chat id of the latest turn, rows.NoParent before the first
	kind   uint16
	turn   int
	turns  int // that it will have
	tokens int // of the latest prompt
	before int // of the prompt before that
	output int
	ids    []uint64 // of the latest prompt
}

// maker makes prompts row by row.
type maker struct {
	g       Gen
	rng     *rand.PCG
	active  []*conversation // the longest waiting first
	system  []uint64        // blocks of the system prompt
	earlier [][]uint64      // a sample of first prompts
	longest []uint64        // the longest first prompt
	starts  int             // conversations begun
	nextID  uint64
	refs    int // block references so far
	reused  int // of these, blocks that an earlier row had
}

// pick takes the next turn of an active conversation, or begins one if too few are active. Only the quarter that has
// waited longest is asked, so that a conversation's turns lie apart as if somebody read the answer.
func (m *maker) pick() *conversation {
	for len(m.active) >= m.g.Active {
		at := m.draw(Range{0, (len(m.active) - 1) / 4})
		c := m.active[at]
		m.active = append(m.active[:at], m.active[at+1:]...)
		grown := c.tokens + c.output + m.draw(m.g.TurnTokens)
		if grown > m.g.InputTokens.longest() {
			continue // the conversation ends early
		}
		c.before = c.tokens
		c.tokens = grown
		c.turn++
		m.keep(c)
		return c
	}
	c := &conversation{
		chat:   rows.NoParent,
		turn:   1,
		turns:  m.draw(m.g.Turns),
		tokens: m.draw(m.g.InputTokens),
	}
	c.kind = uint16(m.draw(Range{0, len(m.g.Types) - 1}))
	m.keep(c)
	return c
}

// keep puts a conversation that has turns left at the end of the queue.
func (m *maker) keep(c *conversation) {
	if c.turn < c.turns {
		m.active = append(m.active, c)
	}
}

// extend gives the conversation's new turn its blocks and its output length.
func (m *maker) extend(c *conversation) {
	n := blocksOf(int32(c.tokens), m.g.BlockTokens)
	wanted := int(math.Round(m.g.Reuse*float64(m.refs+n))) - m.reused
	if n == 1 && m.g.Reuse > 0 && m.g.Reuse < 1 {
		// else every second prompt would be a hit whole, and of two servers by turns one would get all hits
		wanted += m.draw(Range{-4, 4})
	}
	wanted = max(0, min(wanted, n))
	known := m.known(c, wanted)
	known = known[:min(wanted, len(known))]
	ids := make([]uint64, 0, n)
	ids = append(ids, known...)
	for len(ids) < n {
		ids = append(ids, m.nextID)
		m.nextID++
	}
	m.refs += n
	m.reused += len(known)
	if c.turn == 1 {
		m.remember(ids, len(known))
	}
	c.ids = ids
	c.output = m.draw(m.g.OutputTokens)
}

// known returns the blocks that the prompt may begin with. These are those of the turn before, the system prompt, or an
// earlier first prompt that is long enough.
func (m *maker) known(c *conversation, wanted int) []uint64 {
	// a last block that was partial is complete since the answer, whose blocks are new, as in the published traces
	if c.turn > 1 {
		return c.ids[:min(len(c.ids), c.before/m.g.BlockTokens)]
	}
	if m.g.SystemTokens > 0 {
		return m.system
	}
	var best []uint64
	for range earlierTries {
		if len(m.earlier) == 0 || len(best) >= wanted {
			break
		}
		ids := m.earlier[m.draw(Range{0, len(m.earlier) - 1})]
		if len(ids) > len(best) {
			best = ids
		}
	}
	if len(best) < wanted && len(m.longest) > len(best) {
		return m.longest
	}
	return best
}

// remember keeps a first prompt, of which the first known blocks are old, for conversations to come.
func (m *maker) remember(ids []uint64, known int) {
	s := min(len(ids), m.g.SystemTokens/m.g.BlockTokens)
	if known == len(m.system) && s > known {
		m.system = ids[:s]
	}
	m.starts++
	if len(ids) > len(m.longest) {
		m.longest = ids
	}
	if len(m.earlier) < earlierPrompts {
		m.earlier = append(m.earlier, ids)
	} else if at := m.draw(Range{0, m.starts - 1}); at < earlierPrompts {
		m.earlier[at] = ids
	}
}

func (m *maker) draw(l Lengths) int {
	return l.draw(m.rng)
}
