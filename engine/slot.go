package engine

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/fastreplay/fastreplay/sched"
)

// A slot is one request for the sender process, in memory that both processes share. The replay fills in what is to be
// written and on which connection. A sender writes it at its instant and leaves the result. It fills a cache line, so
// that two processes that work on neighbours do not share one. With 72 bytes, p99 of the drift was 12 µs in place of 6
// (2,000 requests of 20 kB a second).
type slot struct {
	releaseNS    int64
	offset, size int64         // of the bytes in the arena; if offset is below 0, at ^offset in the TLS ring
	conn         atomic.Uint64 // see connKey; valid while assigned
	state        atomic.Uint32
	segments     int32 // if above 0, the bytes lie in so many pieces, whose segments are at offset
	sentNS       int64 // just before the write
	writtenNS    int64 // just after it
	wrote        int64 // bytes that the kernel took; if it failed, the error's number below 0
}

var _ = [1]struct{}{}[unsafe.Sizeof(slot{})-64]

// The states of a slot. The replay takes it from empty to assigned and back; a sender takes it from assigned to
// sending or from empty to missed. Whoever takes it from whole, part, failed or missed to settled puts the result
// into the record. All by compare-and-swap.
const (
	slotEmpty     uint32 = iota // it has no connection
	slotAssigned                // a connection is claimed for it
	slotSending                 // a sender is writing it
	slotWhole                   // the kernel took all of it
	slotPart                    // it took less
	slotFailed                  // it took nothing, see wrote
	slotMissed                  // it was empty at its instant
	slotSettled                 // the record has the result
	slotAbandoned               // it will not be sent
)

// connKey names a connection for a sender: its place in the table, and which of the place's connections it is.
func connKey(place, generation uint32) uint64 { return uint64(generation)<<32 | uint64(place) }

// sharedHeader is the head of the shared memory.
type sharedHeader struct {
	realtime   int64 // the mode, of realtimeModes
	spinNS     int64 // sched.AutoSpin, or a time
	senders    int64
	slots      int64
	arenaBytes int64
	ringBytes  int64 // 0 = there is no TLS ring
	places     int64 // of connections

	ready   atomic.Uint32 // senderStarting, senderPlaced or senderRefused
	fifo    bool          // the placement, valid once ready
	short   bool
	refused [160]byte // why SCHED_FIFO was not granted; zero-terminated

	startNS       atomic.Int64 // CLOCK_MONOTONIC of instant 0; 0 = not yet
	stop          atomic.Bool  // nothing more is released
	ended         atomic.Bool  // the senders release nothing more
	claimed       atomic.Int64 // slots before this one belong to some sender
	written       atomic.Int64 // slots that were written
	messagesTaken atomic.Int64 // messages on the link that the process has handled
	sender        [MaxSenders]senderState
}

// MaxSenders bounds Config.Senders: the memory that senders share has room for so many.
const MaxSenders = 16

// senderState has what a sender reports to the replay.
type senderState struct {
	at     atomic.Int64 // it is done with those of its slots that come before this one
	spinNS atomic.Int64 // how long before an instant it stopped sleeping, in the end
	thread int64        // its id, once the header is ready
	_      [40]byte     // to a cache line
}

// passed returns the first slot that some sender is not done with, or may still claim.
func (h *sharedHeader) passed() int64 {
	first := h.slots
	for i := range h.senders {
		first = min(first, h.sender[i].at.Load())
	}
	return first
}

// spin returns the longest spinning time of a sender.
func (h *sharedHeader) spin() time.Duration {
	most := int64(0)
	for i := range h.senders {
		most = max(most, h.sender[i].spinNS.Load())
	}
	return time.Duration(most)
}

// realtimeModes are the values of sharedHeader.realtime, by index.
func realtimeModes() []sched.Realtime {
	return []sched.Realtime{sched.RealtimeAuto, sched.RealtimeOn, sched.RealtimeOff}
}

// The values of sharedHeader.ready.
const (
	senderStarting uint32 = iota
	senderPlaced
	senderRefused
)

// headerBytes is the room of the header before the first slot: whole cache lines.
const headerBytes = (unsafe.Sizeof(sharedHeader{}) + 63) / 64 * 64

func sharedSize(slots int) int64 {
	return int64(headerBytes) + int64(slots)*int64(unsafe.Sizeof(slot{}))
}

func headerOf(memory []byte) *sharedHeader { return (*sharedHeader)(unsafe.Pointer(&memory[0])) }

// slotsOf returns the slots behind the header.
func slotsOf(memory []byte, n int) []slot {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*slot)(unsafe.Pointer(&memory[headerBytes])), n)
}

// What follows is for a request that the sender process writes. From its assignment on the connection is busy. Its
// reader's side is the receiver. Whoever settles the slot ends its writer's side: the receiver if the kernel took all
// of it, else senderProcess.

