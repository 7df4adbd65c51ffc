package trace

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Copies is the trace of requests each of which is a copy of one of t: request i is request source[i] in clone clone[i], 0 being t
// itself, and arrives at atNS[i], in ns since the first, ascending. Untimed stays untimed. A request comes at most once in a clone.
//
// Clones share nothing with t and with each other but the first shared[source[i]] blocks of a prompt: their other block ids, their
// sessions and their chats are new, alike within a clone, and Unique tells what has no id apart. Rows keep their numbers. A clone of
// what is there word for word would have the same words, and is an error.
func (t *Trace) Copies(source, clone []int32, atNS []int64, shared []int32) (*Trace, error) {
	clones := slices.Max(append([]int32{0}, clone...))
	if clones > 0 && t.Literals() > 0 {
		return nil, errors.New("prompts that are there word for word cannot be cloned: the same words would hit the same cache; give a factor below 1, or --repeat")
	}
	out := t.chosen(source)
	out.Clone, out.ArrivalNS = slices.Clone(clone), slices.Clone(atNS)
	if t.Untimed {
		clear(out.ArrivalNS)
	}
	if err := out.copyIDs(t, source, clones, shared); err != nil {
		return nil, fmt.Errorf("block ids: %w", err)
	}
	if err := out.copySessions(t, source, clones); err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	return out, nil
}

// Fitted is the trace of t's requests in order, which ascends. Their lengths in tokens are those given for t's requests; of a prompt
// that becomes shorter the end is missing, so that what it shares with others stays shared.
func (t *Trace) Fitted(order, input, output []int32) *Trace {
	out := t.chosen(order)
	out.InputTokens, out.OutputTokens = gather(order, input), gather(order, output)
	out.ids = t.ids.chosen(order, func(row int32) int { return blocksOf(input[row], t.BlockTokens) })
	return out
}

// chosen is the trace of t's requests in order, but for block ids, each as and when it was.
func (t *Trace) chosen(order []int32) *Trace {
	out := *t
	out.words = Words{}
	out.ArrivalNS, out.Row, out.Clone = gather(order, t.ArrivalNS), gather(order, t.Row), gathered(order, t.Clone)
	out.InputTokens, out.OutputTokens = gather(order, t.InputTokens), gather(order, t.OutputTokens)
	out.Session, out.Turn, out.Chat, out.Parent = gathered(order, t.Session), gathered(order, t.Turn), gathered(order, t.Chat), gathered(order, t.Parent)
	out.DelayNS, out.Type = gathered(order, t.DelayNS), gathered(order, t.Type)
	out.literals, out.answers = t.literals.chosen(order), chosenAnswers(t.answers, order)
	return &out
}

// gathered keeps a missing column missing.
func gathered[T any](order []int32, column []T) []T {
	if column == nil {
		return nil
	}
	return gather(order, column)
}

// Unique is the key of what is unique to request i, beyond its block ids. It is the row, and tells clones of it apart.
func (t *Trace) Unique(i int) uint64 {
	key := uint64(t.Row[i])
	if t.Clone != nil {
		key |= uint64(t.Clone[i]) << 32
	}
	return key
}

// copyIDs gives the copies the blocks of their sources under the ids of their clones.
func (out *Trace) copyIDs(t *Trace, source []int32, clones int32, shared []int32) error {
	fresh, err := newFresh(func(yield func(uint64) bool) {
		for i := range t.Len() {
			for _, id := range t.Blocks(i) {
				if !yield(id) {
					return
				}
			}
		}
	}, clones, math.MaxUint64)
	if err != nil {
		return err
	}
	out.ids = idStore{slabs: slices.Clone(t.ids.slabs), rows: make([]span, 0, len(source)), held: t.ids.held}
	if n := len(out.ids.slabs); n > 0 {
		out.ids.slabs[n-1] = slices.Clip(out.ids.slabs[n-1]) // what comes behind is not t's
	}
	var ids []uint64
	for i, from := range source {
		clone := out.Clone[i]
		if clone == 0 {
			out.ids.rows = append(out.ids.rows, t.ids.rows[from])
			continue
		}
		ids = append(ids[:0], t.Blocks(int(from))...)
		for j := int(shared[from]); j < len(ids); j++ {
			ids[j] = fresh.of(ids[j], clone)
		}
		out.ids.add(ids)
	}
	return nil
}

// copySessions gives the copies the conversations of their clones. Those of a name get a tail, such as "a~2".
func (out *Trace) copySessions(t *Trace, source []int32, clones int32) error {
	if t.Session == nil {
		return nil
	}
	fresh, err := newFresh(t.conversationNumbers, clones, math.MaxInt64)
	if err != nil {
		return err
	}
	rows := int64(slices.Max(append([]int32{0}, t.Row...))) + 1
	out.sessionNames = make(map[int64]string, len(t.sessionNames))
	for i := range source {
		clone := out.Clone[i]
		session, name := out.Session[i], t.sessionNames[out.Session[i]]
		switch {
		case clone > 0 && name != "":
			name = fmt.Sprintf("%s~%d", name, clone)
			session, _ = sessionNumber([]byte(name))
		case clone > 0 && session < 0:
			session -= int64(clone) * rows
		case clone > 0:
			session = int64(fresh.of(uint64(session), clone))
		}
		if name != "" {
			out.sessionNames[session] = name
		}
		out.Session[i] = session
		if clone == 0 {
			continue
		}
		out.Chat[i] = int64(fresh.of(uint64(out.Chat[i]), clone))
		if out.Parent[i] >= 0 {
			out.Parent[i] = int64(fresh.of(uint64(out.Parent[i]), clone))
		}
	}
	return nil
}

// conversationNumbers are those of chats, parents and sessions that have no name: a session may be called after a chat.
func (t *Trace) conversationNumbers(yield func(uint64) bool) {
	for i := range t.Len() {
		for _, n := range []int64{t.Chat[i], t.Parent[i], t.Session[i]} {
			if n >= 0 && !(n == t.Session[i] && t.sessionNames[n] != "") && !yield(uint64(n)) {
				return
			}
		}
	}
}
