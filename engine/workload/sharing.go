package workload

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// What must be saved before blocks are held once. A gathered write costs about 0.4 µs a piece, and each kB 0.2 µs
// (BenchmarkGather in engine/wire, 2 cores, Linux 6.18). So pieces of 8 kB in the mean cost at most a quarter more than
// whole requests. Those of Mooncake's conversations, which would save 37 %, cost a fifth more. Those of Weka's coding
// sessions cost 4 % more and save 96 %.
const (
	leastSaved = 64 << 20 // bytes
	leastRatio = 2        // of whole requests to what is held
	leastPiece = 8 << 10  // bytes in the mean
)

// sharing is where the pieces of requests lie: first all blocks, then what each request has of its own, then the
// segments, for another process. A request begins with a piece of its own, up to and including the first token of its
// prompt. Only that token's bytes depend on standing first. Its blocks follow, neighbours in memory as one piece, and
// its end, which is its own.
type sharing struct {
	segments []gather.Segment
	first    []int32 // request i has segments[first[i]:first[i+1]]
	ids      []uint64
	tokens   []int32 // of each block: the most that a prompt has of it
	starts   []int64 // block p lies at starts[p] to starts[p+1]
	table    int64   // where the segments lie
	bytes    int64   // of all
}

// segmentBytes is the room of a segment in the table.
const segmentBytes = 16

// share returns how the requests of m would lie in pieces; nil if ctx ends, or if no prompt is made of blocks.
func (m *Requests) share(ctx context.Context) *sharing {
	w := m.work
	x := &blockIndex{numbers: map[uint64]int32{}}
	for i := range w.Requests() {
		if ctx.Err() != nil {
			return nil
		}
		x.each(m.sharedSpec(i), func(n int32, tokens int) {
			x.tokens[n] = max(x.tokens[n], int32(tokens))
		})
	}
	if len(x.ids) == 0 {
		return nil
	}
	s, places := x.place(m.Source)
	own := s.starts[len(s.ids)]
	var start []byte
	for i := range w.Requests() {
		if ctx.Err() != nil {
			return nil
		}
		s.first = append(s.first, int32(len(s.segments)))
		start, _ = m.appendStart(start[:0], i)
		before := int64(len(start))
		s.add(own, before)
		rest := m.Size(i) - before
		skip := int64(m.Source.RunSize(1)) // which the start has already
		x.each(m.sharedSpec(i), func(n int32, tokens int) {
			size := int64(m.Source.RunSize(tokens)) - skip
			s.add(s.starts[places[n]]+skip, size)
			rest -= size
			skip = 0
		})
		s.add(own+before, rest)
		own += before + rest
	}
	s.first = append(s.first, int32(len(s.segments)))
	s.table = (own + segmentBytes - 1) / segmentBytes * segmentBytes
	s.bytes = s.table + int64(len(s.segments))*segmentBytes
	return s
}

// add gives the last request a further piece, or lengthens its last piece if the new one lies behind that.
func (s *sharing) add(offset, size int64) {
	n := len(s.segments)
	if n > int(s.first[len(s.first)-1]) {
		last := &s.segments[n-1]
		if last.Offset+last.Size == offset {
			last.Size += size
			return
		}
	}
	piece := gather.Segment{Offset: offset, Size: size}
	s.segments = append(s.segments, piece)
}

// worth reports whether so many bytes in all, in pieces, are better held so than whole.
func (s *sharing) worth(whole int64) bool {
	saved := whole - s.bytes
	return saved >= leastSaved && whole >= leastRatio*s.bytes && s.coarse(whole)
}

// coarse reports whether the pieces are not too small.
func (s *sharing) coarse(whole int64) bool {
	return whole >= leastPiece*int64(len(s.segments))
}

// mayBeWorth reports whether blocks may save enough, by an estimate that takes a fiftieth of the time. It is linear
// counting of distinct blocks (Whang and others, 1990), with at least a bit for each.
func (m *Requests) mayBeWorth() bool {
	whole := m.Bytes()
	w := m.work
	if whole < leastSaved {
		return false
	}
	seen := make([]uint64, w.Trace.BlockRefs()/64+1)
	size := uint64(len(seen)) * 64
	references := 0
	for i := range w.Requests() {
		blocks := m.sharedSpec(i).Blocks
		references += len(blocks)
		for _, id := range blocks {
			at, _ := bits.Mul64(id*0x9e3779b97f4a7c15, size)
			seen[at/64] |= 1 << (at % 64)
		}
	}
	set := 0
	for _, word := range seen {
		set += bits.OnesCount64(word)
	}
	filled := float64(set) / float64(size+1)
	distinct := -float64(size) * math.Log1p(-filled)
	block := m.Source.RunSize(max(0, w.Trace.BlockTokens))
	saved := (float64(references) - distinct) * float64(block)
	return saved >= max(leastSaved, float64(whole)/leastRatio)
}

