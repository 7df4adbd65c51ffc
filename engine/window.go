package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// window is where images are built that do not all fit into memory: a ring in which each is built ahead of its deadline,
// in plan order, as soon as those that stood there before have been written.
type window struct {
	bytes   int64
	places  []int64       // where image i begins in the ring
	ends    []int64       // where it ends if the ring were endless, with what is lost at its end
	written []atomic.Bool // image i is not needed any more
	kept    int           // images before this one are not needed; the builder's own
	batches []batch       // what was built before the run, and each time during it; the builder's own
	recipe  *Recipe
}

// batch ends before image to; its images were all there at atNS.
type batch struct {
	to   int
	atNS int64
}

// WindowBytes is the room for images at a time; 0 where all fit into memory.
func (m *Images) WindowBytes() int64 {
	if m.window == nil {
		return 0
	}
	return m.window.bytes
}

const (
	// windowBatch is how many bytes are built before they are handed out: some milliseconds' work.
	windowBatch = 16 << 20
	// windowTick is how often a builder without room looks for it.
	windowTick = 2 * time.Millisecond
	// leastWindows of the largest image must fit into the window, so that one is built while others are written.
	leastWindows = 8
)

// Window prepares m for at most limit bytes of images at a time, in place of Fill's room for all of them.
func (r *Recipe) Window(w *Work, m *Images, limit int64) error {
	if limit < leastWindows*int64(m.largest) {
		return fmt.Errorf("%w: %d bytes do not hold %d of the largest request", ErrArena, limit, leastWindows)
	}
	n := w.Requests()
	v := &window{recipe: r, bytes: limit, places: make([]int64, n), ends: make([]int64, n), written: make([]atomic.Bool, n)}
	var at int64 // in the endless ring
	for i := range n {
		size := m.Size(i)
		if at%limit+size > limit {
			at += limit - at%limit
		}
		v.places[i] = at % limit
		at += size
		v.ends[i] = at
	}
	m.window = v
	m.digests = make([][sha256.Size]byte, n)
	var err error
	m.arena, err = newArena(limit)
	return err
}

// room is the first request whose image does not fit beside those that are still needed.
func (v *window) room(m *Images, needed func(i int) bool) int {
	for v.kept < int(m.built.Load()) && !needed(v.kept) {
		v.kept++
	}
	to := int(m.built.Load())
	begin := int64(math.MaxInt64) // of what is needed, in the endless ring
	if v.kept < to {
		begin = v.ends[v.kept] - m.Size(v.kept)
	}
	for batch := int64(0); to < len(v.ends) && batch < windowBatch; to++ {
		if begin == math.MaxInt64 {
			begin = v.ends[to] - m.Size(to)
		}
		if v.ends[to]-begin > v.bytes {
			break
		}
		batch += m.Size(to)
	}
	return to
}

// FillWindow builds what fits before the start.
func (r *Recipe) FillWindow(ctx context.Context, w *Work, m *Images, built *atomic.Int64) error {
	for {
		from := int(m.built.Load())
		to := m.window.room(m, func(int) bool { return true })
		if to == from {
			return nil
		}
		if err := r.fill(ctx, w, m, from, to, built); err != nil {
			return err
		}
	}
}

// buildAhead builds the rest during the run, until all are built or ctx ends.
func (r *Run) buildAhead(ctx context.Context) {
	m := r.work.Images
	v := m.window
	var built atomic.Int64
	tick := time.NewTicker(windowTick)
	defer tick.Stop()
	v.batches = []batch{{to: int(m.built.Load()), atNS: math.MinInt64}}
	for from := int(m.built.Load()); from < r.work.Requests(); from = int(m.built.Load()) {
		to := v.room(m, r.needsImage)
		if to == from {
			select {
			case <-ctx.Done():
				r.endBuilding(v)
				return
			case <-tick.C:
				continue
			}
		}
		if v.recipe.fill(ctx, r.work, m, from, to, &built) != nil {
			r.endBuilding(v)
			return
		}
		v.batches = append(v.batches, batch{to, r.clock.Now()})
	}
}

// endBuilding gives up the images that have not been built: none of them was there before now.
func (r *Run) endBuilding(v *window) {
	v.batches = append(v.batches, batch{r.work.Requests(), r.clock.Now()})
	r.digestRest(v.recipe)
}

// BuiltAhead is how building during the run went; nil where all images fit into memory. Call it after Do.
func (r *Run) BuiltAhead() *metrics.BuildAhead {
	v := r.work.Images.window
	if v == nil {
		return nil
	}
	found := &metrics.BuildAhead{WindowBytes: v.bytes}
	least, i := int64(math.MaxInt64), v.batches[0].to
	for _, b := range v.batches[1:] {
		for ; i < b.to; i++ {
			if r.records[i].Outcome == record.NotSent {
				continue
			}
			lead := r.releasedNS(int32(i)) - b.atNS
			least = min(least, lead)
			if lead < 0 {
				found.Late++
			}
		}
	}
	if least != math.MaxInt64 {
		ms := float64(least) / 1e6
		found.LeastLeadMS = &ms
	}
	return found
}

// releasedNS is when request i could leave: at its own instant, or when a cap or the turn before let it go.
func (r *Run) releasedNS(i int32) int64 { return r.records[i].PlannedNS + r.pacer.heldNS(i) }

// digestRest finds out what the images had in them that were never built in the window, because the run ended while it was
// full or late: the fingerprint is of all that was sent.
func (r *Run) digestRest(recipe *Recipe) {
	m := r.work.Images
	from := int(m.built.Load())
	if r.stop.Load() {
		return // not all were sent
	}
	_ = parallel(context.Background(), r.work.Requests()-from, func(a, b int) {
		var scratch []byte
		for i := from + a; i < from+b; i++ {
			scratch = slices.Grow(scratch[:0], int(m.Size(i)))[:m.Size(i)]
			m.digests[i] = recipe.build(r.work, i, scratch)
		}
	})
	m.built.Store(int64(r.work.Requests()))
}

// needsImage tells whether the arena must still hold image i.
func (r *Run) needsImage(i int) bool {
	if r.work.Images.window.written[i].Load() {
		return false
	}
	return r.remote == nil || r.remote.shots[i].state.Load() != shotWhole
}

// wrote is told that image i is not needed in the arena any more.
func (m *Images) wrote(i int32) {
	if m.window != nil {
		m.window.written[i].Store(true)
	}
}

// whole is image i as it is or will be written: the arena's, or with a window one of its own.
func (m *Images) whole(r *Recipe, w *Work, i int) []byte {
	if m.window == nil {
		return m.At(i)
	}
	b := make([]byte, m.Size(i))
	r.build(w, i, b)
	if m.aims != nil {
		b = b[m.aims.write(b, w.Places[i].Target):]
	}
	return b
}

// image is what is written for request i: with live history its own, or else the arena's, in place for a connection that was ready in time. A late or repeated request
// gets bytes of its own where the arena's may be gone.
func (r *Run) image(i int32, fresh bool) []byte {
	if b := r.cfg.History.image(i); b != nil {
		return b
	}
	if v := r.work.Images.window; v != nil && fresh {
		v.written[i].Store(true)
		return r.work.Images.whole(v.recipe, r.work, int(i))
	}
	return r.work.Images.At(int(i))
}
