package engine

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Config describes how a run sends and receives. Timeout, IdleTimeout and ConnectTimeout must be positive.
type Config struct {
	Backend        api.Backend
	Stream         bool // the request asks for a stream
	Timeout        time.Duration
	IdleTimeout    time.Duration
	ConnectTimeout time.Duration
	Grace          time.Duration // how long a stopped run waits for what is in flight
	// since instant 0: then requests in flight are cancelled, and the others are not sent; 0 = never
	CancelAfter time.Duration
	Realtime    sched.Realtime
	Spin        time.Duration // see sched.NewWaiter
	Senders     int           // how many threads send, at most MaxSenders; 0 = 1
	TLS         *tls.Config   // for https targets
	// starts a process that calls ServeSender; nil = senders are threads of this process
	SenderCommand   []string
	Resend          Resend           // when a request is sent once more
	Descriptors     int              // how many sockets the process may open
	Secrets         *redact.Redactor // hides credentials in what servers answer
	Stamps          wire.Stamps      // those that wire.ProbeStamps found to work
	InstanceHeaders []string         // response headers that may name the instance; the first that is present counts
	// path, in an answer's JSON, of the field that names the instance; nil = the API's own
	InstanceField []string
	LagBounded    bool             // somebody has bounded how late reads may be: no reader pauses
	History       *history.History // puts answers into later turns; nil = all is sent as recorded
	Chunks        *ChunkLog        // takes the instants of each token chunk; nil = not kept
	// called once, with the cause, if the sender process dies during the run, which then stops; may be nil
	OnSenderDeath func(string)
	// called once, when all that prepares has ended: the barrier is when it returns; may be nil
	OnPrepared func()
}

// Sink takes the records of a run, one at a time, in order of completion.
type Sink interface {
	// Record is called by one goroutine, once for each planned request. The record is complete, and valid until it
	// returns.
	Record(r *record.Record, target int)
	// Tick is called by the same goroutine about once a second, and once at the end.
	Tick()
	// Gaps takes the ITLs, ns, of one request that ended ok. Any goroutine may call it; gaps are valid until it
	// returns.
	Gaps(target int, gapsNS []int64, moved []metrics.LateReadGap)
}

// Run is one replay. Make it with New, call Do once.
type Run struct {
	cfg          Config
	work         *workload.Work
	sink         Sink
	clock        *sched.Monotonic
	startAt      time.Time // instant 0; zero = soon after Do begins
	joinLate     bool      // if it is over, send what is still to come
	pacer        *pacer
	lateRouter   *lateRouter // nil if each request's endpoint is known before the run
	idealOrder   *idealOrder // nil if what is expected of caches is known before the run
	records      records
	pools        []*pool
	poolsOf      [][]*pool              // by target
	table        []atomic.Pointer[conn] // connections of all endpoints, by place
	workers      *workers
	epollReaders epollReaders
	dialer       *dialer
	process      *senderProcess // the senders in a process of their own; nil = they are threads of this process
	processErr   error          // why there is no sender process
	died         string         // how the sender process died; "" = it did not. Read it after Do
	receivers    sync.WaitGroup

	began       atomic.Bool // the clock counts from instant 0
	stop        atomic.Bool // nothing more is released
	interrupted atomic.Bool // because somebody stopped the run
	endedEarly  atomic.Bool // because EndEarly was called
	expired     atomic.Bool // requests in flight were cancelled since their time was over
	// why a primer failed, after which nothing more is released; nil if none has
	primerFailed atomic.Pointer[string]
	ctx          context.Context    // ends when requests in flight are to be cancelled
	abort        context.CancelFunc // ends ctx

	recorded  []bool // requests whose records the sink has; of the goroutine that calls it
	firstOpen int    // those before it are recorded; likewise

	left    atomic.Int64 // requests without a final record
	done    chan int32   // finished requests; room for all, so that sending never blocks
	allDone chan struct{}

	instances instanceNames
	large     largeBuffers // of answers

	wall    atomic.Pointer[sched.Wall] // converts the kernel's stamps; nil before Do and if there are none
	readLag readLagTotal

	flushing atomic.Int64 // partial writes that have not ended

	ring     *wire.Ring // nil = none
	ringLost int64      // segments that found no room in it

	closingRace, keptAtLeast time.Duration // the constants

	ahead aheadBuilder // builds during the run what did not fit into memory

	usedBefore    atomic.Pointer[host.Usage] // by this process before the run, or its preparation's end
	placement     sched.Placement
	spins         []time.Duration // of the senders that are threads of this process, once they have ended
	senderThreads []int           // ids of the senders that are threads of this process
	machine       *host.Watch     // nil before Do, and if nothing was sent
	servers       *host.Servers   // on this machine; nil before Connect, and if there are none
	sent          atomic.Int64
	finishedOK    atomic.Int64
	failed        atomic.Int64
	unsentFailed  atomic.Int64
	resent        atomic.Int64
	dialled       atomic.Int64
	// requests sent late because no connection was idle; 0 in a closed loop, which has no deadlines
	notReady      atomic.Int64
	closedIdle    atomic.Int64
	closedEarly   atomic.Int64 // connections that the server closed although an answer had just announced to keep them
	noResources   atomic.Int64 // requests that failed since this machine had nothing for a connection
	wholeWrites   atomic.Int64
	partialWrites atomic.Int64
	endNS         atomic.Int64 // when the last request ended

	leftOutMu sync.Mutex
	leftOut   []int32 // requests that nobody released, in ascending order; written before the run ends
}

