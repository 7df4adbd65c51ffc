package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// The states of a connection. Whoever takes it out of opening or idle by compare-and-swap owns it: a sender claims it,
// fills in the request and makes it busy; its receiver, finding it closed, makes it dead. The side of a request that ends
// last takes it from busy to idle or dead.
const (
	opening uint32 = iota // just dialled, not yet offered
	idle                  // its receiver waits, no request on it
	claimed               // about to be busy, for nanoseconds
	busy                  // it carries a request
	dead                  // closed and forgotten
)

// readBuffer holds one read: a few dozen events of a busy stream. A loop has one, and so has each receiver that is a
// goroutine: 10,000 of them take 160 MB.
const readBuffer = 16 << 10

// conn is one connection with its receiver. Between requests it belongs to its peer; while busy its request has two
// sides, the writer (lane, late worker or flush) and the reader (the receiver).
type conn struct {
	id       uint32 // place in the peer's table
	key      uint64 // names it to the lane's process and to its loop
	linkSeq  int64  // how many messages the lane's process has to have taken before it knows it
	pool     *pool
	run      *Run
	sock     *wire.Socket
	response response
	buf      []byte // of a receiver that is a goroutine; made with its first read

	state     atomic.Uint32
	request   atomic.Int32  // the request it carries, or carried last
	sides     atomic.Int32  // sides of the request still at work
	cancelled atomic.Int64  // what the watchdog decided: cancelCode(request, why); 0 = nothing
	noFlush   atomic.Bool   // the reader's side has found that the rest of the image need not be written
	receiver  atomic.Uint32 // byGoroutine, byEpoll or inEpoll

	fresh    bool  // dialled for this very request
	wantedNS int64 // when that request wanted it
	outBase  int64 // bytes sent on the connection before this request
	writeErr error // of the writer's side
	readErr  error // of the reader's side: the connection's own failure
	madeNS   int64 // when it was made
	finished int32 // the receiver's: the request whose reply has ended
	dataNS   int64 // the receiver's: the instant of what it read last
	lags     *lags // the receiver's

	over     int32 // the watchdog's: the request that it found over a limit …
	overCame int64 // … and what had come on the connection by then, bytes

	startedNS  atomic.Int64 // when the current request was written; for the watchdog
	lastReadNS atomic.Int64 // when bytes came last; for the watchdog
	flushRest  func()       // c.flush, bound once
}

const noRequest = -1

// The receiver of a connection: a loop, or a goroutine of its own. Whoever takes it from byEpoll by compare-and-swap owns the
// receiver's part of the connection; byGoroutine is for good.
const (
	byGoroutine uint32 = iota // a goroutine
	byEpoll                   // a loop, once there is something to read
	inEpoll                   // a loop reads it now
)

func newConn(r *Run, p *pool, s *wire.Socket) *conn {
	c := &conn{pool: p, run: r, sock: s, finished: noRequest, over: noRequest, madeNS: r.clock.Now()}
	c.request.Store(noRequest)
	c.response.backend, c.response.stream, c.response.secrets = r.cfg.Backend, r.cfg.Stream, r.cfg.Secrets
	c.response.marks = r.cfg.Backend.Traits().Marks
	c.response.chunks.log, c.response.names = r.cfg.Chunks, &r.instances
	c.response.head.Keep(slices.Concat(r.cfg.InstanceHeaders, gatewayHeaders(), []string{r.cfg.Backend.Traits().CountHeader})...)
	c.response.large, c.response.events.Memory = &r.large, &c.response
	c.flushRest = c.flush
	return c
}

