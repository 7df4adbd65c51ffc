package engine

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// ErrNoRoom means that an endpoint has as many connections as the limit of descriptors allows.
var ErrNoRoom = errors.New("no descriptor left for another connection; raise `ulimit -n`")

// pool is one endpoint with its connections. Each connection has an id below the pool's room.
type pool struct {
	run    *Run
	addr   netip.AddrPort
	name   string // addr as text, for records
	url    string // of its target, for records
	target int    // index among the run's targets
	index  int    // index among its target's endpoints
	dial   wire.DialOptions

	base        uint32                 // place of its first connection among the run's
	generations []uint32               // how many connections each id has had
	table       []atomic.Pointer[conn] // connections that exist, by id
	idle        *idSet                 // ids of connections that wait for a request; one of them may have just died
	unused      *idSet                 // ids without a connection

	dialing atomic.Int64 // connections that are being dialled ahead of demand
	refused atomic.Bool  // a connection dialled ahead of demand failed, or died before it carried a request
	// the server closes connections that it announced to keep, so each request gets a new one
	unkept atomic.Bool
	sent   atomic.Int64 // requests released to the endpoint so far; compared with due
	weight float64      // where requests get their places when they leave; see lateRouter
	// likewise: requests that have not ended, and failed ones, which count as in flight; and the failed ones alone
	inFlight, failures atomic.Int64
	nagle              nagle
	gone               atomic.Bool // gets no request: it is spare, or its target has left
	// requests due at the endpoint up to the dialer's horizon, see lateRouter.needs, too; the dialer's own
	due int64
}

func newPool(r *Run, target int, addr netip.AddrPort, base, room int, d wire.DialOptions) *pool {
	p := &pool{
		run:         r,
		addr:        addr,
		name:        addr.String(),
		target:      target,
		dial:        d,
		base:        uint32(base),
		table:       r.table[base : base+room],
		generations: make([]uint32, room),
		idle:        newIDSet(room),
		unused:      newIDSet(room),
	}
	for id := range uint32(room) {
		p.unused.add(id)
	}
	return p
}

// takeIdle returns a connection that was idle a moment ago; nil if there is none. conn.start fails if it is no longer
// idle.
func (p *pool) takeIdle() *conn {
	for {
		id, ok := p.idle.pop()
		if !ok {
			return nil
		}
		if c := p.table[id].Load(); c != nil {
			return c
		}
	}
}

// nextIdle returns the connection that takeIdle would return now; nil if there is none.
func (p *pool) nextIdle() *conn {
	if id, ok := p.idle.first(); ok {
		return p.table[id].Load()
	}
	return nil
}

// returnIdle gives back a connection that was taken and is still idle.
func (p *pool) returnIdle(c *conn) {
	p.idle.add(c.id)
	if c.state.Load() == dead && p.table[c.id].Load() == c {
		p.idle.remove(c.id) // it died meanwhile
	}
}

// offer makes a connection, which is in state from, idle. Its receiver may find it closed at any moment.
func (p *pool) offer(c *conn, from uint32) {
	if !c.state.CompareAndSwap(from, idle) {
		return // closed by the server as soon as it was open
	}
	p.returnIdle(c)
}

// remove removes a dead connection and frees its id. It is called once, by whoever made the connection dead.
func (p *pool) remove(c *conn) {
	p.idle.remove(c.id)
	if l := p.run.process; l != nil {
		// before the place is free again; an error means that the process has ended
		_, _ = l.sendMessage(linkClose, c.key, nil)
	}
	p.table[c.id].Store(nil)
	p.unused.add(c.id)
}

// open returns how many connections exist.
func (p *pool) open() int64 { return int64(len(p.table)) - p.unused.len() }