// poolOf returns the pool of the endpoint that request i goes to, once that is known.
func (r *Run) poolOf(i int32) *pool {
	place := r.work.Places[i]
	return r.poolsOf[place.Target][place.Endpoint]
}

// connOf returns the connection that was assigned to s.
func (r *Run) connOf(s *slot) *conn {
	return r.table[uint32(s.conn.Load())].Load()
}

// isPlaced reports whether the endpoint of request i is known.
func (r *Run) isPlaced(i int32) bool { return r.lateRouter == nil || r.recordOf(i).Target != "" }

// targetOf returns the index of request i's target; -1 if the request never got one.
func (r *Run) targetOf(i int32) int {
	if !r.isPlaced(i) {
		return -1
	}
	return r.work.Places[i].Target
}

// bytesOf returns what is written for request i: the bytes of its live history, or else the arena's. If the
// connection was dialled for the request (fresh), a ring may have overwritten its bytes, so bytesOf builds them
// again.
func (r *Run) bytesOf(i int32, fresh bool) gather.List {
	if b := r.cfg.History.Bytes(i); b != nil {
		return gather.Of(b)
	}
	if fresh && r.work.Prebuilt.InRing() {
		r.work.Prebuilt.MarkUnneeded(i)
		return gather.Of(r.work.Prebuilt.Whole(int(i)))
	}
	return r.work.Prebuilt.List(int(i))
}

// sidesEnded ends the request on c, which was sent. The side of the request that ends last calls it, once.
func (r *Run) sidesEnded(c *conn) {
	i := c.request.Load()
	rec := r.recordOf(i)
	rec.BytesSent = c.sock.BytesOut() - c.outBase
	rec.BytesReceived = c.response.bytesIn
	if c.brokenOff() {
		c.noteClosed(c.startedNS.Load())
	}
	if rec.Resent == 0 && c.mayResend() {
		r.resend(i, c)
		return
	}
	advise := r.cfg.Resend != ResendNever && r.cfg.Resend != ResendSafe
	if advise && rec.Resent == 0 && c.brokenOff() {
		rec.Error += "; the connection had waited for the request: --resend safe sends such a request again"
	}
	c.stampSent(rec)
	c.response.chunks.flush()
	if rec.Outcome == record.OK && len(c.response.gaps) > 0 {
		r.sink.Gaps(c.pool.target, c.response.gaps, c.response.moved)
	}
	r.cfg.History.Answered(i, rec, &c.response.answer)
	c.response.rec = nil // or the connection would keep all records
	c.release()
	r.endRequest(i)
}

// resend sends request i again, on a new connection.
func (r *Run) resend(i int32, c *conn) {
	r.recordOf(i).Resent = 1
	r.closedIdle.Add(1)
	r.resent.Add(1)
	p := c.pool
	c.release()
	r.sendLate(i, p)
}

// fail ends request i, of which no byte was sent, or none in another attempt.
func (r *Run) fail(i int32, o record.Outcome, why string) {
	if r.recordOf(i).Resent > 0 {
		r.failAgain(i, why)
		return
	}
	r.recordOf(i).Outcome = o
	r.recordOf(i).Error = why
	r.endRequest(i)
}

// failAgain ends request i, whose other attempt could not be sent: what its record has of the first one stands.
func (r *Run) failAgain(i int32, why string) {
	rec := r.recordOf(i)
	rec.Resent = 0
	rec.Error += "; another attempt failed: " + why
	r.resent.Add(-1)
	r.endRequest(i)
}

