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
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// The states of a connection. Whoever takes it out of opening or idle by compare-and-swap owns it. A sender claims
// it, fills in the request and makes it busy. A receiver that finds it closed makes it dead. The side of a request
// that ends last takes it from busy to idle or dead.
const (
	opening uint32 = iota // just dialled, not yet offered
	idle                  // its receiver waits, no request on it
	claimed               // about to be busy, for nanoseconds
	busy                  // it carries a request
	dead                  // closed
)

// readBuffer is the size of a read: a few dozen events of a busy stream. Each epoll reader has one buffer, and so has
// each receiver that is a goroutine: 10,000 of them take 160 MB.
const readBuffer = 16 << 10

// conn is one connection with its receiver. Between requests it belongs to its pool. While it is busy its request has
// two sides. The writer is a sender, a worker that sends late, or a flush. The reader is the receiver.
type conn struct {
	id       uint32 // place in the pool's table
	key      uint64 // names it for the sender process and the epoll reader
	linkSeq  int64  // how many messages the sender process must have taken before it has the descriptor
	pool     *pool
	run      *Run
	sock     *wire.Socket
	response response
	buf      []byte // of a receiver that is a goroutine; made with its first read

	state   atomic.Uint32
	request atomic.Int32 // the request it carries, or carried last
	sides   atomic.Int32 // sides of the request still at work
	// the watchdog's decision: its request + 1, <<8, and the reason, so that it never ends a later request; 0 = none
	cancelled atomic.Int64
	noFlush   atomic.Bool   // set by the reader's side: the rest of the request need not be written
	receiver  atomic.Uint32 // byGoroutine, byEpoll or inEpoll

	fresh     bool     // dialled for the current request
	wantedNS  int64    // when that request needed it
	outBase   int64    // bytes sent on the connection before this request
	writeErr  error    // of the writer's side
	readErr   error    // of the reader's side: the connection's own failure
	madeNS    int64    // when it was made
	finished  int32    // the receiver's: the request whose response has ended
	dataNS    int64    // the receiver's: the instant of its last read
	drainedNS int64    // the receiver's: when a read took all that had come
	readLag   *readLag // the receiver's
	arrived   []wire.Arrival
	parts     []part // of the last read, if the ring has seen that they came apart
	full      fullBuffer
	small     smallSegments

	over     int32 // the watchdog's: the request that was over a limit at its last look …
	overCame int64 // … and how many bytes had arrived by then

	startedNS  atomic.Int64 // when the current request was written; for the watchdog
	lastReadNS atomic.Int64 // when bytes arrived last, of this request or an earlier one; for the watchdog
	flushRest  func()       // c.flush, bound once
}

const noRequest = -1

// The receiver of a connection is an epoll reader or a goroutine. Whoever takes it from byEpoll by compare-and-swap
// owns the receiver's part of the connection; byGoroutine is final.
const (
	byGoroutine uint32 = iota // a goroutine
	byEpoll                   // an epoll reader, when there is something to read
	inEpoll                   // an epoll reader, which reads it now
)

func newConn(r *Run, p *pool, s *wire.Socket) *conn {
	c := &conn{
		pool:     p,
		run:      r,
		sock:     s,
		finished: noRequest,
		over:     noRequest,
		madeNS:   r.clock.Now(),
	}
	c.request.Store(noRequest)
	c.response.backend = r.cfg.Backend
	c.response.stream = r.cfg.Stream
	c.response.secrets = r.cfg.Secrets
	c.response.marks = r.cfg.Backend.Traits().Marks
	c.response.chunks.log = r.cfg.Chunks
	c.response.names = &r.instances
	c.response.head.Keep(slices.Concat(
		r.cfg.InstanceHeaders,
		gatewayHeaders(),
		[]string{r.cfg.Backend.Traits().CountHeader, prefillHeader},
	)...)
	c.response.large = &r.large
	c.response.events.Memory = &c.response
	c.flushRest = c.flush
	return c
}

