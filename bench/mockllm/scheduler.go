package mockllm

import (
	"container/heap"
	"slices"
	"sync"
)

// scheduler decides when a request begins and what of its prompt is cached then. Requests begin in order of arrival,
// each as soon as there is a slot for it and room for its blocks. A waiting request is looked at again whenever another
// ends or leaves the queue.
//
// What a request finds depends on instants, not on which goroutine came first. Ends of prefills and of requests are
// events with instants. They are applied in their order before the next request is looked at.
type scheduler struct {
	launch func(*reply) // begins a reply that had to wait; it must not block

	// Requests that have ended since the scheduler looked at them. They have a lock of their own, so a pacer that ends
	// a reply never waits for a look-up.
	endsMu  sync.Mutex
	ends    []*lease
	waiting bool // somebody waits for what these give back

	mu       sync.Mutex
	slots    int // how many may run; 0 = no limit
	maxQueue int // how many may wait; 0 = no limit

	priorities bool // those that wait begin in the order of their priorities, the least first
	running    int
	queue      []*reply
	cache      prefixCache
	adapters   adapters
	events     inOrder[*change]
	added      uint64 // events so far
	unseen     int    // requests' ends among the events
	lastEnd    int64  // instant of the latest end that was applied
	spare      []*lease
	recycled   []*lease
}

// maxRecycled bounds the leases kept for reuse.
const maxRecycled = 256

// admission is what became of a request that asked for a slot.
type admission int

const (
	admitted admission = iota // it runs now
	queued                    // the scheduler will begin it
	refused                   // the queue is full
)

// get returns an empty lease to hash a prompt into.
func (s *scheduler) get() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.recycled)
	if n == 0 {
		return &lease{}
	}
	l := s.recycled[n-1]
	s.recycled = s.recycled[:n-1]
	return l
}

// put takes back a lease that was never admitted.
func (s *scheduler) put(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recycle(l)
}

func (s *scheduler) recycle(l *lease) {
	if len(s.recycled) < maxRecycled {
		*l = lease{
			keys:   l.keys[:0],
			answer: l.answer[:0],
			blocks: l.blocks[:0],
		} // with its memory
		s.recycled = append(s.recycled, l)
	}
}

// acquire admits r, lets it wait or refuses it. The caller begins a reply that is admitted.
func (s *scheduler) acquire(r *reply) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	s.serveQueue(nil)
	if len(s.queue) == 0 {
		s.apply(r.arrivedNS)
		if s.admit(r, r.arrivedNS) {
			return admitted
		}
	}
	place := len(s.queue)
	for s.priorities && place > 0 && s.queue[place-1].p.priority > r.p.priority {
		place--
	}
	s.queue = slices.Insert(s.queue, place, r)
	s.serveQueue(r) // what ended after r had arrived, or just now
	if s.adapters.room > 0 && !r.begun && s.unseen == 0 {
		// Those before it may wait for an adapter.
		s.apply(r.arrivedNS)
		s.admitHeads(r.arrivedNS, r)
	}
	switch {
	case r.begun:
		return admitted
	case s.maxQueue > 0 && len(s.queue) > s.maxQueue:
		at := slices.Index(s.queue, r)
		s.queue = slices.Delete(s.queue, at, at+1)
		return refused
	}
	return queued
}

// release ends a request that was admitted, at the instant now, after so many tokens. The caller gives the lease away.
// If somebody waits, it calls catchUp.
func (s *scheduler) release(l *lease, now int64, sent int) (waiting bool) {
	l.endNS = now
	l.sent = sent
	s.endsMu.Lock()
	defer s.endsMu.Unlock()
	s.ends = append(s.ends, l)
	return s.waiting
}

// leave takes r out of the queue at the instant now. It reports false when r does not wait there.
func (s *scheduler) leave(r *reply, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	for i, q := range s.queue {
		if q == r {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.admitHeads(now, nil) // there may be room for those behind it
			return true
		}
	}
	return false
}

// flush empties the prefix cache at the instant now.
func (s *scheduler) flush(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	s.cache.clear()
}

// stats returns how many run and wait at the instant now, and the cache's state.
func (s *scheduler) stats(now int64) (running, waiting int, cache cacheStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	return s.running, len(s.queue), s.cache.stats()
}

// appendAdapters appends what /metrics says of LoRA adapters.
func (s *scheduler) appendAdapters(dst []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.adapters.names) == 0 {
		return dst
	}
	s.adapters.tell(s.queue)
	return s.adapters.append(dst)
}

// catchUp begins who can begin now.
func (s *scheduler) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	s.serveQueue(nil)
}

// settle applies everything until the instant now.
func (s *scheduler) settle(now int64) {
	s.collect()
	s.serveQueue(nil)
	s.apply(now)
}

// collect takes over the ends that were reported since, and reports whether there were any.
func (s *scheduler) collect() bool {
	s.endsMu.Lock()
	list := s.ends
	s.ends = s.spare[:0]
	s.waiting = len(s.queue) > 0
	s.endsMu.Unlock()
	for _, l := range list {
		s.add(&l.over, change{at: l.endNS, lease: l, end: true})
	}
	s.unseen += len(list)
	clear(list)
	s.spare = list
	return len(list) > 0
}