// start claims the connection, which is in state from, for request i and writes its image, on the calling thread and
// without blocking. False: somebody else has it, or it died; nothing was sent.
func (c *conn) start(i int32, from uint32) bool {
	if !c.state.CompareAndSwap(from, claimed) {
		return false
	}
	c.carry(i, from, c.run.clock.Now())
	c.state.Store(busy)
	r := c.run
	rec := &r.records[i]
	all, err := c.sock.Send(r.bytesOf(i, c.fresh))
	if c.sock.SentNS() != wire.NotYet {
		rec.SentNS, rec.ConnWaitNS = c.sock.SentNS(), 0
		if c.fresh {
			rec.ConnWaitNS = rec.SentNS - c.wantedNS
		}
	}
	rec.WrittenFirstBytes = c.sock.FirstOut()
	r.sent.Add(1)
	if err == nil && !all {
		r.partialWrites.Add(1)
		r.workers.do(c.flushRest)
		return true
	}
	if c.writeErr = err; err == nil {
		r.wholeWrites.Add(1)
		rec.WrittenNS = r.clock.Now()
	}
	c.endWrite()
	return true
}

// carry makes a claimed connection ready for request i, to be written at atNS.
func (c *conn) carry(i int32, from uint32, atNS int64) {
	c.startedNS.Store(atNS) // before the request: the watchdog must not hold an earlier one's age against it
	c.lastReadNS.Store(atNS)
	c.request.Store(i)
	c.sides.Store(2)
	c.fresh, c.outBase = from == opening, c.sock.BytesOut()
	c.writeErr, c.readErr = nil, nil
	c.noFlush.Store(false)
}

// errUnwanted ends the writer's side of a request whose reply was over before its image was written.
var errUnwanted = errors.New("the reply ended before the request was written")

// flush writes what the kernel did not take at once. It blocks, on a worker. A deadline that was meant for an earlier
// request of the connection is ignored.
func (c *conn) flush() {
	c.writeErr = errUnwanted
	for !c.noFlush.Load() {
		c.writeErr = c.sock.Flush()
		if !errors.Is(c.writeErr, os.ErrDeadlineExceeded) || c.cancelReason() != notCancelled {
			break
		}
		c.sock.Resume()
	}
	if c.writeErr == nil {
		c.run.records[c.request.Load()].WrittenNS = c.run.clock.Now()
	}
	c.endWrite()
}

// endWrite ends the writer's side of the request: its bytes are no longer needed.
func (c *conn) endWrite() {
	c.run.work.Prebuilt.Wrote(c.request.Load())
	c.endSide()
}

// endSide is called once by each side of a request; the last one completes it.
func (c *conn) endSide() {
	if c.sides.Add(-1) == 0 {
		c.run.complete(c)
	}
}

// readInGoroutine starts a receiver of c's own; first, unless nil, is what it does first: false if that ends it.
func (c *conn) readInGoroutine(first func() bool) {
	c.run.receivers.Add(1)
	go c.receive(first)
}

// leaveEpoll takes the connection out of its loop, if it is in one and not being read this moment.
func (c *conn) leaveEpoll() {
	if c.receiver.CompareAndSwap(byEpoll, byGoroutine) {
		c.readInGoroutine(nil)
	}
}

// receive is a receiver: it reads, stamps and parses until the connection ends.
func (c *conn) receive(first func() bool) {
	defer c.run.receivers.Done()
	c.lags = new(lags)
	defer c.run.lags.take(c.lags)
	if first != nil && !first() {
		return
	}
	for c.step(c.read()) {
	}
}

// step takes what a read has brought, and waits where that is not the reply of a request. False: the connection is over.
func (c *conn) step(b []byte, atNS int64, err error) bool {
	return c.untilAwaiting() && (!c.onRead(b, atNS, err) || c.answered())
}

// endMayWait tells whether answered may have to wait for the lanes' process: for the end of its write, or to tell it that the
// connection is closed.
func (c *conn) endMayWait() bool {
	return !c.staysOpen() || c.beingWritten()
}

// staysOpen tells whether the reader's side finds the connection of use for another request.
func (c *conn) staysOpen() bool {
	return c.response.reusable && c.cancelReason() == notCancelled && c.run.needsConnections()
}

// answered ends the reader's side of a request whose reply has ended. False: the connection is over.
func (c *conn) answered() bool {
	c.finished = c.request.Load()
	c.settleSlot(c.finished)
	c.response.freeBuffers()
	reusable := c.response.reusable
	if !reusable {
		c.endFlush()
	}
	c.endSide()
	return reusable
}

