package trace

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Copies returns the trace of requests each of which is a copy of one of t. Request i is request source[i] in clone
// clone[i]; clone 0 is t itself. It arrives at atNS[i], in ns since the first, ascending. Untimed stays untimed. A
// request comes at most once in a clone.
//
// Clones share only the first shared[source[i]] blocks of a prompt with t and with each other. Their other block ids,
// their jobs, sessions and chats are new, alike within a clone. Unique distinguishes what has no id. Rows keep their
// numbers. A clone of verbatim content would have the same words, so it is an error.
func (t *Trace) Copies(source, clone []int32, atNS []int64, shared []int32) (*Trace, error) {
	clones := slices.Max(append([]int32{0}, clone...))
	if clones > 0 && t.Verbatims() > 0 {
		return nil, errors.New("verbatim prompts cannot be cloned: the same words would hit the same cache; give " +
			"a factor below 1, or --repeat")
	}
	out := t.cloned(source, clone, atNS)
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

// cloned is the trace of copies of requests, but for block ids and conversations.
func (t *Trace) cloned(source, clone []int32, atNS []int64) *Trace {
	out := t.chosen(source)
	out.Clone = slices.Clone(clone)
	out.ArrivalNS = slices.Clone(atNS)
	out.shiftBounds(t, source)
	out.copyJobs()
	return out
}

// Fitted is the trace of t's requests in order, which ascends. Their lengths in tokens are those given for t's
// requests. A prompt that becomes shorter loses its end, so what it shares with others stays shared.
func (t *Trace) Fitted(order, input, output []int32) *Trace {
	out := t.chosen(order)
	out.answerIDs = nil // they would stand elsewhere
	out.InputTokens = lists.Pick(order, input)
	out.OutputTokens = lists.Pick(order, output)
	out.ids = t.ids.Choose(order, func(row int32) int {
		return blocksOf(input[row], t.BlockTokens)
	})
	return out
}

// WithOwners is t with other owners of its requests.
func (t *Trace) WithOwners(of func(i int) rows.Owner) *Trace {
	out := t.chosen(lists.UpTo(t.Len()))
	out.ids = t.ids
	out.Owner = make([]int32, t.Len())
	var owners numbering[rows.Owner]
	for i := range out.Owner {
		out.Owner[i] = owners.number(of(i))
	}
	out.Owners = owners.names
	return out
}

// chosen is the trace of t's requests in order, but for block ids, each as and when it was.
func (t *Trace) chosen(order []int32) *Trace {
	out := *t
	out.words = Words{}
	pick(order, &out.Row, &out.Clone, &out.InputTokens, &out.OutputTokens)
	pick(order, &out.ArrivalNS, &out.DelayNS, &out.NotBeforeNS, &out.TookNS, &out.TTFTNS)
	pick(order, &out.Session, &out.Chat, &out.Parent)
	pick(order, &out.Turn, &out.Owner, &out.Job, &out.Depth, &out.Cached)
	pick(order, &out.Type)
	pick(order, &out.Guessed)
	out.verbatims = t.verbatims.chosen(order)
	out.answers = t.answers.ChooseWhole(order)
	out.answerIDs = t.answerIDs.ChooseWhole(order)
	out.dependencies = t.dependencies.ChooseWhole(order)
	return &out
}

// pick replaces each column by its values in order; nil stays nil.
func pick[T any](order []int32, columns ...*[]T) {
	for _, column := range columns {
		*column = lists.Pick(order, *column)
	}
}

// Unique is the key of what is unique to request i, beyond its block ids. It is the row, and distinguishes its clones.
func (t *Trace) Unique(i int) uint64 {
	key := uint64(t.Row[i])
	if t.Clone != nil {
		key |= uint64(t.Clone[i]) << 32
	}
	return key
}

// shiftBounds moves the bounds of requests as the requests were moved since they were in t.
func (out *Trace) shiftBounds(t *Trace, source []int32) {
	for i, at := range out.NotBeforeNS {
		if at >= 0 && !out.Untimed {
			by := out.ArrivalNS[i] - t.ArrivalNS[source[i]]
			out.NotBeforeNS[i] = max(0, at+by)
		}
	}
}

// copyJobs gives the copies jobs of their clones, with a tail to their names, such as "a~2".
func (out *Trace) copyJobs() {
	type clonedJob struct{ job, clone int32 }
	var cloned numbering[clonedJob]
	own := int32(len(out.Jobs))
	for i, clone := range out.Clone {
		if out.Job != nil && out.Job[i] >= 0 && clone > 0 {
			out.Job[i] = own + cloned.number(clonedJob{out.Job[i], clone})
		}
	}
	out.Jobs = slices.Clone(out.Jobs)
	for _, c := range cloned.names {
		out.Jobs = append(out.Jobs, fmt.Sprintf("%s~%d", out.Jobs[c.job], c.clone))
	}
}

// copyIDs gives the copies the blocks of their sources under the ids of their clones.
func (out *Trace) copyIDs(t *Trace, source []int32, clones int32, shared []int32) error {
	numbers, err := newRenumbering(func(yield func(uint64) bool) {
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
	out.ids = t.ids.Fork(len(source))
	if clones > 0 {
		out.answerIDs = nil // those of clones would be other ones
	}
	var ids []uint64
	for i, from := range source {
		clone := out.Clone[i]
		if clone == 0 {
			out.ids.AddFrom(&t.ids, int(from), math.MaxInt32)
			continue
		}
		ids = append(ids[:0], t.Blocks(int(from))...)
		for j := int(shared[from]); j < len(ids); j++ {
			ids[j] = numbers.of(ids[j], clone)
		}
		out.ids.Add(ids)
	}
	return nil
}

// copySessions gives the copies the conversations of their clones. Those of a name get a tail, such as "a~2".
func (out *Trace) copySessions(t *Trace, source []int32, clones int32) error {
	if t.Session == nil {
		return nil
	}
	numbers, err := newRenumbering(t.conversationNumbers, clones, math.MaxInt64)
	if err != nil {
		return err
	}
	largest := slices.Max(append([]int32{0}, t.Row...))
	step := int64(largest) + 1
	numberOf := func(n int64, clone int32) int64 {
		return int64(numbers.of(uint64(n), clone))
	}
	out.sessionNames = make(map[int64]string, len(t.sessionNames))
	for i := range source {
		clone := out.Clone[i]
		session := out.Session[i]
		name := t.sessionNames[out.Session[i]]
		switch {
		case clone > 0 && name != "":
			name = fmt.Sprintf("%s~%d", name, clone)
			session, _ = rows.SessionNumber([]byte(name))
		case clone > 0 && session < 0:
			session -= int64(clone) * step
		case clone > 0:
			session = numberOf(session, clone)
		}
		if name != "" {
			out.sessionNames[session] = name
		}
		out.Session[i] = session
		if clone == 0 {
			continue
		}
		out.Chat[i] = numberOf(out.Chat[i], clone)
		if out.Parent[i] >= 0 {
			out.Parent[i] = numberOf(out.Parent[i], clone)
		}
	}
	return nil
}

// conversationNumbers are those of chats, parents and sessions that have no name: a session may be called after a chat.
func (t *Trace) conversationNumbers(yield func(uint64) bool) {
	for i := range t.Len() {
		session := t.Session[i]
		named := t.sessionNames[session] != ""
		for _, n := range []int64{t.Chat[i], t.Parent[i], session} {
			skip := n < 0 || n == session && named
			if !skip && !yield(uint64(n)) {
				return
			}
		}
	}
}

// renumbering gives clones numbers of their own for those of a trace, such as block ids. Mostly a clone's number is the
// recorded one plus a step times the clone's. If the recorded ones are too large for that, such as hashes, they are
// numbered anew. Clones then get a range that the trace leaves free.
type renumbering struct {
	step   uint64
	places map[uint64]uint64 // of recorded numbers; nil where there is a step
	first  uint64            // of the free range
}

// newRenumbering looks at the numbers of a trace, none above the limit, and makes ready for clones 1 to clones.
func newRenumbering(all iter.Seq[uint64], clones int32, limit uint64) (*renumbering, error) {
	largest := uint64(0)
	for n := range all {
		largest = max(largest, n)
	}
	if largest < limit/(uint64(clones)+1) {
		return &renumbering{step: largest + 1}, nil
	}
	f := &renumbering{places: map[uint64]uint64{}}
	for n := range all {
		_, known := f.places[n]
		if !known {
			f.places[n] = uint64(len(f.places))
		}
	}
	need := uint64(len(f.places)) * uint64(clones)
	for _, n := range slices.Sorted(maps.Keys(f.places)) {
		if n-f.first >= need {
			return f, nil
		}
		f.first = n + 1 // behind the largest of all it is 0 again, which the largest stands behind
	}
	if f.first == 0 || f.first > limit || limit-f.first < need {
		return nil, fmt.Errorf("numbers up to %d leave no room for %d more", largest, need)
	}
	return f, nil
}

// of is what a clone, from 1 on, has for a recorded number.
func (f *renumbering) of(n uint64, clone int32) uint64 {
	if f.places == nil {
		return n + uint64(clone)*f.step
	}
	each := uint64(len(f.places)) // numbers of a clone
	return f.first + uint64(clone-1)*each + f.places[n]
}

// Repeat returns the trace n times in a row, at least once. Each repetition begins one mean gap after the end of the
// one before. It asks for the same content, also where that is unique to a row. Rows, chats and sessions keep their
// numbers.
//
// So that caches can be modelled, the unique rest of a prompt gets block ids that no other row has.
func (t *Trace) Repeat(n int) (*Trace, error) {
	if n == 1 {
		return t, nil
	}
	order, period, err := t.inARow(n)
	if err != nil {
		return nil, err
	}
	out := t.chosen(order)
	out.repeated = true
	ids, err := t.named(true)
	if err != nil {
		return nil, err
	}
	out.ids = *ids.ChooseWhole(order)
	rows := t.Len()
	for i := range out.ArrivalNS {
		out.ArrivalNS[i] += int64(i/rows) * period
	}
	out.shiftBounds(t, order)
	return out, nil
}

// Passes returns the trace n times in a row, as Repeat does, but each time as a clone with content of its own: see
// Copies.
func (t *Trace) Passes(n int) (*Trace, error) {
	order, period, err := t.inARow(n)
	if err != nil {
		return nil, err
	}
	rows := t.Len()
	clone := make([]int32, len(order))
	atNS := make([]int64, len(order))
	for i, source := range order {
		clone[i] = int32(i / rows)
		atNS[i] = t.ArrivalNS[source] + int64(i/rows)*period
	}
	return t.Copies(order, clone, atNS, t.Conversations().Shared)
}

// PeriodNS is how long a pass of the trace takes if another follows: its span, and one mean gap.
func (t *Trace) PeriodNS() int64 {
	period := t.SpanNS()
	if rows := t.Len(); rows > 1 {
		gap := float64(period) / float64(rows-1)
		period += int64(math.Round(gap))
	}
	return period
}

// inARow are the rows of n passes, at least one, and the time from one pass to the next.
func (t *Trace) inARow(n int) (order []int32, periodNS int64, err error) {
	rows := t.Len()
	periodNS = t.PeriodNS()
	switch {
	case n < 1:
		return nil, 0, fmt.Errorf("repeating a trace %d times; want at least once", n)
	case rows > math.MaxInt32/n:
		return nil, 0, fmt.Errorf("repeating %d rows %d times makes more than %d", rows, n, math.MaxInt32)
	case periodNS > math.MaxInt64/int64(n):
		return nil, 0, fmt.Errorf("repeated %d times, the trace lasts longer than %d years", n,
			math.MaxInt64/int64(365*24*3600*1e9))
	}
	order = make([]int32, n*rows)
	for i := range order {
		order[i] = int32(i % rows)
	}
	return order, periodNS, nil
}

// named is the ids of all rows, where every block has one; new ones follow the largest. If not every, rows without ids
// keep none.
func (t *Trace) named(every bool) (all lists.Store[uint64], err error) {
	var next uint64 // the largest so far
	for i := range t.Len() {
		for _, id := range t.Blocks(i) {
			next = max(next, id)
		}
	}
	var ids []uint64
	for i := range t.Len() {
		ids = append(ids[:0], t.Blocks(i)...)
		want := blocksOf(t.InputTokens[i], t.BlockTokens)
		if !every && len(ids) == 0 {
			want = 0
		}
		for len(ids) < want {
			if next == math.MaxUint64 {
				return all, fmt.Errorf("a block id of %d leaves none for what is unique to a row", next)
			}
			next++
			ids = append(ids, next)
		}
		all.Add(ids)
	}
	return all, nil
}
