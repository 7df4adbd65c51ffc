package mockllm

import (
	"math"
	"math/rand/v2"
	"slices"
)

// naive is the oracle of scheduler and blockPool: one instant after the other, everything at once, and whole token
// prefixes compared token by token.
type naive struct {
	slots    int // 0 = no limit
	maxQueue int // 0 = no limit
	unending bool
	none     bool          // no cache
	blocks   []*naiveBlock // all that have ever been used
	free     []*naiveBlock // in the order in which they are given away
	entered  int

	running, waiting []*naiveRequest
}

type naiveBlock struct {
	prefix  []uint64 // what it can be found by; nil = nothing
	full    bool     // its request has computed all of it
	entered int
	holders int
}

type naiveRequest struct {
	number    int
	tokens    []uint64
	output    int
	answer    []uint64
	sent      int // tokens of the answer
	arrival   int64
	ttft      int64 // from its begin to the end of its prefill
	stay      int64 // … to its end, perhaps before that
	patience  int64 // it leaves the queue after so long
	begin     int64
	cached    int
	held      []*naiveBlock
	prefilled bool
	fate      string // ran, left, refused
}

const naiveBlockTokens = 4

func newNaive(capacity, slots, maxQueue int) *naive {
	n := &naive{slots: slots, maxQueue: maxQueue, unending: capacity < 0, none: capacity == 0}
	for range max(capacity, 0) {
		n.free = append(n.free, &naiveBlock{})
	}
	n.blocks = slices.Clone(n.free)
	return n
}

func (n *naive) find(prefix []uint64) *naiveBlock {
	var first *naiveBlock
	for _, b := range n.blocks {
		if slices.Equal(b.prefix, prefix) && (first == nil || b.entered < first.entered) {
			first = b
		}
	}
	return first
}

func (n *naive) tryBegin(r *naiveRequest, now int64) bool {
	if n.slots > 0 && len(n.running) == n.slots {
		return false
	}
	var held []*naiveBlock
	for to := naiveBlockTokens; to < len(r.tokens) && !n.none; to += naiveBlockTokens {
		b := n.find(r.tokens[:to])
		if b == nil {
			break
		}
		held = append(held, b)
	}
	found := len(held)
	free := slices.DeleteFunc(slices.Clone(n.free), func(b *naiveBlock) bool { return slices.Contains(held, b) })
	for !n.none && len(held)*naiveBlockTokens < len(r.tokens)+r.output {
		if n.unending {
			free = append(free, &naiveBlock{})
			n.blocks = append(n.blocks, free[len(free)-1])
		}
		if len(free) == 0 {
			return false
		}
		held, free = append(held, free[0]), free[1:]
	}
	for _, b := range held[found:] {
		b.prefix, b.full = nil, false
	}
	for _, b := range held {
		b.holders++
	}
	n.free = free
	r.begin, r.cached, r.held, r.fate = now, found*naiveBlockTokens, held, "ran"
	n.running = append(n.running, r)
	return true
}

func (n *naive) serve(now int64) {
	for len(n.waiting) > 0 && n.tryBegin(n.waiting[0], now) {
		n.waiting = n.waiting[1:]
	}
}

func (n *naive) prefill(r *naiveRequest) {
	r.prefilled = true
	for i, b := range r.held {
		to := (i + 1) * naiveBlockTokens
		if to <= len(r.tokens) && b.prefix == nil {
			n.entered++
			b.prefix, b.entered = r.tokens[:to], n.entered
		}
		b.full = b.full || to <= len(r.tokens)
	}
}