// read returns the next bytes and their instant: the kernel's, or else that after the read. A deadline that was meant for
// an earlier request of the connection is ignored.
func (c *conn) read() ([]byte, int64, error) {
	if c.buf == nil {
		c.buf = make([]byte, readBuffer)
	}
	if c.response.lent {
		c.run.large.wait(&c.response, func() bool { return c.cancelReason() != notCancelled })
	}
	for {
		n, err := c.sock.Read(c.buf)
		at := c.noteRead(n)
		if n > 0 {
			return c.buf[:n], at, nil // an error comes again with the next read
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.cancelReason() != notCancelled || c.state.Load() == dead {
			return nil, at, err
		}
		c.sock.Resume()
	}
}

// noteRead is called after each read, which returned n bytes, and returns their instant.
func (c *conn) noteRead(n int) (atNS int64) {
	at, now := c.instants(n)
	c.lastReadNS.Store(now)
	if n > 0 {
		c.response.readNS = now
	}
	return at
}

// busyWith returns the request that the connection carries. False: it carries none, or is about to change it.
func (c *conn) busyWith() (i int32, ok bool) {
	// The request is read before the state, and again after it: busy is then that request's, not another one's.
	i = c.request.Load()
	return i, c.state.Load() == busy && c.request.Load() == i
}

// awaiting tells whether a request on the connection has left and still lacks its reply.
func (c *conn) awaiting() bool {
	i, ok := c.busyWith()
	return ok && i != c.finished && c.sent(i)
}

// untilAwaiting is asked after each read and waits until the connection is awaiting a reply: true; or dead: false. What comes
// without a request means that the connection has ended, and kills it. What comes after a reply means the same: the writer's
// side is told so, and waited for.
func (c *conn) untilAwaiting() bool {
	for ; ; runtime.Gosched() {
		i, ok := c.busyWith()
		switch state := c.state.Load(); {
		case ok && i != c.finished:
			if c.sent(i) {
				return true
			}
			if c.unassign(i) {
				return false
			}
			// Else the lane is writing, or the replay takes the request back.
		case ok:
			c.endFlush()
		case state == dead:
			return false
		case state == opening || state == idle:
			if c.state.CompareAndSwap(state, dead) {
				c.closedUnused()
				return false
			}
		}
	}
}

// closedUnused buries a connection that the server closed while no request was on it.
func (c *conn) closedUnused() {
	if c.finished == noRequest && c.run.clock.Now()-c.madeNS < int64(dialLead) {
		c.pool.refused.Store(true) // closed as soon as it was open: dialling more at once would not help
	}
	c.run.closedIdle.Add(1)
	c.closeAndRemove()
}

// bury closes a dead connection and takes it out of the books.
func (c *conn) closeAndRemove() {
	c.sock.Close()
	c.pool.remove(c)
}

// endFlush ends a flush that is still going on: the reply is over, and so is the connection.
func (c *conn) endFlush() {
	c.noFlush.Store(true)
	c.sock.Interrupt()
}

// onRead takes what a read has brought of a reply and reports whether that has ended.
func (c *conn) onRead(b []byte, atNS int64, err error) bool {
	if err != nil {
		return c.readFailed(err, atNS)
	}
	ended, compressed := c.feed(b, atNS)
	if compressed != nil {
		return c.inflate(compressed)
	}
	return ended
}

// feed hands bytes to the reply of the current request.
func (c *conn) feed(b []byte, atNS int64) (ended bool, compressed *inflateSource) {
	c.beginResponse()
	return c.response.feed(b, atNS)
}

func (c *conn) beginResponse() {
	if rec := &c.run.records[c.request.Load()]; c.response.rec != rec {
		c.response.begin(rec)
		c.response.answer.Wanted = c.run.cfg.History.Follows(c.request.Load())
	}
}

// inflate reads the rest of a compressed reply and reports whether it has ended.
func (c *conn) inflate(src *inflateSource) bool {
	at, err := c.response.readInflated(src, c.read)
	return err == nil || errors.Is(err, errResponseEnded) || c.readFailed(err, at)
}

// readFailed ends the reply of a connection that failed, ended or was cut. False: it was nothing after all.
func (c *conn) readFailed(err error, atNS int64) bool {
	c.beginResponse()
	why := c.cancelReason()
	if why == notCancelled && errors.Is(err, os.ErrDeadlineExceeded) {
		c.sock.Resume() // the deadline was an earlier request's, whose end came at the same moment
		return false
	}
	c.readErr = err
	if why != notCancelled {
		c.response.fail(why.outcome(), why.text(c.run))
	} else {
		c.response.broken(err, atNS)
	}
	return true
}

// release gives the connection back to its peer, or closes it.
func (c *conn) release() {
	if c.writeErr == nil && c.staysOpen() {
		c.pool.offer(c, busy)
		return
	}
	c.state.Store(dead)
	c.closeAndRemove()
}

// Resend says when a request that got no byte of an answer is sent once more, on a fresh connection.
type Resend string

// The values of Resend.
const (
	ResendNever  Resend = "never"
	ResendUnread Resend = "unread" // where the server provably did not read it; so does the zero value
	ResendSafe   Resend = "safe"   // also where the server broke off a connection that had waited for a request
)

// Validate says what is wrong with r for an API of the given traits; nil if nothing is.
func (r Resend) Validate(apiName string, t api.Traits) error {
	switch {
	case r != ResendNever && r != ResendUnread && r != ResendSafe:
		return fmt.Errorf("--resend %q: want %s, %s or %s", r, ResendNever, ResendUnread, ResendSafe)
	case r == ResendSafe && t.Stateful:
		return fmt.Errorf("--resend %s: a request of the %s API may change something on the server, so it is not safe to repeat; use %s", r, apiName, ResendUnread)
	}
	return nil
}

// mayResend tells whether the request, which has ended, is to be sent again.
func (c *conn) mayResend() bool {
	how := c.run.cfg.Resend
	if how == ResendNever || c.response.bytesIn > 0 || c.cancelReason() != notCancelled {
		return false
	}
	return c.unread() || how == ResendSafe && c.brokenOff()
}

// brokenOff tells whether the server reset a connection on which it had answered before, and has answered nothing now.
func (c *conn) brokenOff() bool {
	return !c.fresh && c.response.bytesIn == 0 && c.run.records[c.request.Load()].Outcome == record.Reset
}

// unread tells whether the server provably did not read the request: the kernel took no byte of it, or the connection ended in
// good order (a FIN, which acknowledges what came before it) and the peer's kernel acknowledged no byte of it. A reset proves
// nothing: with the request unread in the server's kernel, or read and acted upon, TCP_INFO says the same here (none acknowledged,
// all in SIOCOUTQ; 400 of 400 each, Linux 6.18), since acknowledgements are delayed by up to 40 ms. Where the system cannot tell
// what was acknowledged, a connection that had been idle gets the benefit of the doubt.
func (c *conn) unread() bool {
	if c.sock.BytesOut() == c.outBase {
		return c.writeErr != nil && !errors.Is(c.writeErr, errSenderGone)
	}
	ended := errors.Is(c.readErr, io.EOF) || errors.Is(c.readErr, io.ErrUnexpectedEOF)
	// A reset that the writer met first looks like an end to the reader; after a FIN the writer meets EPIPE instead.
	if !ended || errors.Is(c.writeErr, syscall.ECONNRESET) {
		return false
	}
	acked, known := c.sock.Acked()
	// The kernel counts the SYN as a byte acknowledged.
	return known && acked <= c.outBase+1 || !known && !c.fresh
}

// countBytes completes the record with what went over the connection.
func (c *conn) countBytes(rec *record.Record) {
	rec.BytesSent = c.sock.BytesOut() - c.outBase
	rec.BytesReceived = c.response.bytesIn
}
