package mockllm

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
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
	r.lease.keys, r.lease.prompt, r.lease.output = slices.Clone(h.keys), len(q.tokens), q.output
	for _, v := range q.answer[:q.output-1] {
		h.add(v)
	}
	r.lease.answer = append(r.lease.answer, h.keys[len(r.lease.keys):]...)
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
		if p.s.release(r.lease, p.endOf(r), p.want[r].sent) {
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
				playAgainst(t, requests, oracle, p)
			}
		})
	}
}

func playAgainst(t *testing.T, requests []*naiveRequest, oracle *naive, p *player) {
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
	if running != 0 || waiting != 0 || st.held != 0 || p.s.findable() != oracle.findable() || st.hits != hits || st.queries != queries {
		t.Errorf("in the end: running %d, waiting %d, %+v; want %d hits of %d, %d blocks", running, waiting, st, hits, queries, oracle.findable())
	}
	if len(p.s.events) > 0 || !oracle.none && hits == 0 {
		t.Errorf("%d events left, %d hits", len(p.s.events), hits)
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
			must.Equal(t, s.acquire(q), admitted, "not admitted")
			s.release(q.lease, now, 10)
		}
		for range 100 {
			request()
		}
		expect.Equal(t, testing.AllocsPerRun(200, request), 0, "%s: allocations a request", name)
	}
}

// idsBody is a streaming completion request for the tokens.
func idsBody(tokens []uint64, output int) string {
	var b strings.Builder
	for i, v := range tokens {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, v)
	}
	return fmt.Sprintf(`{"prompt":[%s],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, b.String(), output)
}

// same returns a prompt of equal tokens, so that prompts of one token share their whole blocks.
func same(token uint64, n int) []uint64 { return slices.Repeat([]uint64{token}, n) }

// TestPoolHammer: with clients that read, hang up early or never read at all, in the end everything is free again.
func TestPoolHammer(t *testing.T) {
	const clients, rounds = 24, 30
	ts := start(t, Config{CacheTokens: 40 * 16, TTFT: 2 * time.Millisecond, ITL: 100 * time.Microsecond, Spread: 0.9, Slots: 12})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 9))
			for range rounds {
				body := idsBody(same(r.Uint64N(3), 1+r.IntN(300)), 1+r.IntN(30))
				if r.IntN(3) > 0 {
					ts.stream(body)
					continue
				}
				nc := ts.raw(body)
				_, _ = io.ReadFull(nc, make([]byte, r.IntN(600)))
				nc.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "all is free", func() bool { st := ts.counts(); return st.Ended == clients*rounds })
	if st := ts.counts(); st.Running != 0 || st.Waiting != 0 || st.HeldBlocks != 0 || st.CachedBlocks == 0 || st.CachedBlocks > 40 {
		t.Errorf("stats %+v", st)
	}
}
