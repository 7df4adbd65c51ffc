package mockllm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// player plays the same requests as naive on a scheduler. Between two arrivals it reports the ends in an order of its
// own wherever nobody waits. When it is ahead, arrivals are seen late: after ends that came after them.
type player struct {
	t       *testing.T
	ahead   bool
	horizon int64 // what ended by then was reported
	r       *rand.Rand
	s       scheduler
	want    map[*reply]*naiveRequest
	running []*reply
	waiting []*reply
}

func newPlayer(t *testing.T, r *rand.Rand, capacity, slots, maxQueue int) *player {
	p := &player{t: t, r: r, want: map[*reply]*naiveRequest{}}
	p.s.slots, p.s.maxQueue = slots, maxQueue
	p.s.cache = newPrefixCache(int64(capacity)*naiveBlockTokens, naiveBlockTokens)
	p.s.launch = func(q *reply) {
		p.waiting = slices.DeleteFunc(p.waiting, func(o *reply) bool { return o == q })
		p.running = append(p.running, q)
	}
	return p
}

func (p *player) reply(q *naiveRequest) *reply {
	cfg := Config{TTFT: time.Duration(q.ttft), BlockTokens: naiveBlockTokens}
	r := &reply{cfg: &cfg, arrivedNS: q.arrival, promptTokens: len(q.tokens), lease: p.s.get()}
	h := newPromptHasher(&cfg, r.lease.keys)
	for _, v := range q.tokens {
		h.add(v)
	}
	r.lease.keys, r.lease.prompt, r.lease.output = h.keys, len(q.tokens), q.output
	p.want[r] = q
	return r
}

func (p *player) endOf(r *reply) int64 { return r.beginNS + p.want[r].stay }

// until reports what ends by the instant now, or a bit later.
func (p *player) until(now int64) {
	if p.ahead && len(p.waiting) == 0 {
		now += p.r.Int64N(1 << 31)
	}
	p.horizon = max(p.horizon, now)
	for {
		// With somebody waiting ends come in order, as they do where each is acted upon.
		slices.SortFunc(p.running, func(a, b *reply) int { return int(p.endOf(a) - p.endOf(b)) })
		due := 0
		for due < len(p.running) && p.endOf(p.running[due]) <= p.horizon {
			due++
		}
		if due == 0 {
			return
		}
		i := 0
		if len(p.waiting) == 0 {
			i = p.r.IntN(due)
		}
		r := p.running[i]
		p.running = slices.Delete(p.running, i, i+1)
		r.lease.endNS = p.endOf(r)
		if p.s.ends.add(r.lease) {
			p.s.catchUp()
		} else if len(p.waiting) > 0 {
			p.t.Fatal("an end was not told that somebody waits")
		}
	}
}

// leaving lets those lose their patience that do so before the instant now.
func (p *player) leaving(now int64) {
	for {
		var next *reply
		for _, r := range p.waiting {
			if next == nil || p.leaveAt(r) < p.leaveAt(next) {
				next = r
			}
		}
		if next == nil || p.leaveAt(next) > now {
			return
		}
		at := p.leaveAt(next)
		p.until(at)
		if !slices.Contains(p.waiting, next) {
			continue
		}
		p.waiting = slices.DeleteFunc(p.waiting, func(o *reply) bool { return o == next })
		if !p.s.leave(next, at) || p.s.leave(next, at) {
			p.t.Fatal("leaving works once")
		}
		p.check(next, "left")
		p.s.put(next.lease)
	}
}

func (p *player) leaveAt(r *reply) int64 { return p.want[r].arrival + p.want[r].patience }

func (p *player) check(r *reply, fate string) {
	p.t.Helper()
	if q := p.want[r]; q.fate != fate || fate == "ran" && (r.beginNS != q.begin || r.cachedTokens != q.cached) {
		p.t.Fatalf("request %d: %s at %d with %d cached, want %s at %d with %d", q.number, fate, r.beginNS, r.cachedTokens, q.fate, q.begin, q.cached)
	}
}