// sharedSpec is what request i's prompt is made of; nothing if it has no blocks that are made here.
func (m *Requests) sharedSpec(i int) prompt.Spec {
	w := m.work
	if !w.Made(i) {
		return prompt.Spec{}
	}
	s := w.specOf(i)
	blocks, partial, _ := s.Split()
	s.Blocks = s.Blocks[:blocks+min(1, partial)]
	return s
}

// blockIndex numbers blocks in order of first appearance.
type blockIndex struct {
	numbers map[uint64]int32
	ids     []uint64
	tokens  []int32
	next    []int32 // the block that followed last
}

const noBlock = -1

// each calls f with the number of each block of a prompt, and how many of its tokens the prompt has. Mostly the block
// that followed last follows again, so few blocks need the map.
func (x *blockIndex) each(s prompt.Spec, f func(number int32, tokens int)) {
	before := int32(noBlock)
	left := s.Tokens
	for _, id := range s.Blocks {
		n := int32(noBlock)
		if before != noBlock {
			n = x.next[before]
		}
		if n == noBlock || x.ids[n] != id {
			n = x.number(id)
			if before != noBlock {
				x.next[before] = n
			}
		}
		f(n, min(s.BlockTokens, left))
		before = n
		left -= s.BlockTokens
	}
}

// number returns a block's number, a new one if it has none.
func (x *blockIndex) number(id uint64) int32 {
	n, known := x.numbers[id]
	if !known {
		n = int32(len(x.ids))
		x.numbers[id] = n
		x.ids = append(x.ids, id)
		x.tokens = append(x.tokens, 0)
		x.next = append(x.next, noBlock)
	}
	return n
}

// place puts blocks into memory, in order of first appearance, and each behind the block that it followed last if that
// is not taken. So the turns of a conversation lie together, even if those of others lie between them in time. A last
// block that is not full does not part them. It returns the places by the blocks' numbers.
func (x *blockIndex) place(source prompt.Source) (s *sharing, places []int32) {
	places = slices.Repeat([]int32{noBlock}, len(x.ids))
	s = &sharing{starts: []int64{0}}
	end := int64(0)
	for first := range places {
		n := int32(first)
		for ; n != noBlock && places[n] == noBlock; n = x.next[n] {
			places[n] = int32(len(s.ids))
			s.ids = append(s.ids, x.ids[n])
			s.tokens = append(s.tokens, x.tokens[n])
			end += int64(source.RunSize(int(x.tokens[n])))
			s.starts = append(s.starts, end)
		}
	}
	return s, places
}

// list returns the pieces of request i.
func (s *sharing) list(memory []byte, i int) gather.List {
	own := s.segments[s.first[i]:s.first[i+1]]
	return gather.List{Memory: memory, Segments: own}
}

// appendStart appends request i up to and including the first token of its prompt, or if it has no blocks, its head.
// head is the size of its head.
func (m *Requests) appendStart(dst []byte, i int) (out []byte, head int) {
	size := m.bodySize(i)
	out = m.AppendHead(dst, i, size)
	head = len(out) - len(dst)
	s := m.sharedSpec(i)
	if len(s.Blocks) > 0 {
		s.Tokens = 1
		out = m.backend(i).AppendPrefix(out)
		out = m.Source.Append(out, s)
	}
	return out, head
}

// fillShared builds the blocks, then what is the requests' own, and their digests.
func (m *Requests) fillShared(ctx context.Context, built *atomic.Int64) error {
	w := m.work
	s := m.sharing
	memory := m.arena.bytes
	err := parallel(ctx, len(s.ids), func(from, to int) {
		for p := from; p < to; p++ {
			at := s.starts[p]
			block := memory[at:at:s.starts[p+1]]
			m.Source.AppendBlock(block, s.ids[p], int(s.tokens[p]))
		}
	})
	if err != nil {
		return err
	}
	err = parallel(ctx, w.Requests(), func(from, to int) {
		for i := from; i < to; i++ {
			pieces := s.list(memory, i)
			m.digests[i] = m.buildOwn(i, pieces)
		}
		built.Add(m.offsets[to] - m.offsets[from])
	})
	if err != nil {
		return err
	}
	table := memory[s.table:]
	for _, piece := range s.segments {
		binary.NativeEndian.PutUint64(table, uint64(piece.Offset))
		binary.NativeEndian.PutUint64(table[8:], uint64(piece.Size))
		table = table[segmentBytes:]
	}
	s.ids = nil
	s.tokens = nil
	s.starts = nil
	m.built.Store(int64(w.Requests()))
	return nil
}

// buildOwn writes what is request i's own and returns the digest of it all.
func (m *Requests) buildOwn(i int, l gather.List) digest {
	w := m.work
	if l.Pieces() == 1 {
		return m.build(i, l.Piece(0))
	}
	first := l.Piece(0)
	last := l.Piece(l.Pieces() - 1)
	start, head := m.appendStart(first[:0], i)
	end := m.Source.AppendUnique(last[:0], w.specOf(i))
	end = m.appendSuffix(end, i)
	if len(start) != len(first) || len(end) != len(last) {
		panic("BUG: what is a request's own has not the size that was laid out")
	}
	l.Drop(int64(head))
	return m.digest(i, l)
}
