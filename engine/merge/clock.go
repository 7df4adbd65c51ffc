package merge

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// ahead is by how much the instants of a shard are ahead of those of shard 0, atNS after the start: its clock's offset then, without
// the one by which it has moved its start. Between two measurements it is a line. What is within the error of the measurement is 0.
func ahead(f *shard.File, atNS int64) int64 {
	all := f.Clock
	if len(all) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(all, atNS, func(o shard.Offset, at int64) int { return int(max(-1, min(1, o.AtNS-at))) })
	a, b := all[max(0, i-1)], all[min(i, len(all)-1)]
	off, within := a.OffsetNS, a.ErrorNS
	if b.AtNS > a.AtNS {
		part := float64(atNS-a.AtNS) / float64(b.AtNS-a.AtNS)
		off += int64(part * float64(b.OffsetNS-a.OffsetNS))
		within = max(a.ErrorNS, b.ErrorNS)
	}
	if off -= f.StartNS; max(off, -off) <= within {
		return 0
	}
	return off
}

// onCommonClock moves the instants of a record to the clock of shard 0. The planned instant is the plan's, which no clock moves, unless
// other requests released this one.
func onCommonClock(r *record.Record, f *shard.File, released bool) {
	at := []*int64{&r.SentNS, &r.WrittenNS, &r.DepartedNS, &r.AckedNS, &r.HeadersNS, &r.FirstTokenNS, &r.FirstTextNS, &r.LastTokenNS, &r.DoneNS}
	if released {
		at = append(at, &r.PlannedNS)
	}
	off := ahead(f, max(r.SentNS, r.DoneNS, 0))
	for _, ns := range at {
		if *ns != record.None {
			*ns -= off
		}
	}
	if r.SentNS != record.None {
		r.SentAt = record.Wall(f.StartAt.UnixMicro() + r.SentNS/1000)
	}
}