// TestSchedulerAgainstNaive: begins, hits and the whole state are those of the oracle, whatever order ends come in.
func TestSchedulerAgainstNaive(t *testing.T) {
	for _, c := range []struct{ capacity, slots, maxQueue int }{
		{-1, 0, 0}, {-1, 2, 0}, {0, 0, 0}, {0, 1, 3}, {4, 0, 0}, {7, 0, 2}, {12, 0, 0}, {12, 3, 0}, {30, 0, 5}, {100, 0, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, uint64(c.capacity+2)))
				requests := randomRequests(r, 150, c.capacity)
				p := newPlayer(t, r, c.capacity, c.slots, c.maxQueue)
				if p.ahead = seed%2 == 1 && c.maxQueue == 0; p.ahead {
					for _, q := range requests { // who leaves while others are late cannot make room for them in time
						q.patience = 1 << 60
					}
				}
				oracle := newNaive(c.capacity, c.slots, c.maxQueue)
				oracle.run(requests)
				playAgainst(t, r, requests, oracle, p)
			}
		})
	}
}

func playAgainst(t *testing.T, r *rand.Rand, requests []*naiveRequest, oracle *naive, p *player) {
	t.Helper()
	const never = 1 << 62
	var ran []*reply
	for _, q := range requests {
		p.leaving(q.arrival)
		p.until(q.arrival)
		reply := p.reply(q)
		switch p.s.acquire(reply) {
		case admitted:
			p.running = append(p.running, reply)
			p.check(reply, "ran")
		case queued:
			p.waiting = append(p.waiting, reply)
		case refused:
			p.check(reply, "refused")
			p.s.put(reply.lease)
		}
		if q.fate == "ran" {
			ran = append(ran, reply)
		}
	}
	p.leaving(never)
	p.until(never)
	var hits, queries int64
	for _, reply := range ran {
		p.check(reply, "ran")
		hits += int64(reply.cachedTokens)
		queries += int64(reply.promptTokens)
	}
	running, waiting, st := p.s.stats(never)
	if running != 0 || waiting != 0 || st.held != 0 || st.findable != oracle.findable() || st.hits != hits || st.queries != queries {
		t.Errorf("in the end: running %d, waiting %d, %+v; want %d hits of %d, %d blocks", running, waiting, st, hits, queries, oracle.findable())
	}
	if len(p.s.events.list) > 0 || !oracle.none && hits == 0 {
		t.Errorf("%d events left, %d hits", len(p.s.events.list), hits)
	}
}

func TestEventOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h eventHeap
	var all []event
	for range 2000 {
		if len(all) > 0 && r.IntN(3) == 0 {
			slices.SortFunc(all, func(a, b event) int {
				if a.before(&b) {
					return -1
				}
				return 1
			})
			if got := h.pop(); got != all[0] {
				t.Fatalf("got %+v, want %+v", got, all[0])
			}
			all = all[1:]
			continue
		}
		e := event{at: r.Int64N(20), end: r.IntN(2) == 0}
		h.push(e)
		e.order = h.added
		all = append(all, e)
	}
	first, second := event{at: 5, order: 9}, event{at: 5, order: 1, end: true}
	if !first.before(&second) || second.before(&first) {
		t.Error("a prefill must go before an end of the same instant")
	}
}

