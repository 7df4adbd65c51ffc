package engine

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A shot is one request as the lanes' process sees it, in memory that both processes share. The replay fills in what is
// to be written and on which connection, a lane writes it at its instant and leaves the result.
type slot struct {
	releaseNS    int64
	offset, size int64         // of the bytes in the arena; where offset is below 0, at ^offset in the stage
	conn         atomic.Uint64 // see connKey; valid while armed
	state        atomic.Uint32
	errno        int32
	sentNS       int64 // just before the write
	writtenNS    int64 // just after it
	wrote        int64 // bytes that the kernel took
}

// The states of a shot. The replay arms and disarms it, a lane takes it from armed or empty, and whoever takes it from
// whole, part, failed or missed to settled puts the result into the record. All by compare-and-swap.
const (
	slotEmpty     uint32 = iota // no connection is claimed for it
	slotAssigned                // one is
	slotSending                 // the lane is writing
	slotWhole                   // the kernel took all of it
	slotPart                    // it took less
	slotFailed                  // it took nothing, see errno
	slotMissed                  // its instant came and it was empty
	slotSettled                 // the result is where it belongs
	slotAbandoned               // it will not be sent
)

// connKey names a connection to the lane: its place in the lane's table, and which of the place's connections it is.
func connKey(place, generation uint32) uint64 { return uint64(generation)<<32 | uint64(place) }

// sharedHeader is the head of the shared memory.
type sharedHeader struct {
	realtimeOn, realtimeOff uint32 // the mode; neither is auto
	spinNS                  int64  // sched.AutoSpin, or a time
	senders                 int64
	slots                   int64
	arenaBytes              int64
	ringBytes               int64 // 0 = there is no stage
	places                  int64 // of connections

	ready   atomic.Uint32 // senderStarting, senderPlaced or senderRefused
	fifo    uint32        // the placement, valid once ready
	short   uint32
	refused [160]byte // why SCHED_FIFO was not granted; zero-terminated

	startNS       atomic.Int64 // CLOCK_MONOTONIC of instant 0; 0 = not yet
	stop          atomic.Bool  // nothing more is released
	ended         atomic.Bool  // the lanes release nothing more
	claimed       atomic.Int64 // shots before this one belong to some lane
	written       atomic.Int64 // shots that were written
	messagesTaken atomic.Int64 // messages on the link that the process has acted on
	sender        [MaxSenders]senderState
}

// senderState is what a lane tells of itself.
type senderState struct {
	at     atomic.Int64 // it has passed those of its shots that come before this one
	spinNS atomic.Int64 // how long before an instant it stopped sleeping, in the end
	thread int64        // its id, once the board is ready
	_      [40]byte     // to a cache line
}

// passed is the first shot that some lane has not passed, or may yet claim.
func (b *sharedHeader) passed() int64 {
	first := b.slots
	for i := range b.senders {
		first = min(first, b.sender[i].at.Load())
	}
	return first
}

// spin is the largest window of its lanes.
func (b *sharedHeader) spin() time.Duration {
	most := int64(0)
	for i := range b.senders {
		most = max(most, b.sender[i].spinNS.Load())
	}
	return time.Duration(most)
}

// The values of sharedHeader.ready.
const (
	senderStarting uint32 = iota
	senderPlaced
	senderRefused
)

// headerBytes is the room of the board before the first shot: whole cache lines.
const headerBytes = (unsafe.Sizeof(sharedHeader{}) + 63) / 64 * 64

func sharedSize(shots int) int64 {
	return int64(headerBytes) + int64(shots)*int64(unsafe.Sizeof(slot{}))
}

// headerOf lays a board over shared memory.
func headerOf(memory []byte) *sharedHeader { return (*sharedHeader)(unsafe.Pointer(&memory[0])) }

// slotsOf lays the shots over the memory behind the board.
func slotsOf(memory []byte, n int) []slot {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*slot)(unsafe.Pointer(&memory[headerBytes])), n)
}

// What a connection goes through for a request that the lane's process writes. Between arming and the lane's write the
// connection is busy; its reader's side is the receiver, as ever, and the writer's side is ended by whoever settles the
// shot: the receiver if the kernel took all of it, else the replay's side of the lane.

