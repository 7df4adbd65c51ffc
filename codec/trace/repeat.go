package trace

import (
	"fmt"
	"math"
	"slices"
)

// Repeat is the trace n times in a row, at least once: each repetition begins one mean gap after the end of the one before
// and asks for the same content, also where that is unique to a row. Rows, chats and sessions keep their numbers.
//
// So that caches can be modelled, the unique rest of a prompt gets block ids that no other row has.
func (t *Trace) Repeat(n int) (*Trace, error) {
	if n == 1 {
		return t, nil
	}
	rows := t.Len()
	period := t.SpanNS()
	if rows > 1 {
		period += int64(math.Round(float64(t.SpanNS()) / float64(rows-1)))
	}
	switch {
	case n < 1:
		return nil, fmt.Errorf("repeating a trace %d times; want at least once", n)
	case rows > math.MaxInt32/n:
		return nil, fmt.Errorf("repeating %d rows %d times makes more than %d", rows, n, math.MaxInt32)
	case period > math.MaxInt64/int64(n):
		return nil, fmt.Errorf("repeated %d times, the trace lasts longer than %d years", n, math.MaxInt64/int64(365*24*3600*1e9))
	}
	order := make([]int32, n*rows)
	for i := range order {
		order[i] = int32(i % rows)
	}
	out := t.chosen(order)
	var err error
	if out.ids, err = t.named(); err != nil {
		return nil, err
	}
	out.ids.rows = slices.Repeat(out.ids.rows, n)
	for i := range out.ArrivalNS {
		out.ArrivalNS[i] += int64(i/rows) * period
	}
	return out, nil
}

// named is the ids of all rows, where every block has one; new ones follow the largest.
func (t *Trace) named() (all idStore, err error) {
	var next uint64 // the largest so far
	for i := range t.Len() {
		for _, id := range t.Blocks(i) {
			next = max(next, id)
		}
	}
	var ids []uint64
	for i := range t.Len() {
		ids = append(ids[:0], t.Blocks(i)...)
		for len(ids) < blocksOf(t.InputTokens[i], t.BlockTokens) {
			if next == math.MaxUint64 {
				return all, fmt.Errorf("a block id of %d leaves none for what is unique to a row", next)
			}
			next++
			ids = append(ids, next)
		}
		all.add(ids)
	}
	return all, nil
}
