// Package engine replays a plan against real servers. It opens connections ahead of time, sends each request's
// prebuilt bytes at its planned instant, and stamps what comes back.
//
// A program resolves targets and builds the work (package workload), probes the servers (package probe), and then
// calls New and Do. Senders are the threads that send. Each connection has a receiver from when it is dialled. It is
// a goroutine that blocks in a read or, for plain http on Linux, an epoll reader that serves many connections. The
// writer and the reader share a request; the one that ends last completes it. Between a deadline and its write there
// is no channel, map or allocation, and no lock that is contended.
//
// From release to bytes, if a connection is idle (pacer.run calls Run.send):
//
//   - by a thread of this process: Run.send → conn.start → wire.Socket.Send → writeSome → writeOnce → wire.WriteNow →
//     the system call. send gets the connection from choosePool and takeIdle. start claims it and gets the bytes from
//     bytesOf.
//   - by a process of its own: senderChild.sendAll → sendSlot → wire.WriteNow → the system call. The replay has chosen
//     connection and bytes before, in senderProcess.assignOne → conn.assign.
//
// The package does not know trace formats, the meaning of a backend's JSON, or how results look on disk or screen.
//
// The package is not an API: any release may change it.
package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
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
	History       *history.History // puts answers into later turns; nil = all is sent as recorded
	Chunks        *ChunkLog        // takes the instants of each token chunk; nil = not kept
	// called once, with the cause, if the sender process dies during the run, which then stops; may be nil
	OnSenderDeath func(string)
}

// Sink takes the records of a run, one at a time, in order of completion.
type Sink interface {
	// Record is called by one goroutine, once for each planned request. The record is complete and never changes again.
	Record(r *record.Record, target int)
	// Tick is called by the same goroutine about once a second, and once at the end.
	Tick()
	// Gaps takes the ITLs, ns, of one request that ended ok. Any goroutine may call it; gaps are valid until it
	// returns.
	Gaps(target int, gapsNS []int64, moved []metrics.LateReadGap)
}

// Run is one replay. Make it with New, call Do once.
type Run struct {
	cfg           Config
	work          *workload.Work
	sink          Sink
	clock         *sched.Monotonic
	startAt       time.Time // instant 0; zero = soon after Do begins
	joinLate      bool      // if it is over, send what is still to come
	pacer         *pacer
	leastInFlight *leastInFlight // nil if each request's endpoint is known before the run
	records       []record.Record
	pools         []*pool
	poolsOf       [][]*pool              // by target
	table         []atomic.Pointer[conn] // connections of all endpoints, by place
	workers       *workers
	epollReaders  epollReaders
	dialer        *dialer
	process       *senderProcess // the senders in a process of their own; nil = they are threads of this process
	processErr    error          // why there is no sender process
	died          string         // how the sender process died; "" = it did not. Read it after Do
	receivers     sync.WaitGroup

	began   atomic.Bool        // the clock counts from instant 0
	stop    atomic.Bool        // nothing more is released
	expired atomic.Bool        // because Config.CancelAfter is over
	ctx     context.Context    // ends when requests in flight are to be cancelled
	abort   context.CancelFunc // ends ctx

	recorded  []bool // requests whose records the sink has; of the goroutine that calls it
	firstOpen int    // those before it are recorded; likewise

	left    atomic.Int64 // requests without a final record
	done    chan int32   // finished requests; room for all, so that sending never blocks
	allDone chan struct{}

	instances instanceNames
	large     largeBuffers // of answers

	wall    atomic.Pointer[sched.Wall] // converts the kernel's stamps; nil before Do and if there are none
	readLag readLagTotal

	closingRace, keptAtLeast time.Duration // the constants

	// with a ring of requests: what was built before the run, and in each step during it; the builder's own
	batches []batch

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
	leftOut       []int32      // requests that nobody released, in ascending order; written before the run ends
}