// connect dials a connection and gives it a receiver. The connection belongs to the caller, who offers it or starts a
// request on it.
func (p *pool) connect(ctx context.Context) (*conn, error) {
	id, ok := p.unused.pop()
	if !ok {
		return nil, ErrNoRoom
	}
	s, err := wire.Dial(ctx, p.run.clock, p.addr, p.dial)
	if err != nil {
		p.unused.add(id)
		return nil, fmt.Errorf("connecting to %s: %w", p.name, err)
	}
	p.run.dialled.Add(1)
	c := newConn(p.run, p, s)
	c.id = id
	p.generations[id]++
	c.key = connKey(p.base+id, p.generations[id])
	if l := p.run.process; l != nil {
		if c.linkSeq, err = l.passSocket(c.key, s); err != nil {
			s.Close()
			p.unused.add(id)
			return nil, fmt.Errorf("connecting to %s: %w", p.name, err)
		}
	}
	p.table[id].Store(c)
	byEpoll, err := p.run.epollReaders.add(c)
	if err != nil {
		c.closeClaimed()
		return nil, fmt.Errorf("connecting to %s: %w", p.name, err)
	}
	if !byEpoll {
		c.readInGoroutine(nil)
	}
	return c, nil
}

// endReuse makes each later request get a connection of its own, and closes those that wait for another request.
func (p *pool) endReuse() {
	if p.unkept.Swap(true) {
		return
	}
	p.eachConn(func(c *conn) {
		if c.request.Load() != noRequest && c.state.CompareAndSwap(idle, dead) {
			c.closeAndRemove()
		}
	})
}

// dialAhead makes a worker dial a connection and offer it.
func (p *pool) dialAhead() {
	p.dialing.Add(1)
	p.run.workers.do(func() {
		defer p.dialing.Add(-1)
		c, err := p.connect(p.run.ctx)
		if err != nil {
			p.refused.Store(true)
			return
		}
		p.offer(c, opening)
	})
}

// endRequest counts a request that has ended with outcome o. A failed request counts as in flight until one is
// answered.
func (p *pool) endRequest(o record.Outcome) {
	switch o {
	case record.OK:
		p.inFlight.Add(-1 - p.failures.Swap(0))
	case record.Cancelled, record.NotSent:
		p.inFlight.Add(-1)
	default:
		p.failures.Add(1)
	}
}

// eachConn calls f for every connection.
func (p *pool) eachConn(f func(*conn)) {
	for id := range p.table {
		if c := p.table[id].Load(); c != nil {
			f(c)
		}
	}
}

// idSet is a lock-free set of small ids. The lowest id is taken first, so that few connections are in use and stay
// warm. The server closes the others, and no request arrives at that moment. Taking an id looks at one word for every
// 64 ids.
type idSet struct {
	words []atomic.Uint64 // bit id%64 of word id/64
	count atomic.Int64
}

func newIDSet(capacity int) *idSet { return &idSet{words: make([]atomic.Uint64, (capacity+63)/64)} }

// add adds id; adding it again changes nothing.
func (s *idSet) add(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].Or(bit)&bit == 0 {
		s.count.Add(1)
	}
}

// remove removes id, if the set has it.
func (s *idSet) remove(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].And(^bit)&bit != 0 {
		s.count.Add(-1)
	}
}

// pop removes the lowest id; false if the set is empty.
func (s *idSet) pop() (id uint32, ok bool) {
	for w := range s.words {
		word := &s.words[w]
		for {
			old := word.Load()
			if old == 0 {
				break
			}
			if word.CompareAndSwap(old, old&(old-1)) {
				s.count.Add(-1)
				return uint32(w*64 + bits.TrailingZeros64(old)), true
			}
		}
	}
	return 0, false
}

// first returns an id that pop would return now.
func (s *idSet) first() (id uint32, ok bool) {
	for w := range s.words {
		if word := s.words[w].Load(); word != 0 {
			return uint32(w*64 + bits.TrailingZeros64(word)), true
		}
	}
	return 0, false
}

// len returns how many ids the set has.
func (s *idSet) len() int64 { return s.count.Load() }
