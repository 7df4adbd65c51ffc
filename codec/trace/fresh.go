package trace

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// freshNumbers gives clones numbers of their own for those of a trace, such as block ids. Mostly a clone's number is the
// recorded one and a step times the clone's; where the recorded ones are too large for that, such as hashes, they are counted
// through, and clones get a range that the trace leaves free.
type freshNumbers struct {
	step   uint64
	places map[uint64]uint64 // of recorded numbers; nil where there is a step
	first  uint64            // of the free range
}

// newFresh looks at the numbers of a trace, none above the limit, and makes ready for clones 1 to clones.
func newFresh(all iter.Seq[uint64], clones int32, limit uint64) (*freshNumbers, error) {
	largest := uint64(0)
	for n := range all {
		largest = max(largest, n)
	}
	if largest < limit/(uint64(clones)+1) {
		return &freshNumbers{step: largest + 1}, nil
	}
	f := &freshNumbers{places: map[uint64]uint64{}}
	for n := range all {
		if _, known := f.places[n]; !known {
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
func (f *freshNumbers) of(n uint64, clone int32) uint64 {
	if f.places == nil {
		return n + uint64(clone)*f.step
	}
	return f.first + uint64(clone-1)*uint64(len(f.places)) + f.places[n]
}