// New prepares a run of work; without ideal hits its records expect none.
func New(cfg Config, work *workload.Work, runID string, ideal workload.IdealHits, sink Sink) *Run {
	r := &Run{
		cfg:         cfg,
		work:        work,
		sink:        sink,
		clock:       sched.NewMonotonic(),
		closingRace: closingRace,
		keptAtLeast: keptAtLeast,
		records:     work.Records(runID, ideal, cfg.Backend),
		workers:     newWorkers(),
		done:        make(chan int32, work.Requests()),
		allDone:     make(chan struct{}),
		recorded:    make([]bool, work.Requests()),
	}
	r.pacer = newPacer(work.Plan, r.clock, &r.stop, r.send)
	if r.cfg.OnSenderDeath == nil {
		r.cfg.OnSenderDeath = func(string) {}
	}
	r.instances.secrets = cfg.Secrets
	r.instances.headers, r.instances.field = len(cfg.InstanceHeaders), cfg.InstanceField
	r.left.Store(int64(work.Requests()))
	r.ctx, r.abort = context.WithCancel(context.Background())
	r.readLag.lag = metrics.NewHistogram()
	r.large.mapped = map[*byte]bool{}
	r.large.changed.L = &r.large.mu
	r.addPools()
	r.leastInFlight = newLeastInFlight(work, r.pools)
	r.dialer = &dialer{
		run:    r,
		pause:  dialPause,
		paused: make([]time.Time, len(r.pools)),
		needs:  make([]int64, len(r.pools)),
	}
	if len(cfg.SenderCommand) > 0 {
		if r.processErr = whyNoSenderProcess(work, cfg.History); r.processErr == nil {
			r.process, r.processErr = startSenderProcess(r, cfg.SenderCommand)
		}
	}
	return r
}

// descriptorsKept is how many descriptors remain for files, probes, epoll readers, the watches of senders and control
// groups, and the runtime.
const descriptorsKept = 128

// maxPerPool bounds an endpoint's table: there are no more TCP connections to one address and port than there are
// local ports.
const maxPerPool = math.MaxUint16

func (r *Run) addPools() {
	total := 0
	for _, t := range r.work.Targets {
		total += len(t.Endpoints)
	}
	room := max(1, min(maxPerPool, (r.cfg.Descriptors-descriptorsKept)/total))
	r.table = make([]atomic.Pointer[conn], total*room)
	base := 0
	sendBuffer := 0
	if largest := r.work.Prebuilt.Largest(); largest > systemSendBuffer {
		sendBuffer = largest
	}
	for ti, t := range r.work.Targets {
		d := wire.DialOptions{
			Timeout:    r.cfg.ConnectTimeout,
			ServerName: t.Name,
			SendBuffer: sendBuffer,
			Stamps:     r.cfg.Stamps,
			Epoll:      !t.TLS,
		}
		if t.TLS {
			d.TLS = r.cfg.TLS
		}
		var of []*pool
		for i, addr := range t.Endpoints {
			p := newPool(r, ti, addr, base, room, d)
			p.index = i
			of = append(of, p)
			base += room
		}
		r.poolsOf = append(r.poolsOf, of)
		r.pools = append(r.pools, of...)
	}
}

// systemSendBuffer bounds what the kernel takes at once on a new connection with its default send buffer. It takes 78
// kB at MTU 1500, measured over a veth pair. If requests are larger, connections get a send buffer of the largest
// one's size.
const systemSendBuffer = 64 << 10

// SenderErr returns why the senders have no process of their own, although Config.SenderCommand is set; nil if they
// have one.
func (r *Run) SenderErr() error { return r.processErr }

// Connect dials the connections that the first requests need, and looks for servers on this machine. It returns when
// they are ready, when dialling them has failed, or when ctx ends.
func (r *Run) Connect(ctx context.Context) {
	r.servers = host.FindServers(r.localEndpoints())
	r.dialer.fillFirst(ctx)
}

// localEndpoints are the addresses of targets that are this machine's.
func (r *Run) localEndpoints() []netip.AddrPort {
	own := map[netip.Addr]bool{}
	local := []netip.AddrPort{}
	interfaces, _ := net.InterfaceAddrs() // without them, loopback remains
	for _, of := range interfaces {
		if prefix, err := netip.ParsePrefix(of.String()); err == nil {
			own[prefix.Addr()] = true
		}
	}
	for i := range r.work.Targets {
		for _, at := range r.work.Targets[i].Endpoints {
			address := at.Addr().Unmap().WithZone("")
			at = netip.AddrPortFrom(address, at.Port())
			if (address.IsLoopback() || own[address]) && !slices.Contains(local, at) {
				local = append(local, at)
			}
		}
	}
	return local
}

// startLead is the time between the start of all parts of a run and instant 0.
const startLead = 50 * time.Millisecond

// StartAt makes instant 0 a moment of the wall clock, so that several runs begin together. Call it before Do. If Do
// comes too late, it sends nothing, or with join what is planned from then on.
func (r *Run) StartAt(moment time.Time, join bool) {
	r.startAt = moment
	r.joinLate = join
}

