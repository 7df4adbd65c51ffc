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
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// New prepares a run of work; without ideal hits its records expect none.
func New(cfg Config, work *workload.Work, runID string, ideal workload.IdealHits, sink Sink) *Run {
	r := &Run{
		cfg:         cfg,
		work:        work,
		sink:        sink,
		clock:       sched.NewMonotonic(),
		closingRace: closingRace,
		keptAtLeast: keptAtLeast,
		workers:     newWorkers(),
		done:        make(chan int32, work.Requests()),
		allDone:     make(chan struct{}),
		recorded:    make([]bool, work.Requests()),
	}
	r.ahead = aheadBuilder{work: work, clock: r.clock, needed: r.needsBytes}
	r.pacer = newPacer(work.Plan, r.clock, &r.stop, r.send)
	r.pacer.prefetch = r.prefetch
	r.pacer.prepared = r.prepared
	if r.cfg.OnSenderDeath == nil {
		r.cfg.OnSenderDeath = func(string) {}
	}
	r.instances.secrets = cfg.Secrets
	r.instances.headers = len(cfg.InstanceHeaders)
	r.instances.field = cfg.InstanceField
	r.left.Store(int64(work.Requests()))
	r.ctx, r.abort = context.WithCancel(context.Background())
	r.readLag.lag = stats.NewHistogram()
	r.large.mapped = map[*byte]bool{}
	r.large.changed.L = &r.large.mu
	r.addPools()
	r.makeRecords(runID, ideal)
	r.lateRouter = newLateRouter(work, r.pools, r.poolsOf)
	r.idealOrder = newIdealOrder(work)
	r.dialer = &dialer{
		run:    r,
		pause:  dialPause,
		paused: make([]time.Time, len(r.pools)),
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
			p.url = t.URL
			p.gone.Store(ti >= len(r.work.Targets)-r.work.Spare)
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
	r.openRing()
	r.dialer.fillFirst(ctx)
}

// openRing lets a ring see what comes from the endpoints, if there may be one.
func (r *Run) openRing() {
	if !r.cfg.Stamps.Ring || r.ring != nil {
		return
	}
	var ports []uint16
	for _, p := range r.pools {
		ports = append(ports, p.addr.Port())
	}
	slices.Sort(ports)
	streams := 1 << 20 // in an open loop, as many as the servers leave open
	if plan := r.work.Plan; !plan.Open() && plan.Dependencies == nil {
		streams = plan.Concurrency
	}
	ring, err := wire.OpenRing(slices.Compact(ports), streams)
	if err != nil {
		return // stamps are those of the sockets, and late reads are marked
	}
	r.ring = ring
	for _, p := range r.pools {
		p.dial.Ring = ring
	}
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
		if r.lateRouter != nil {
			r.lateRouter.skipped.Add(1)
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
	r.usedBefore.Store(new(host.UsageNow()))
	halt := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { r.watchTimeouts(halt, gcLimit) })
	building, endBuilding := context.WithCancel(context.Background())
	if r.work.Prebuilt.InRing() {
		helpers.Go(func() { r.ahead.run(building) })
	}
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		r.recordAll()
	}()
	r.servers.Begin() // before the clock starts: it looks at all processes of the machine
	lead, err := r.startClock()
	r.began.Store(true)
	if r.cfg.CancelAfter > 0 && !r.pacer.isPreparing() {
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
	r.fillFates()
	return r.result(host.UsageNow().Since(*r.usedBefore.Load())), nil
}

// prepared does what is to be done when the profile is about to begin.
func (r *Run) prepared() {
	if r.cfg.OnPrepared != nil {
		r.cfg.OnPrepared()
	}
	r.usedBefore.Store(new(host.UsageNow()))
	for _, n := range []*atomic.Int64{&r.dialled, &r.notReady, &r.closedIdle, &r.wholeWrites, &r.partialWrites} {
		n.Store(0)
	}
	if r.cfg.CancelAfter > 0 {
		time.AfterFunc(r.cfg.CancelAfter, r.expire)
	}
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

// recordTick is how often finished requests are recorded. A goroutine that is woken for each took a fifth of the
// processor time of a closed loop. (By perf, 64 in flight, 2 cores of an AMD EPYC, Linux 6.18.)
const recordTick = 10 * time.Millisecond

// openRecordTick is that of an open loop, in which fewer requests end, and no record is used again.
const openRecordTick = 100 * time.Millisecond

// recordAll passes the records of finished requests to the sink, until Run.done is closed. Those of requests that end
// before the barrier wait for it: instants count from there.
func (r *Run) recordAll() {
	every := recordTick
	if r.work.Plan.Open() {
		every = openRecordTick
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer r.sink.Tick()
	var early []int32
	ticked := time.Now()
	over := r.allDone
	for open := true; open; {
		select {
		case <-tick.C:
			early, open = r.recordFinished(early, len(r.done))
		case <-over: // the rest, and then until done is closed
			early, open = r.recordFinished(early, max(1, len(r.done)))
		}
		if time.Since(ticked) >= time.Second-every {
			ticked = time.Now()
			r.sink.Tick()
		}
	}
}

// recordFinished counts the next n finished requests, and records them after the early ones. If the barrier is still to
// come, all of them are early. It returns false after the last one of the run.
func (r *Run) recordFinished(early []int32, n int) (rest []int32, open bool) {
	for open = true; open && n > 0; n-- {
		var i int32
		if i, open = <-r.done; open {
			r.countFinished(i)
			early = append(early, i)
		}
	}
	if !open || !r.pacer.isPreparing() {
		for _, i := range early {
			r.record(i)
		}
		early = early[:0]
	}
	return early, open
}

func (r *Run) countFinished(i int32) {
	rec := r.recordOf(i)
	if r.idealOrder != nil && rec.Outcome != record.NotSent { // else nobody may have released it
		r.idealOrder.expect(i, rec)
	}
	if rec.Outcome == record.OK {
		r.finishedOK.Add(1)
		return
	}
	r.failed.Add(1)
	if rec.SentNS == record.None {
		r.unsentFailed.Add(1)
	}
}

// record passes the record of a finished request to the sink.
func (r *Run) record(i int32) {
	rec := r.recordOf(i)
	if rec.SentNS != record.None {
		rec.SentAt = record.Wall(r.clock.StartedAt().Add(time.Duration(rec.SentNS)).UnixMicro())
	}
	barrier := r.pacer.barrierNS()
	if rec.MoveInstants(barrier); rec.PlannedNS != record.None {
		rec.PlannedNS -= barrier
	}
	r.recorded[i] = true
	r.records.fates[i] = r.records.names.FateOf(rec)
	r.sink.Record(rec, r.targetOf(i))
	r.giveBack(i)
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
	if r.ring != nil {
		r.ringLost = r.ring.Close()
	}
	r.large.trim()
}

// Progress counts what a run has done so far.
type Progress struct {
	NowNS     int64 // since the start, see Clock
	Sent      int64 // requests, re-sends included
	OK        int64
	Failed    int64
	Unsent    int64 // of Failed those of which no byte was sent
	Resent    int64 // how often one was sent again
	Stopping  bool  // nothing more is released
	Left      int64 // requests without a final record
	Uncounted int64 // that have ended and are not in OK or Failed yet
}

// Progress returns the run's counters. It may be called at any time.
func (r *Run) Progress() Progress {
	sent := r.sent.Load()
	if r.process != nil {
		sent += r.process.header.written.Load()
	}
	return Progress{
		NowNS:     r.Clock().Now(),
		Sent:      sent,
		OK:        r.finishedOK.Load(),
		Failed:    r.failed.Load(),
		Unsent:    r.unsentFailed.Load(),
		Left:      r.left.Load(),
		Resent:    r.resent.Load(),
		Stopping:  r.stop.Load(),
		Uncounted: int64(len(r.done)),
	}
}

// Began reports whether a reading of the run's clock counts from instant 0. Until shortly before that, the clock
// counts from New.
func (r *Run) Began(readingNS int64) bool { return r.began.Load() && readingNS <= r.Clock().Now() }

// Clock returns the run's clock. It counts from the barrier, if there is one, and stands at 0 while the run prepares.
func (r *Run) Clock() sched.Clock { return profileClock{r} }

type profileClock struct{ run *Run }

// Now implements sched.Clock.
func (c profileClock) Now() int64 {
	now := c.run.clock.Now()
	if c.run.pacer.isPreparing() {
		return min(0, now)
	}
	return now - c.run.pacer.barrierNS()
}

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
	Idle        IdleCut             // of all requests together
	TreeIdle    IdleCut             // of single jobs
	LeftOut     []int32             // requests that the end of the run's time, or EndEarly, left out, ascending
}

// result collects what the run found. All of its parts have ended.
func (r *Run) result(used host.Usage) Result {
	barrier := r.pacer.barrierNS()
	start := r.clock.StartedAt().Add(time.Duration(barrier))
	end := time.Duration(max(0, r.endNS.Load()-barrier))
	primerFailed := ""
	if why := r.primerFailed.Load(); why != nil {
		primerFailed = *why
	}
	stamps, lag := r.stampCounts()
	found := Result{
		Run: metrics.Run{
			StartedAt:        start.UTC(),
			MonotonicStartNS: r.clock.MonotonicStartNS() + barrier,
			DurationS:        end.Seconds(),
			Partial:          r.interrupted.Load() && !r.expired.Load(),
			SenderDied:       r.died,
			PrimerFailed:     primerFailed,
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
			r.records.fates,
			r.leftOut,
			r.pacer.held(),
		),
		History:    r.cfg.History.Counts(r.records.all),
		BuildAhead: r.ahead.result(r.records.fates, func(i int32) int64 { return barrier + r.pacer.heldNS(i) }),
		Placement:  r.placement,
		Ended:      start.Add(end),
		LeftOut:    r.leftOut,
	}
	if q := r.pacer.queue; q != nil {
		found.Idle = q.idle.all
		found.TreeIdle = q.idle.ofTrees
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