// start claims the connection, which is in state from, for request i and writes the request, on the calling thread
// and without blocking. If somebody else has the connection, or it died, start sends nothing and returns false.
func (c *conn) start(i int32, from uint32) bool {
	if !c.state.CompareAndSwap(from, claimed) {
		return false
	}
	c.beginRequest(i, from, c.run.clock.Now())
	c.state.Store(busy)
	r := c.run
	rec := r.recordOf(i)
	all, err := c.sock.Send(r.bytesOf(i, c.fresh))
	if c.sock.SentNS() != wire.NotYet {
		rec.SentNS, rec.ConnWaitNS = c.sock.SentNS(), 0
		if c.fresh {
			rec.ConnWaitNS = rec.SentNS - c.wantedNS
		}
	}
	rec.WrittenFirstBytes = c.sock.FirstOut()
	r.sent.Add(1)
	switch c.writeErr = err; {
	case err != nil:
	case all:
		r.wholeWrites.Add(1)
		rec.WrittenNS = r.clock.Now()
	default:
		r.partialWrites.Add(1)
	}
	if c.sock.SentNS() != wire.NotYet {
		r.pacer.requestSent(i, c.sock.SentNS())
	}
	if err == nil && !all {
		c.flushSoon()
		return true
	}
	c.endWrite()
	return true
}

// beginRequest makes a claimed connection ready for request i, to be written at atNS.
func (c *conn) beginRequest(i int32, from uint32, atNS int64) {
	// before the request, so that the watchdog does not take the age of an earlier one for this one's
	c.startedNS.Store(atNS)
	c.response.firstNS.Store(record.None)
	c.request.Store(i)
	c.sides.Store(2)
	c.fresh, c.outBase = from == opening, c.sock.BytesOut()
	c.writeErr = nil
	c.readErr = nil
	c.sock.Expect()
	c.noFlush.Store(false)
}

// errUnwanted ends the writer's side of a request whose response ended before the request was written.
var errUnwanted = errors.New("the response ended before the request was written")

// flushSoon makes a worker write what the kernel did not take at once. Until it has, no reader pauses: the worker waits
// for its events.
func (c *conn) flushSoon() {
	c.run.flushing.Add(1)
	c.run.epollReaders.hurry()
	c.run.workers.do(c.flushRest)
}

// flush writes what the kernel did not take at once. It blocks, on a worker. A deadline that was meant for an earlier
// request of the connection is ignored.
func (c *conn) flush() {
	defer c.run.flushing.Add(-1)
	c.writeErr = errUnwanted
	for !c.noFlush.Load() {
		c.writeErr = c.sock.Flush()
		if !errors.Is(c.writeErr, os.ErrDeadlineExceeded) || c.cancelReason() != notCancelled {
			break
		}
		c.sock.Resume()
	}
	if c.writeErr == nil {
		c.run.recordOf(c.request.Load()).WrittenNS = c.run.clock.Now()
	}
	c.endWrite()
}

// endWrite ends the writer's side of the request: its bytes are no longer needed.
func (c *conn) endWrite() {
	c.run.work.Prebuilt.MarkUnneeded(c.request.Load())
	c.endSide()
}

// endSide is called once by each side of a request; the last one completes it.
func (c *conn) endSide() {
	if c.sides.Add(-1) == 0 {
		c.run.sidesEnded(c)
	}
}

// readInGoroutine starts a goroutine as c's receiver. If first is not nil, the goroutine calls it first, and ends if
// it returns false.
func (c *conn) readInGoroutine(first func() bool) {
	c.run.receivers.Add(1)
	go c.receive(first)
}

// receive reads, stamps and parses until the connection ends, or first returns false.
func (c *conn) receive(first func() bool) {
	defer c.run.receivers.Done()
	c.readLag = new(readLag)
	defer c.run.readLag.take(c.readLag)
	if first != nil && !first() {
		return
	}
	for c.step(c.read()) {
	}
}