// startClock sets instant 0 and returns how far it is from now, or why the run cannot start.
func (r *Run) startClock() (lead time.Duration, err error) {
	if r.startAt.IsZero() {
		r.clock.Start(startLead)
		return startLead, nil
	}
	r.clock.StartAtWall(r.startAt)
	lead = time.Duration(-r.clock.Now())
	switch late, plan := startLead-lead, r.work.Plan; {
	case late <= 0:
		return lead, nil
	case !r.joinLate:
		return lead, errors.New(r.lateWords(late))
	case int64(late) >= plan.EndNS || plan.Open() && int64(late) > plan.SpanNS():
		return lead, errors.New(r.lateWords(late) + ", and nothing was left to send")
	}
	return lead, nil
}

func (r *Run) lateWords(by time.Duration) string {
	return fmt.Sprintf(
		"the run was ready %v too late for its start at %s",
		by.Round(time.Millisecond),
		r.startAt.Format(time.RFC3339Nano),
	)
}

// skipPast ends the requests whose own instants were over when the run was ready.
func (r *Run) skipPast(late time.Duration) {
	skipped := r.pacer.skip(int64(late))
	why := r.lateWords(late)
	if r.process != nil {
		r.process.skip(len(skipped))
	}
	for _, i := range skipped {
		if r.leastInFlight != nil {
			r.leastInFlight.skipped.Add(1)
		} else {
			r.poolOf(i).sent.Add(1) // so that no connection is dialled for it
		}
		r.fail(i, record.NotSent, why)
	}
}

// Do replays the plan and returns when each planned request has its record and the sink has seen them all. If ctx ends
// before, Do stops as Stop does. Connections are closed when it returns. An error means that nothing was sent.
func (r *Run) Do(ctx context.Context) (Result, error) {
	defer context.AfterFunc(ctx, r.Stop)()
	gcLimit, restore := host.QuietRuntime()
	defer restore()
	r.large.limit = cmp.Or(r.large.limit, min(mostLarge, int64(largeShare*float64(gcLimit.Free))))
	before := host.UsageNow()
	halt := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { r.watchTimeouts(halt, gcLimit) })
	building, endBuilding := context.WithCancel(context.Background())
	if r.work.Prebuilt.InRing() {
		helpers.Go(func() { r.buildAhead(building) })
	}
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		r.recordAll()
	}()
	r.servers.Begin() // before the clock starts: it looks at all processes of the machine
	lead, err := r.startClock()
	r.began.Store(true)
	if r.cfg.CancelAfter > 0 {
		defer time.AfterFunc(lead+r.cfg.CancelAfter, r.expire).Stop()
	}
	if r.cfg.Stamps.Receive {
		r.wall.Store(sched.NewWall(r.clock))
		helpers.Go(func() { r.keepWall(halt) })
	}
	if late := startLead - lead; err == nil && late > 0 {
		r.skipPast(late)
	}
	helpers.Go(func() { r.dialer.keepFilled(halt) })
	if err == nil {
		err = r.start(&helpers)
	} else if r.process != nil {
		r.process.kill()
	}
	if err != nil {
		r.left.Store(0)
		close(r.allDone)
	} else {
		r.machine = host.NewWatch(r.clock, r.soleSenders())
		helpers.Go(func() { r.machine.Run(halt) })
	}
	<-r.allDone
	close(halt)
	endBuilding()
	helpers.Wait()
	r.hangUp()
	close(r.done)
	<-recorded
	if err != nil {
		return Result{}, err
	}
	return r.result(host.UsageNow().Since(before)), nil
}

// start starts the senders, in the process of their own if they have one.
func (r *Run) start(helpers *sync.WaitGroup) (err error) {
	if r.process == nil {
		return r.startSenders(helpers)
	}
	if r.placement, err = r.process.placement(); err != nil {
		r.process.kill()
		return err
	}
	helpers.Go(r.process.drive)
	return nil
}