// arm claims the connection for request i, which the lane will write. False: somebody else has it, it died, or the lane
// has passed the request.
func (c *conn) assign(i int32, s *slot) bool {
	if !c.state.CompareAndSwap(idle, claimed) {
		return false
	}
	c.carry(i, idle, s.releaseNS)
	s.conn.Store(c.key)
	if c.sock.UsesTLS() && !c.run.process.encrypt(i, s, c) {
		c.end() // it is broken
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
		c.end() // TLS counts what it has encrypted, so it can carry nothing else
		return
	}
	c.pool.offer(c, claimed)
}

// drop ends a claimed connection.
func (c *conn) end() {
	c.state.Store(dead)
	c.closeAndRemove()
}

// takeBack frees the busy connection of a request that the lane will not write. Its shot is abandoned, so nobody else
// touches it.
func (c *conn) takeBack() {
	c.state.Store(claimed)
	c.unclaim()
}

// sent tells whether request i of a busy connection has left, or is leaving: not that it waits for the lane, or is being
// taken back.
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

// unassign is for a receiver that has found its connection over. If the lane has not written request i yet, the request
// gets another connection and this one is buried; true then.
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

// beingWritten tells whether a lane in its own process writes the current request this moment.
func (c *conn) beingWritten() bool {
	l := c.run.process
	return l != nil && l.slots[c.request.Load()].state.Load() == slotSending
}

// settleSlot ends the writer's side of a request that the lane has written whole, when its reply is there.
func (c *conn) settleSlot(i int32) {
	l := c.run.process
	if l == nil {
		return
	}
	s := &l.slots[i]
	for s.state.Load() == slotSending {
		runtime.Gosched() // the reply is quicker than the lane's return from the write
	}
	if s.state.CompareAndSwap(slotWhole, slotSettled) {
		c.run.wholeWrites.Add(1)
		c.noteWrite(i, s)
		c.run.records[i].WrittenNS = s.writtenNS
		c.endWrite()
	}
}

// took puts what the lane did into the books.
func (c *conn) noteWrite(i int32, s *slot) {
	rec := &c.run.records[i]
	rec.SentNS, rec.ConnWaitNS, rec.WrittenFirstBytes = s.sentNS, 0, s.wrote
	c.sock.CountWrite(s.wrote)
}

// finishWrite goes on with a request that the kernel did not take whole from the lane.
func (c *conn) finishWrite(i int32, s *slot, failed bool) {
	if failed {
		s.wrote = 0
	}
	c.noteWrite(i, s)
	if failed {
		c.writeErr = syscall.Errno(s.errno)
		c.endWrite()
		return
	}
	c.sock.KeepRest(c.run.process.bytesOf(i)[s.wrote:])
	c.run.partialWrites.Add(1)
	c.run.workers.do(c.flushRest)
}

// stage is where https requests lie between their encryption, which happens when they are armed, and the lane's write: a
// ring in memory that the lane's process shares. It belongs to the armer.
type tlsRing struct {
	bytes   []byte
	end     int64 // of what was put last, in an endless ring
	entries []ringEntry
}

// ringEntry is one request's place.
type ringEntry struct {
	request int32
	begin   int64 // in an endless ring
}

// Room for a stage: what is armed at a time, which a burst of long prompts makes large.
const (
	minRing       = 64 << 20
	ringOfLargest = 64 // times the largest request
)

func tlsRingSize(largest int) int64 { return max(minRing, ringOfLargest*int64(largest)) }

// fits tells whether there is room for size bytes. needed tells whether the bytes at a place that put has returned for a
// request are still to be written.
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

// next is where size bytes go in an endless ring: not across the end of the real one.
func (g *tlsRing) place(size int64) int64 {
	limit := int64(len(g.bytes))
	if over := g.end % limit; over+size > limit {
		return g.end + limit - over
	}
	return g.end
}

// put copies p, for which fits has found room, into the ring and returns where it lies.
func (g *tlsRing) add(request int32, p []byte) (place int64) {
	at := g.place(int64(len(p)))
	place = at % int64(len(g.bytes))
	copy(g.bytes[place:], p)
	g.entries = append(g.entries, ringEntry{request, at})
	g.end = at + int64(len(p))
	return place
}