// endRequest passes the final record of request i to recordAll, and lets the pacer release the requests that waited
// for it.
func (r *Run) endRequest(i int32) {
	r.work.Prebuilt.MarkUnneeded(i)
	if r.lateRouter != nil && r.isPlaced(i) {
		r.poolOf(i).endRequest(r.recordOf(i).Outcome)
	}
	now := r.clock.Now()
	rec := r.recordOf(i)
	if rec.SentNS != record.None && rec.DoneNS == record.None { // no answer ended it
		rec.DoneNS = now
	}
	endedNS := now // what waits for the request counts from its end, however late that was seen
	if rec.DoneNS != record.None {
		endedNS = min(now, rec.DoneNS)
	}
	lost := r.afterFailure(i)
	r.cfg.History.Note(i, rec)
	r.cfg.History.Ended(r.clock, i)
	for {
		end := r.endNS.Load()
		if now <= end || r.endNS.CompareAndSwap(end, now) {
			break
		}
	}
	r.done <- i
	r.countEnded(1)
	r.pacer.requestEnded(i, endedNS)
	for _, k := range lost {
		row := r.recordOf(i).Row
		why := fmt.Sprintf("the context of row %d was too long for the server, %s", row, record.StreamEndedWords)
		r.fail(k, record.NotSent, why)
	}
}

// afterFailure ends what the failure of request i ends, if it has failed. That is the run, or its stream, whose
// requests are returned and must be ended.
func (r *Run) afterFailure(i int32) (lost []int32) {
	rec := r.recordOf(i)
	switch {
	case rec.ContextTooLong():
		return r.pacer.cutStream(i)
	case rec.Phase == record.Primer && rec.Outcome != record.OK && !rec.LeftOut() && !r.stop.Load():
		why := fmt.Sprintf("a primer failed: row %d, %v: %s", rec.Row, rec.Outcome, rec.Error)
		r.primerFailed.Store(&why)
		r.Stop()
	}
	return nil
}

// countEnded counts n requests as ended.
func (r *Run) countEnded(n int64) {
	if n > 0 && r.left.Add(-n) == 0 {
		close(r.allDone)
	}
}

// skip takes requests out of the run: nobody has released them before the plan's time was over, or EndEarly was called.
func (r *Run) skip(requests []int32) {
	r.leftOutMu.Lock()
	r.leftOut = append(r.leftOut, requests...)
	slices.Sort(r.leftOut)
	r.leftOutMu.Unlock()
	r.countEnded(int64(len(requests)))
}

// Stop ends the release of requests. Requests in flight may end within the grace period. It may be called at any time.
func (r *Run) Stop() {
	r.stop.Store(true)
	if !r.interrupted.Swap(true) {
		time.AfterFunc(r.cfg.Grace, r.Abort)
	}
}

// EndEarly ends the release of requests as the end of the plan's time does: those that are not released are no part of
// the run. Requests in flight may end; if the run is lost, within the grace period. It may be called at any time; only
// the first call counts.
func (r *Run) EndEarly(lost bool) {
	if r.interrupted.Load() || r.endedEarly.Swap(true) {
		return
	}
	r.stop.Store(true)
	if lost {
		time.AfterFunc(r.cfg.Grace, r.expire)
	}
}

// Abort ends the release of requests and cancels those in flight, within a tick of the watchdog. It may be called at
// any time.
func (r *Run) Abort() {
	r.stop.Store(true)
	r.interrupted.Store(true)
	r.abort()
}

// expire is Abort when the time of requests in flight is over, if there are any: those that it ends were not
// interrupted.
func (r *Run) expire() {
	if r.left.Load() == 0 {
		return
	}
	if !r.interrupted.Load() {
		r.expired.Store(true)
	}
	r.stop.Store(true)
	r.abort()
}

// aborted reports whether requests in flight are to be cancelled.
func (r *Run) aborted() bool { return r.ctx.Err() != nil }

// notItsTime returns why a request of a stopped run was not sent.
func (r *Run) notItsTime() string {
	if why := r.primerFailed.Load(); why != nil {
		return *why
	}
	if r.expired.Load() {
		return "the run's time was over first"
	}
	return "the run was interrupted before its time"
}

// needsBytes reports whether the arena must still hold request i.
func (r *Run) needsBytes(i int) bool {
	if r.work.Prebuilt.Unneeded(i) {
		return false
	}
	return r.process == nil || r.process.slots[i].state.Load() != slotWhole
}