// soleSenders returns the ids of the threads that only send. There are none in a closed loop or with a cap: there
// receiving threads send too.
func (r *Run) soleSenders() []int {
	switch {
	case !r.work.Plan.ByClock():
		return nil
	case r.process != nil:
		return r.process.threads()
	}
	return r.senderThreads
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

// sidesEnded ends the request on c, which was sent. The side of the request that ends last calls it, once.
func (r *Run) sidesEnded(c *conn) {
	i := c.request.Load()
	rec := &r.records[i]
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
	c.release()
	r.endRequest(i)
}

// resend sends request i again, on a new connection.
func (r *Run) resend(i int32, c *conn) {
	r.records[i].Resent = 1
	r.closedIdle.Add(1)
	r.resent.Add(1)
	p := c.pool
	c.release()
	r.sendLate(i, p)
}

// failAgain ends request i, whose other attempt could not be sent: what its record has of the first one stands.
func (r *Run) failAgain(i int32, why string) {
	rec := &r.records[i]
	rec.Resent = 0
	rec.Error += "; another attempt failed: " + why
	r.resent.Add(-1)
	r.endRequest(i)
}

// endRequest passes the final record of request i to recordAll, and lets the pacer release the requests that waited
// for it.
func (r *Run) endRequest(i int32) {
	r.work.Prebuilt.MarkUnneeded(i)
	if r.leastInFlight != nil && r.isPlaced(i) {
		r.poolOf(i).endRequest(r.records[i].Outcome)
	}
	now := r.clock.Now()
	r.cfg.History.Note(i, &r.records[i])
	r.cfg.History.Ended(r.clock, i)
	for {
		end := r.endNS.Load()
		if now <= end || r.endNS.CompareAndSwap(end, now) {
			break
		}
	}
	r.done <- i
	r.countEnded(1)
	r.pacer.requestEnded(i, now)
}

// countEnded counts n requests as ended.
func (r *Run) countEnded(n int64) {
	if n > 0 && r.left.Add(-n) == 0 {
		close(r.allDone)
	}
}

// recordAll passes the records of finished requests to the sink, until Run.done is closed.
func (r *Run) recordAll() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer r.sink.Tick()
	for {
		select {
		case i, ok := <-r.done:
			if !ok {
				return
			}
			rec := &r.records[i]
			if rec.SentNS != record.None {
				rec.SentAt = record.Wall(r.clock.StartedAt().Add(time.Duration(rec.SentNS)).UnixMicro())
			}
			if r.leastInFlight != nil && r.isPlaced(i) {
				r.leastInFlight.expect(i, rec)
			}
			if rec.Outcome == record.OK {
				r.finishedOK.Add(1)
			} else {
				r.failed.Add(1)
				if rec.SentNS == record.None {
					r.unsentFailed.Add(1)
				}
			}
			r.recorded[i] = true
			r.sink.Record(rec, r.targetOf(i))
		case <-tick.C:
			r.sink.Tick()
		}
	}
}

// hangUp closes every connection and waits for the receivers.
func (r *Run) hangUp() {
	r.abort()
	r.workers.wait()
	for _, p := range r.pools {
		p.eachConn(func(c *conn) {
			if c.state.CompareAndSwap(idle, dead) {
				c.sock.Close()
			}
		})
	}
	r.epollReaders.end()
	r.receivers.Wait()
	r.large.trim()
}

// Progress counts what a run has done so far.
type Progress struct {
	NowNS    int64 // since the start
	Sent     int64 // requests, re-sends included
	OK       int64
	Failed   int64
	Unsent   int64 // of Failed those of which no byte was sent
	Resent   int64 // how often one was sent again
	Stopping bool  // nothing more is released
	Left     int64 // requests without a final record
}

// Progress returns the run's counters. It may be called at any time.
func (r *Run) Progress() Progress {
	sent := r.sent.Load()
	if r.process != nil {
		sent += r.process.header.written.Load()
	}
	return Progress{
		NowNS:    r.clock.Now(),
		Sent:     sent,
		OK:       r.finishedOK.Load(),
		Failed:   r.failed.Load(),
		Unsent:   r.unsentFailed.Load(),
		Left:     r.left.Load(),
		Resent:   r.resent.Load(),
		Stopping: r.stop.Load(),
	}
}

// Began reports whether a reading of the run's clock counts from instant 0. Until shortly before that, the clock
// counts from New.
func (r *Run) Began(readingNS int64) bool { return r.began.Load() && readingNS <= r.clock.Now() }

// Clock returns the run's clock.
func (r *Run) Clock() sched.Clock { return r.clock }

// Requests returns how many requests the run has.
func (r *Run) Requests() int { return r.work.Requests() }

// Result has what a run found besides its records, in the summary's own types. What the run cannot know is zero: the
// load and the target in Run, and the times to read and to build in Client.
type Result struct {
	Run         metrics.Run
	Client      metrics.Client
	Connections metrics.Connections
	Writes      metrics.Writes
	Cap         *metrics.Cap        // nil without one
	Turns       *metrics.Turns      // nil if no request follows another
	History     *metrics.History    // nil if all was sent as recorded
	BuildAhead  *metrics.BuildAhead // nil if all requests were built before the run
	Placement   sched.Placement     // of the sending threads
	Ended       time.Time           // when the last request ended
	IdleGaps    int                 // how often nothing was in flight for so long that the rest came earlier
	IdleCut     time.Duration       // by how much, in all
	LeftOut     []int32             // requests that the end of the run's time left out, in ascending order
}