func (n *naive) end(r *naiveRequest, now int64) {
	n.running = slices.DeleteFunc(n.running, func(q *naiveRequest) bool { return q == r })
	all := slices.Concat(r.tokens, r.answer[:r.sent])
	for i, b := range r.held {
		if to := (i + 1) * naiveBlockTokens; r.prefilled && to > len(r.tokens) && to < len(all) {
			n.entered++
			b.prefix, b.full, b.entered = all[:to], true, n.entered
		}
	}
	var empty []*naiveBlock
	for _, b := range slices.Backward(r.held) {
		b.holders--
		switch {
		case b.holders > 0 || n.unending:
		case b.full:
			n.free = append(n.free, b)
		default:
			empty = append(empty, b)
		}
	}
	n.free = slices.Concat(empty, n.free)
	n.serve(now)
}

// run plays requests that are sorted by arrival.
func (n *naive) run(requests []*naiveRequest) {
	for {
		// The earliest of all that can happen next; at one instant in the order of the cases.
		at, what := int64(math.MaxInt64), func() {}
		consider := func(instant int64, f func()) {
			if instant < at {
				at, what = instant, f
			}
		}
		for _, r := range n.running {
			if !r.prefilled {
				consider(r.begin+r.ttft, func() { n.prefill(r) })
			}
		}
		for _, r := range n.running {
			consider(r.begin+r.stay, func() { n.end(r, at) })
		}
		for _, r := range n.waiting {
			consider(r.arrival+r.patience, func() {
				r.fate = "left"
				n.waiting = slices.DeleteFunc(n.waiting, func(q *naiveRequest) bool { return q == r })
				n.serve(at)
			})
		}
		if len(requests) > 0 {
			r := requests[0]
			consider(r.arrival, func() {
				requests = requests[1:]
				switch {
				case len(n.waiting) == 0 && n.tryBegin(r, at):
				case n.maxQueue > 0 && len(n.waiting) == n.maxQueue:
					r.fate = "refused"
				default:
					n.waiting = append(n.waiting, r)
				}
			})
		}
		if at == math.MaxInt64 {
			return
		}
		what()
	}
}

// findable is how many different blocks can be found.
func (s *scheduler) findable() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache.pool != nil {
		return len(s.cache.pool.index)
	}
	return len(s.cache.all)
}

// findable counts the different prefixes that can be found.
func (n *naive) findable() int {
	var seen [][]uint64
	for _, b := range n.blocks {
		if b.prefix != nil && !slices.ContainsFunc(seen, func(p []uint64) bool { return slices.Equal(p, b.prefix) }) {
			seen = append(seen, b.prefix)
		}
	}
	return len(seen)
}

// randomRequests draws requests of few blocks from a small set, so that prefixes are shared often.
func randomRequests(r *rand.Rand, count, capacity int) []*naiveRequest {
	var list []*naiveRequest
	var now int64
	for i := range count {
		now += r.Int64N(1 << 30)
		q := &naiveRequest{number: i, arrival: now, output: 1 + r.IntN(2*naiveBlockTokens), patience: 1 + r.Int64N(1<<34)}
		q.ttft = r.Int64N(1 << 31)
		q.stay = q.ttft + r.Int64N(1<<31)
		if r.IntN(8) == 0 {
			q.stay = r.Int64N(q.ttft + 1) // its client leaves during the prefill
		}
		for range 1 + r.IntN(5) {
			b := uint64(r.IntN(3))
			for k := range uint64(naiveBlockTokens) {
				q.tokens = append(q.tokens, b*100+k)
			}
		}
		q.tokens = q.tokens[:len(q.tokens)-r.IntN(naiveBlockTokens)*r.IntN(2)]
		for capacity > 0 && len(q.tokens)+q.output > capacity*naiveBlockTokens { // no larger than the pool
			q.output, q.tokens = 1, q.tokens[:min(len(q.tokens), capacity*naiveBlockTokens-1)]
		}
		q.answer = make([]uint64, q.output)
		for k := range q.answer {
			q.answer[k] = uint64(r.IntN(3)*100 + (len(q.tokens)+k)%naiveBlockTokens) // as prompts have them, now and then
		}
		q.sent = q.output
		if r.IntN(3) == 0 {
			q.sent = r.IntN(q.output + 1)
		}
		list = append(list, q)
	}
	return list
}