// TestDuplicateBlocks: of equal blocks the first one registered is found, then the next.
func TestDuplicateBlocks(t *testing.T) {
	p := newBlockPool(6)
	with := func(keys ...uint64) *lease { return &lease{keys: keys} }
	one, two, three := with(1), with(1), with(1)
	for _, l := range []*lease{one, two, three} { // none finds another: nothing is prefilled yet
		if found, ok := p.begin(l, 1, 1); found != 0 || !ok {
			t.Fatalf("found %d, %v", found, ok)
		}
	}
	for _, l := range []*lease{two, one, three} {
		p.prefilled(l, 1)
	}
	finds := func(want int32) {
		t.Helper()
		l := with(1)
		if found, ok := p.begin(l, 1, 1); found != 1 || !ok || l.blocks[0] != want {
			t.Fatalf("found %d, %v, block %v, want %d", found, ok, l.blocks, want)
		}
		p.end(l)
	}
	first, second, third := two.blocks[0], one.blocks[0], three.blocks[0]
	finds(first)
	p.end(two)
	filler := with()
	if _, ok := p.begin(filler, 0, 4); !ok { // three never used, and the one that is free
		t.Fatal("no room")
	}
	finds(second)
	p.end(three)
	if _, ok := p.begin(with(), 0, 1); !ok {
		t.Fatal("no room")
	}
	if p.blocks[third].registered {
		t.Error("a block that was given away can be found")
	}
	finds(second)
	if _, ok := p.begin(with(1), 1, 2); ok || p.free() != 0 {
		t.Errorf("a request began without room, %d free", p.free())
	}
	p.clear()
	if _, ok := p.begin(with(1), 1, 1); ok {
		t.Error("found after clear")
	}
	p.end(one)
	if found, ok := p.begin(with(1), 1, 1); found != 0 || !ok {
		t.Errorf("found %d after clear, %v", found, ok)
	}
}

// TestSchedulerRace: every request runs or waits, and nobody is forgotten, with ends and arrivals from many goroutines.
func TestSchedulerRace(t *testing.T) {
	const workers, rounds = 8, 400
	var s scheduler
	begun := make(map[*reply]chan struct{})
	var mu sync.Mutex
	began := func(r *reply) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if begun[r] == nil {
			begun[r] = make(chan struct{})
		}
		return begun[r]
	}
	s.cache = newPrefixCache(6*naiveBlockTokens, naiveBlockTokens)
	s.launch = func(r *reply) { close(began(r)) }
	now := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for range rounds {
				q := &reply{cfg: &Config{}, arrivedNS: int64(time.Since(now)), lease: s.get()}
				l := q.lease
				l.prompt, l.output = 1+r.IntN(3*naiveBlockTokens), 1+r.IntN(3*naiveBlockTokens)
				for range l.prompt / naiveBlockTokens {
					l.keys = append(l.keys, r.Uint64N(4))
				}
				if s.acquire(q) == queued {
					<-began(q)
				}
				s.release(l, int64(time.Since(now)))
			}
		})
	}
	wg.Wait()
	running, waiting, st := s.stats(int64(time.Since(now)))
	if running != 0 || waiting != 0 || st.held != 0 {
		t.Errorf("running %d, waiting %d, %+v", running, waiting, st)
	}
}

// TestNoAllocationPerLookup: once its memory has grown, the scheduler needs none for a request.
func TestNoAllocationPerLookup(t *testing.T) {
	for name, capacity := range map[string]int64{"unlimited": -1, "pool": 64 << 10, "none": 0} {
		var s scheduler
		s.cache = newPrefixCache(capacity, DefaultBlockTokens)
		q := &reply{cfg: &Config{}}
		now := int64(0)
		request := func() {
			now++
			*q = reply{cfg: q.cfg, arrivedNS: now, lease: s.get()}
			for k := range uint64(500) {
				q.lease.keys = append(q.lease.keys, finalize(k+uint64(now%20)*100))
			}
			q.lease.prompt, q.lease.output = 500*DefaultBlockTokens, 10
			if s.acquire(q) != admitted {
				t.Fatal("not admitted")
			}
			s.release(q.lease, now)
		}
		for range 100 {
			request()
		}
		if n := testing.AllocsPerRun(200, request); n != 0 {
			t.Errorf("%s: %v allocations a request", name, n)
		}
	}
}
