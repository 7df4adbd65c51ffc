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

// ErrNoRoom means that an endpoint has as many connections as the descriptor limit leaves it.
var ErrNoRoom = errors.New("no descriptor left for another connection; raise `ulimit -n`")

// endpoint is one address of a target with its connections. Each has an id below the endpoint's room.
type pool struct {
	run    *Run
	addr   netip.AddrPort
	name   string // addr as text, for records
	target int    // index into the run's targets
	index  int    // among its target's addresses
	dial   wire.DialOptions

	base        uint32                 // of its connections' places among the run's
	generations []uint32               // how many connections each id has had
	table       []atomic.Pointer[conn] // connections that exist, by id
	idle        *idSet                 // ids of connections that wait for a request; now and then one that has just died
	unused      *idSet                 // ids without a connection

	dialing            atomic.Int64 // connections on their way, ahead of demand
	refused            atomic.Bool  // a connection made ahead of demand failed, or died before it was of use
	sent               atomic.Int64 // requests released to this endpoint so far; compared with due
	weight             float64      // where requests are balanced; see balance
	inFlight, failures atomic.Int64 // likewise: requests that have not ended, failed ones among them; and those
	due                int64        // requests planned for this endpoint up to the dialer's horizon; the dialer's own
}

func newPool(r *Run, target int, addr netip.AddrPort, base, room int, d wire.DialOptions) *pool {
	p := &pool{
		run: r, addr: addr, name: addr.String(), target: target, dial: d,
		base: uint32(base), table: r.table[base : base+room], generations: make([]uint32, room), idle: newIDSet(room), unused: newIDSet(room),
	}
	for id := range uint32(room) {
		p.unused.add(id)
	}
	return p
}

// take returns a connection that was idle a moment ago; nil if there is none. Whether it still is, start finds out.
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

// returnIdle offers a connection again that was taken and is still idle.
func (p *pool) returnIdle(c *conn) {
	p.idle.add(c.id)
	if c.state.Load() == dead && p.table[c.id].Load() == c {
		p.idle.remove(c.id) // it died in between, before it could be withdrawn
	}
}

// park offers a connection that is in state from for the next request. Its receiver may find it closed at any moment.
func (p *pool) offer(c *conn, from uint32) {
	if !c.state.CompareAndSwap(from, idle) {
		return // closed by the server as soon as it was open
	}
	p.returnIdle(c)
}

// dropSocket takes a dead connection out of the books and frees its id. It is called once, by whoever made it dead.
func (p *pool) remove(c *conn) {
	p.idle.remove(c.id)
	if l := p.run.process; l != nil {
		l.dropSocket(c.key) // before the place is free again
	}
	p.table[c.id].Store(nil)
	p.unused.add(c.id)
}

// alive is how many connections exist.
func (p *pool) open() int64 { return int64(len(p.table)) - p.unused.len() }

// connect dials and gives the connection its receiver. The connection belongs to the caller, who parks it or starts a request on it.
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
	inLoop, err := p.run.epollReaders.add(c)
	if err != nil {
		c.end()
		return nil, fmt.Errorf("connecting to %s: %w", p.name, err)
	}
	if !inLoop {
		c.readInGoroutine(nil)
	}
	return c, nil
}

// dialAhead parks one more connection, soon.
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

// ended takes a request off its address' books.
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

// each calls f for every connection of the endpoint.
func (p *pool) eachConn(f func(*conn)) {
	for id := range p.table {
		if c := p.table[id].Load(); c != nil {
			f(c)
		}
	}
}

// idSet is a lock-free set of small ids. The lowest id is taken first, so that the connections in use stay few and warm and
// the others grow old and are closed by the server, rather than raced against. Taking looks at one word for every 64 ids.
type idSet struct {
	words []atomic.Uint64 // bit id%64 of word id/64
	count atomic.Int64
}

func newIDSet(capacity int) *idSet { return &idSet{words: make([]atomic.Uint64, (capacity+63)/64)} }

// put adds id; adding it again changes nothing.
func (s *idSet) add(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].Or(bit)&bit == 0 {
		s.count.Add(1)
	}
}

// drop removes id if it is there.
func (s *idSet) remove(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].And(^bit)&bit != 0 {
		s.count.Add(-1)
	}
}

// take removes the lowest id; false when the set is empty.
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

// len is how many ids the set has.
func (s *idSet) len() int64 { return s.count.Load() }