// step processes the result of a read. If no request awaits a response, it waits for one. False: the connection is
// over.
func (c *conn) step(b []byte, atNS int64, err error) bool {
	return c.untilAwaiting() && (!c.onRead(b, atNS, err) || c.answered())
}

// staysOpen reports whether the connection may carry another request, as far as the reader's side knows.
func (c *conn) staysOpen() bool {
	if !c.response.reusable || c.pool.unkept.Load() {
		return false
	}
	return c.cancelReason() == notCancelled && c.run.left.Load() > 1 // else no later request needs it
}

// answered ends the reader's side of a request whose response has ended. False: the connection is over.
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

// read returns the next bytes and their instant: the kernel's, or else that after the read. It ignores a deadline
// that was meant for an earlier request of the connection.
func (c *conn) read() ([]byte, int64, error) {
	if c.buf == nil {
		c.buf = make([]byte, readBuffer)
	}
	if c.response.loans.lent {
		c.run.large.wait(&c.response.loans, func() bool { return c.cancelReason() != notCancelled })
	}
	for {
		n, err := c.sock.Read(c.buf)
		c.readLag.note(c.run)
		at := c.noteRead(n)
		if n > 0 {
			return c.buf[:n], at, nil // the next read returns the error again
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.cancelReason() != notCancelled || c.state.Load() == dead {
			return nil, at, err
		}
		c.sock.Resume()
	}
}

// noteRead notes a read of n bytes, which has just ended, and returns their instant.
func (c *conn) noteRead(n int) (atNS int64) {
	at, now := c.instants(n)
	c.lastReadNS.Store(now)
	if n > 0 {
		c.response.readNS = now
	}
	return at
}

// busyWith returns the request that the connection carries; false if it carries none, or is about to change it.
func (c *conn) busyWith() (i int32, ok bool) {
	// The request is read before the state and after it: if both are equal, the state is that request's.
	i = c.request.Load()
	return i, c.state.Load() == busy && c.request.Load() == i
}

// awaiting reports whether a request on the connection has been sent and its response has not ended.
func (c *conn) awaiting() bool {
	i, ok := c.busyWith()
	return ok && i != c.finished && c.sent(i)
}

// untilAwaiting is called after each read. It returns true when the connection awaits a response, and false when it
// is dead. If no request was sent, what was read means that the connection has ended, so untilAwaiting makes it dead.
// After a response it means the same: then untilAwaiting ends the writer's side and waits for it.
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
			// Else the sender is writing, or the replay takes the request back.
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

// closedUnused removes a connection that the server closed while no request was on it. It also removes one that the
// watchdog has interrupted for a request whose answer came at that moment.
func (c *conn) closedUnused() {
	if c.finished == noRequest && c.run.clock.Now()-c.madeNS < int64(dialLead) {
		c.pool.refused.Store(true) // the server closed it as soon as it was open: dialling more at once would not help
	}
	if c.cancelReason() == notCancelled {
		c.noteClosed(c.run.clock.Now())
		c.run.closedIdle.Add(1)
	}
	c.closeAndRemove()
}

// keptAtLeast is less than any server's keep-alive timeout: gunicorn's is 2 s, and uvicorn's, Node's and llama.cpp's
// are 5 s.
const keptAtLeast = time.Second

// noteClosed notes that the server closed the connection, on which nothing was sent until atNS. If an answer that
// announced to keep the connection had just ended, the pool reuses none any more: llama.cpp closes after each stream.
func (c *conn) noteClosed(atNS int64) {
	answeredNS := c.response.readNS
	if answeredNS == 0 || atNS-answeredNS > int64(c.run.keptAtLeast) {
		return
	}
	c.run.closedEarly.Add(1)
	c.pool.endReuse()
}

func (c *conn) closeAndRemove() {
	c.sock.Close()
	c.pool.remove(c)
}

// endFlush ends a flush that still blocks: the response is over, and so is the connection.
func (c *conn) endFlush() {
	c.noFlush.Store(true)
	c.sock.Interrupt()
}

// onRead processes what a read returned of a response, and reports whether the response has ended.
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

// feed passes bytes to the response of the current request.
func (c *conn) feed(b []byte, atNS int64) (ended bool, compressed *inflateSource) {
	c.beginResponse()
	if len(c.parts) > 0 {
		c.response.slackNS = 0
	}
	for k := 0; k+1 < len(c.parts); k++ {
		n := c.parts[k].bytes
		if ended, compressed = c.response.feed(b[:n], c.parts[k].atNS); ended {
			c.response.reusable = false // more has come
			return true, nil
		}
		rest := len(b) - n
		if compressed != nil { // pending is the end of what is before the rest; parts are not told apart
			compressed.pending = compressed.pending[:len(compressed.pending)+rest]
			compressed.nowNS = atNS
			c.response.bytesIn += int64(rest)
			return false, compressed
		}
		b = b[n:]
	}
	return c.response.feed(b, atNS)
}

func (c *conn) beginResponse() {
	if rec := c.run.recordOf(c.request.Load()); c.response.rec != rec {
		c.response.begin(rec)
		c.response.answer.Wanted = c.run.cfg.History.Follows(c.request.Load())
		c.response.forced.begin(c.run.work, c.request.Load())
	}
}

// inflate reads the rest of a compressed response and reports whether it has ended.
func (c *conn) inflate(src *inflateSource) bool {
	at, err := c.response.readInflated(src, c.read)
	return err == nil || errors.Is(err, errResponseEnded) || c.readFailed(err, at)
}

// readFailed ends the response if the connection failed or ended, or if the request was cancelled. It returns false
// if the error was an earlier request's deadline.
func (c *conn) readFailed(err error, atNS int64) bool {
	c.beginResponse()
	why := c.cancelReason()
	if why == notCancelled && errors.Is(err, os.ErrDeadlineExceeded) {
		c.sock.Resume() // the deadline was an earlier request's, which ended at the same moment
		return false
	}
	c.readErr = err
	if why != notCancelled {
		c.response.fail(why.outcome(c.run))
	} else {
		c.response.broken(err, atNS)
	}
	return true
}

// release gives the connection back to its pool, or closes it.
func (c *conn) release() {
	if c.writeErr == nil && c.staysOpen() {
		c.pool.offer(c, busy)
		return
	}
	c.state.Store(dead)
	c.closeAndRemove()
}

// Resend decides whether a request that got no byte of an answer is sent once more, on a new connection.
type Resend string

// The values of Resend.
const (
	ResendNever  Resend = "never"
	ResendUnread Resend = "unread" // if the server provably did not read it; so does the zero value
	ResendSafe   Resend = "safe"   // also if the server broke off a connection that had waited for the request, at once
)

// Validate returns why r does not suit an API of the given traits; nil if it does.
func (r Resend) Validate(apiName string, t api.Traits) error {
	if r == ResendSafe && t.Stateful {
		return fmt.Errorf(
			"--resend %s: a request of the %s API may change something on the server, so it is not safe to repeat; "+
				"use %s",
			r,
			apiName,
			ResendUnread,
		)
	}
	return nil
}

// mayResend reports whether the request, which has ended, is to be sent again.
func (c *conn) mayResend() bool {
	how := c.run.cfg.Resend
	if how == ResendNever || c.response.bytesIn > 0 || c.cancelReason() != notCancelled {
		return false
	}
	return c.unread() || how == ResendSafe && c.brokenOff()
}

// closingRace is how soon after a request a server closes if it had decided so before. It is a round trip, and what a
// busy server takes. Who breaks off later may have worked on the request.
const closingRace = time.Second

// brokenOff reports whether the server closed or reset a connection that had waited for the request, within
// closingRace and without an answer.
func (c *conn) brokenOff() bool {
	if c.fresh || c.response.bytesIn > 0 || c.run.recordOf(c.request.Load()).Outcome != record.Reset {
		return false
	}
	return c.run.clock.Now()-c.startedNS.Load() <= int64(c.run.closingRace)
}

// unread reports whether the server provably did not read the request. Either the kernel took no byte of it. Or the
// connection ended with a FIN, which acknowledges what came before it, and the peer's kernel acknowledged no byte of
// the request. A reset proves nothing. TCP_INFO is the same here whether the request lies unread in the server's
// kernel, or was read and acted upon. None is acknowledged, all is in SIOCOUTQ (400 of 400 each, Linux 6.18).
// Acknowledgements are delayed by up to 40 ms. If the system cannot report what was acknowledged, unread assumes that a
// connection that had been idle was closed before it read the request.
func (c *conn) unread() bool {
	if c.sock.BytesOut() == c.outBase {
		return c.writeErr != nil && !errors.Is(c.writeErr, errSenderGone)
	}
	ended := errors.Is(c.readErr, io.EOF) || errors.Is(c.readErr, io.ErrUnexpectedEOF)
	// If the writer gets a reset first, the reader sees an end; after a FIN the writer gets EPIPE instead.
	if !ended || errors.Is(c.writeErr, syscall.ECONNRESET) {
		return false
	}
	acked, known := c.sock.Acked()
	// The kernel counts the SYN as a byte acknowledged.
	return known && acked <= c.outBase+1 || !known && !c.fresh
}

// errSenderGone ends the writer's side of a request in whose write the sender died: the server may have the request.
const errSenderGone = syscall.ECONNABORTED

// cancelReason is why we end a request in flight.
type cancelReason uint8

const (
	notCancelled cancelReason = iota
	overTimeout
	overIdleTimeout
	runAborted
)

// outcome returns what a record has of a request that was ended for this reason.
func (w cancelReason) outcome(r *Run) (record.Outcome, string) {
	switch {
	case w == overTimeout:
		return record.Timeout, fmt.Sprintf("no end of the response within %v (--timeout)", r.cfg.Timeout)
	case w == overIdleTimeout:
		return record.Timeout, fmt.Sprintf("no byte of the response for %v (--idle-timeout)", r.cfg.IdleTimeout)
	case r.expired.Load():
		return record.Cancelled, "the run's time was over"
	}
	return record.Cancelled, "the run was interrupted"
}

// cancelReason returns why the current request was cancelled; notCancelled if it was not.
func (c *conn) cancelReason() cancelReason {
	code := c.cancelled.Load()
	if code>>8 != int64(c.request.Load())+1 {
		return notCancelled
	}
	return cancelReason(code & 0xff)
}

// cancel ends request i if the connection still carries it. Each sweep calls it again until the request has ended,
// since another goroutine may clear the deadline: it takes it for an earlier request's.
func (c *conn) cancel(i int32, why cancelReason) {
	if c.cancelReason() == notCancelled {
		c.cancelled.Store(int64(i+1)<<8 | int64(why))
	}
	c.sock.Interrupt()
	if c.receiver.CompareAndSwap(byEpoll, byGoroutine) { // and its reader does not read it at this moment
		c.readInGoroutine(nil)
	}
	c.run.large.changed.Broadcast()
}

// isOverdue reports whether the server is the cause if request i is over a limit. It is if all bytes that had arrived
// at the first call for i have been read. If bytes are unread, or read and not looked at, the client is slow.
func (c *conn) isOverdue(i int32) bool {
	came, unread := c.sock.Received()
	if c.over != i {
		c.over = i
		c.overCame = came
		return false
	}
	return came-unread >= c.overCame && c.receiver.Load() != inEpoll
}

// dialLead is how far ahead of their deadlines the dialer has connections ready: many times a round trip between
// continents, TLS included.
const dialLead = 500 * time.Millisecond