// result collects what the run found. All of its parts have ended.
func (r *Run) result(used host.Usage) Result {
	start := r.clock.StartedAt()
	end := time.Duration(r.endNS.Load())
	stamps, lag := r.stampCounts()
	found := Result{
		Run: metrics.Run{
			StartedAt:        start.UTC(),
			MonotonicStartNS: r.clock.MonotonicStartNS(),
			DurationS:        end.Seconds(),
			Partial:          r.stop.Load() && !r.expired.Load(),
			SenderDied:       r.died,
			Cut:              r.expired.Load(),
		},
		Client: metrics.Client{
			CPUS:          used.CPU.Seconds(),
			MaxRSSBytes:   used.MaxRSSBytes,
			GCCycles:      used.GCCycles,
			Senders:       r.senderCount(),
			SenderProcess: r.process != nil,
			Realtime:      r.placement.FIFO,
			SpinUS:        float64(r.spin()) / 1e3,
			WireBytes:     r.work.Prebuilt.Bytes(),
			Stamps:        &stamps,
			AnswerWaitS:   r.large.waited().Seconds(),
			ReceiveLagUS:  lag.Percentiles(1e3),
			Machine:       r.machine.Machine(),
			LocalServers:  r.servers.Shared(),
		},
		Connections: metrics.Connections{
			Dialled:     r.dialled.Load(),
			NotReady:    r.notReady.Load(),
			ClosedIdle:  r.closedIdle.Load(),
			ClosedEarly: r.closedEarly.Load(),
			NoResources: r.noResources.Load(),
		},
		Writes: metrics.Writes{Whole: r.wholeWrites.Load(), Partial: r.partialWrites.Load()},
		Turns: audit.Turns(
			r.work,
			r.records,
			r.leftOut,
			r.pacer.held(),
		),
		History:    r.cfg.History.Counts(r.records),
		BuildAhead: r.builtAhead(),
		Placement:  r.placement,
		Ended:      start.Add(end),
		LeftOut:    r.leftOut,
	}
	if q := r.pacer.queue; q != nil {
		found.IdleGaps, found.IdleCut = q.idle.gaps, time.Duration(q.idle.cutNS)
	}
	if n := r.work.Plan.Cap; n > 0 {
		held := r.pacer.held()
		found.Cap = &metrics.Cap{
			InFlight: int64(n),
			Held:     held.Count(),
			HeldMS:   held.Percentiles(1e6),
		}
	}
	return found
}

// Stop ends the release of requests. Requests in flight may end within the grace period. It may be called at any time.
func (r *Run) Stop() {
	if !r.stop.Swap(true) {
		time.AfterFunc(r.cfg.Grace, r.Abort)
	}
}

// Abort ends the release of requests and cancels those in flight, within a tick of the watchdog. It may be called at
// any time.
func (r *Run) Abort() {
	r.stop.Store(true)
	r.abort()
}

// expire is Abort when Config.CancelAfter is over: the requests that it ends were not interrupted.
func (r *Run) expire() {
	if !r.stop.Swap(true) {
		r.expired.Store(true)
	}
	r.abort()
}

// aborted reports whether requests in flight are to be cancelled.
func (r *Run) aborted() bool { return r.ctx.Err() != nil }

// notItsTime returns why a request of a stopped run was not sent.
func (r *Run) notItsTime() string {
	if r.expired.Load() {
		return "the run's time was over first"
	}
	return "the run was interrupted before its time"
}

// fail ends request i, of which no byte was sent, or none in another attempt.
func (r *Run) fail(i int32, o record.Outcome, why string) {
	if r.records[i].Resent > 0 {
		r.failAgain(i, why)
		return
	}
	r.records[i].Outcome = o
	r.records[i].Error = why
	r.endRequest(i)
}

// skip takes requests, in ascending order, out of the run: nobody has released them before the plan's time was over.
func (r *Run) skip(requests []int32) {
	r.leftOut = requests
	r.countEnded(int64(len(requests)))
}

// Records returns the records of all requests, in the plan's order. Call it after Do.
func (r *Run) Records() []record.Record { return r.records }