// assign claims the connection for request i, which a sender will write. It returns false if somebody else has the
// connection, if it died, or if the request's instant has passed.
func (c *conn) assign(i int32, s *slot) bool {
	if !c.state.CompareAndSwap(idle, claimed) {
		return false
	}
	c.beginRequest(i, idle, s.releaseNS)
	s.conn.Store(c.key)
	if c.sock.UsesTLS() && !c.run.process.encrypt(i, s, c) {
		c.closeClaimed() // it is broken
		return false
	}
	if !s.state.CompareAndSwap(slotEmpty, slotAssigned) {
		c.unclaim()
		return false
	}
	c.pool.sent.Add(1)
	c.state.Store(busy)
	return true
}

// unclaim gives back a claimed connection that has nothing to send after all.
func (c *conn) unclaim() {
	c.request.Store(noRequest)
	if c.sock.UsesTLS() {
		c.closeClaimed() // TLS numbers what it has encrypted, so nothing else can follow
		return
	}
	c.pool.offer(c, claimed)
}

func (c *conn) closeClaimed() {
	c.state.Store(dead)
	c.closeAndRemove()
}

// sent reports whether request i of a busy connection has been sent, or is being sent. It returns false if the
// request waits for a sender, or is being taken back.
func (c *conn) sent(i int32) bool {
	l := c.run.process
	if l == nil {
		return true
	}
	switch l.slots[i].state.Load() {
	case slotEmpty, slotAssigned, slotAbandoned:
		return false
	}
	return true
}

// unassign is for a receiver whose connection has ended. If no sender has begun to write request i, unassign gives
// the request another connection, removes this one, and returns true.
func (c *conn) unassign(i int32) bool {
	if !c.run.process.slots[i].state.CompareAndSwap(slotAssigned, slotEmpty) {
		return false
	}
	c.pool.sent.Add(-1)
	c.state.Store(dead)
	c.closedUnused()
	c.run.process.reassign(i)
	return true
}

// beingWritten reports whether the sender process writes the current request at this moment.
func (c *conn) beingWritten() bool {
	l := c.run.process
	return l != nil && l.slots[c.request.Load()].state.Load() == slotSending
}

// settleSlot ends the writer's side of request i if the sender process has written it whole. The response has ended.
func (c *conn) settleSlot(i int32) {
	l := c.run.process
	if l == nil {
		return
	}
	s := &l.slots[i]
	for s.state.Load() == slotSending {
		runtime.Gosched() // the response came before the sender returned from the write
	}
	if s.state.CompareAndSwap(slotWhole, slotSettled) {
		c.run.wholeWrites.Add(1)
		c.noteWrite(i, s)
		c.run.recordOf(i).WrittenNS = s.writtenNS
		c.endWrite()
	}
}

// noteWrite puts the result of a sender's write into the record.
func (c *conn) noteWrite(i int32, s *slot) {
	rec := c.run.recordOf(i)
	rec.SentNS = s.sentNS
	rec.ConnWaitNS = 0
	rec.WrittenFirstBytes = s.wrote
	c.sock.CountWrite(s.wrote)
}

// finishWrite continues a request that the kernel did not take whole from the sender.
func (c *conn) finishWrite(i int32, s *slot, failed bool) {
	if failed {
		c.writeErr = syscall.Errno(-s.wrote)
		s.wrote = 0
	}
	c.noteWrite(i, s)
	if failed {
		c.endWrite()
		return
	}
	rest := c.run.process.bytesOf(i)
	rest.Drop(s.wrote)
	c.sock.KeepRest(rest)
	c.run.partialWrites.Add(1)
	c.flushSoon()
}

// tlsRing holds https requests between their encryption, when they get their connection, and the sender's write. It
// is memory that the sender process shares. It belongs to the goroutine that assigns.
type tlsRing struct {
	bytes   []byte
	end     int64 // of what was added last, in an endless ring
	entries []ringEntry
}

// ringEntry is one request's place.
type ringEntry struct {
	request int32
	begin   int64 // in an endless ring
}

// The room of a TLS ring: for all requests that are assigned at a time, which may be a burst of long prompts.
const (
	minRing       = 64 << 20
	ringOfLargest = 64 // times the largest request
)

// fits reports whether there is room for size bytes. needed reports whether a request's bytes, at the place that add
// has returned, are still to be written.
func (g *tlsRing) fits(size int64, needed func(request int32, place int64) bool) bool {
	limit := int64(len(g.bytes))
	for len(g.entries) > 0 && !needed(g.entries[0].request, g.entries[0].begin%limit) {
		g.entries = g.entries[1:]
	}
	begin := g.end
	if len(g.entries) > 0 {
		begin = g.entries[0].begin
	}
	return g.place(size)+size-begin <= limit
}

// place returns where size bytes go in an endless ring: not across the end of the real one.
func (g *tlsRing) place(size int64) int64 {
	limit := int64(len(g.bytes))
	if over := g.end % limit; over+size > limit {
		return g.end + limit - over
	}
	return g.end
}

// add copies p, for which fits has found room, into the ring and returns its place.
func (g *tlsRing) add(request int32, p []byte) (place int64) {
	at := g.place(int64(len(p)))
	place = at % int64(len(g.bytes))
	copy(g.bytes[place:], p)
	g.entries = append(g.entries, ringEntry{request, at})
	g.end = at + int64(len(p))
	return place
}