// serveQueue applies the ends one after the other for as long as somebody waits, and admits those that each makes room
// for. It launches all of them but own.
func (s *scheduler) serveQueue(own *reply) {
	for len(s.queue) > 0 {
		if s.unseen == 0 && !s.collect() {
			return // whoever ends from now on sees that somebody waits
		}
		for !s.applyNext() {
		}
		s.admitHeads(s.lastEnd, own)
	}
}

// admitHeads admits the first that wait, but for those whose adapter has no place.
func (s *scheduler) admitHeads(now int64, own *reply) {
	for at := 0; at < len(s.queue); {
		r := s.queue[at]
		if !s.adapters.fits(r.p.model) {
			at++
			continue
		}
		if !s.admit(r, now) {
			return
		}
		s.queue = slices.Delete(s.queue, at, at+1)
		if r != own {
			s.launch(r)
		}
	}
}

// admit starts r at the instant now, or at the latest end applied if that is later: its slot was not free before. It
// reports false when there is no slot or no room.
func (s *scheduler) admit(r *reply, now int64) bool {
	if s.slots > 0 && s.running >= s.slots || !s.adapters.fits(r.p.model) {
		return false
	}
	cached, fromHost, ok := s.cache.begin(r.lease)
	if !ok {
		return false
	}
	if s.slots > 0 || s.cache.pool != nil || s.adapters.room > 0 {
		now = max(now, s.lastEnd)
	}
	s.running++
	now = max(now, r.arrivedNS, s.adapters.begunNS+1)
	r.lease.adapter = r.p.model
	r.adapterNS = s.adapters.begin(r.p.model, now)
	r.start(now, cached, fromHost)
	r.lease.prefills = true
	s.add(&r.lease.ready, change{at: r.due, lease: r.lease})
	return true
}

// add puts an event, whose memory is its lease's, among the others.
func (s *scheduler) add(at *change, e change) {
	s.added++
	e.order = s.added
	*at = e
	heap.Push(&s.events, at)
}

// apply applies the events until the instant now.
func (s *scheduler) apply(now int64) {
	for len(s.events) > 0 && s.events[0].at <= now {
		s.applyNext()
	}
}

// applyNext applies the next event and reports whether it was the end of a request.
func (s *scheduler) applyNext() (end bool) {
	e := *heap.Pop(&s.events).(*change) // a copy: the lease may be recycled below
	l := e.lease
	if e.end {
		l.ended = true
		s.unseen--
		s.running--
		s.lastEnd = max(s.lastEnd, e.at)
		if !l.prefills {
			s.cache.answered(l)
		}
		s.cache.end(l)
		s.adapters.end(l.adapter)
	} else {
		l.prefills = false
		if !l.ended { // else it never got so far
			s.cache.prefilled(l)
		}
	}
	if l.ended && !l.prefills {
		s.recycle(l)
	}
	return e.end
}

// lease is one request's stay in the scheduler. Its keys belong to the connection until the request needs a slot;
// from then on everything but endNS and sent is the scheduler's.
type lease struct {
	keys           []uint64 // one for each whole block of the prompt
	answer         []uint64 // … and for each that ends in the answer, but for one that ends in its last token
	sent           int      // tokens of the answer that came; written once, before it is in scheduler.ends
	prompt, output int      // tokens
	adapter        string   // the model that the request names

	blocks   []int32 // what it holds of a limited pool: the prompt's blocks in order, then its output's
	found    int     // how many of them were there before it
	prefills bool    // the end of its prefill is still to come
	ended    bool

	endNS int64 // written once, before it is in scheduler.ends

	ready, over change // of its prefill's end, and of its own
}

// change is something that changes what a later request finds: a prefill's end or a request's.
type change struct {
	at    int64 // ns
	order uint64
	lease *lease
	end   bool // of the request
}

// before orders events by their instants. A prefill goes before an end of the same instant, and otherwise the one that
// was added first.
func (e *change) before(o *change) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.end != o.end:
		return o.end
	}
	return e.order < o.order
}

// moved does nothing: only the first event is ever taken.
func (*change) moved(int) {}

// ordered has an order, and may keep its place among others.
type ordered[T any] interface {
	before(T) bool
	moved(to int)
}

// inOrder is a heap.Interface. What it holds are pointers, so that container/heap allocates nothing.
type inOrder[T ordered[T]] []T

func (q inOrder[T]) Len() int           { return len(q) }
func (q inOrder[T]) Less(i, j int) bool { return q[i].before(q[j]) }

func (q inOrder[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moved(i)
	q[j].moved(j)
}

func (q *inOrder[T]) Push(x any) {
	v := x.(T)
	v.moved(len(*q))
	*q = append(*q, v)
}

func (q *inOrder[T]) Pop() any {
	var none T
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	return v
}
