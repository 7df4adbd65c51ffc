//go:build model

package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/internal/model"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// world is a run of a few requests, its servers, and what they do to it.
type world struct {
	rng  *rand.Rand
	run  *Run
	work *workload.Work
	size int // of each request, bytes

	process                    bool // there is a sender process
	plan                       int
	closes, resets, stalls     bool // what servers do
	early, refuses, small, odd bool
	scarce, stops, dies        bool

	read     []int // how often a server has read each request
	answered []int // and answered it wholly
	ended    []int // how often each request has ended
	final    []record.Record
	given    []*record.Record // those that the recorder has seen
	left     bool             // the run waits for its end
	stopped  bool             // somebody has stopped it
	died     bool             // the sender process has died
	over     bool
	least    bool // one request
}

// timeout is the run's limit for an answer.
const timeout = 40 * time.Millisecond

// nobody takes the gaps.
type nobody struct{}

func (nobody) Record(*record.Record, int)               {}
func (nobody) Tick()                                    {}
func (nobody) Gaps(int, []int64, []metrics.LateReadGap) {}

// mostRequests is how many a run has.
const mostRequests = 4

// works are the requests of runs, by their number and their kind. They are made once.
type works struct {
	backend api.Backend
	of      [mostRequests + 1][]*workload.Work // by their number and their plan
	arena   [mostRequests + 1][][]byte
}

// plans are the ways to release requests. Those after onlyClock have no sender process.
var plans = []func(arrivals []int64) (sched.Plan, error){
	func(arrivals []int64) (sched.Plan, error) { return sched.FromTrace(arrivals, 1, 0) },
	func(arrivals []int64) (sched.Plan, error) { return sched.FromTrace(make([]int64, len(arrivals)), 1, 0) },
	func(arrivals []int64) (sched.Plan, error) { return sched.Closed(len(arrivals), 2, 0) },
	func(arrivals []int64) (sched.Plan, error) { return sched.Closed(len(arrivals), 2, planEnd) },
	func(arrivals []int64) (sched.Plan, error) {
		p, _ := sched.FromTrace(arrivals, 1, 0)
		return p.Capped(1)
	},
	func(arrivals []int64) (sched.Plan, error) { return answersFirst(sched.FromTrace(arrivals, 1, 0)) },
	func(arrivals []int64) (sched.Plan, error) { return answersFirst(sched.FromTrace(arrivals, 1, planEnd)) },
	func(arrivals []int64) (sched.Plan, error) { return answersFirst(sched.Closed(len(arrivals), 2, 0)) },
	func(arrivals []int64) (sched.Plan, error) { return preparedFirst(sched.Closed(len(arrivals), 2, 0)) },
	func(arrivals []int64) (sched.Plan, error) {
		return preparedFirst(sched.Closed(len(arrivals), 2, planEnd))
	},
}

// atOnceOnly is the plan of requests at one instant, and onlyClock how many plans only the clock decides.
const (
	atOnceOnly = 1
	onlyClock  = 2
)

// planEnd is the end of the plans that have one, and thinking how long after an answer the next request comes.
const (
	planEnd  = 4 * time.Millisecond
	thinking = time.Millisecond
)

// answersFirst makes each request but the first wait for the answer of an earlier one, and some time.
func answersFirst(p sched.Plan, err error) (sched.Plan, error) {
	if err != nil {
		return p, err
	}
	before := &sched.Dependencies{Think: true}
	for i := range int32(p.Requests) {
		if i == 0 {
			before.Add()
		} else {
			before.Add(sched.Dependency{On: i / 2, DelayNS: int64(thinking)})
		}
	}
	return p.Following(before)
}

// preparedFirst makes two jobs, each of one agent. Their first requests prepare, the very first one as a primer, and
// idle times of jobs and of all are cut.
func preparedFirst(p sched.Plan, err error) (sched.Plan, error) {
	if err != nil {
		return p, err
	}
	d := &sched.Dependencies{Think: true, Primers: 1, Prepare: int32(p.Requests+1) / 2, IdleNS: int64(thinking / 2), TreeIdleNS: int64(thinking / 4)}
	p.Concurrency = 2
	for i := range int32(p.Requests) {
		if d.Job, d.Stream = append(d.Job, i%2), append(d.Stream, 0); i < 2 {
			d.Add()
		} else {
			d.Add(sched.Dependency{On: i - 2, DelayNS: int64(thinking)})
		}
	}
	return p.Following(d)
}

func makeWorks(t testing.TB) *works {
	backend := must.Have(api.New("completions", api.Options{Stream: true}))(t)
	w := &works{backend: backend}
	for n := 1; n < len(w.of); n++ {
		for _, plan := range plans {
			made := must.Have(trace.Generate(trace.Gen{ArrivalNS: workloadtest.Spaced(n, 1000), InputTokens: trace.Range{Min: 4, Max: 4}, OutputTokens: trace.Range{Min: 1, Max: 1}}))(t)
			p := must.Have(plan(made.ArrivalNS))(t)
			addr := netip.MustParseAddrPort("127.0.0.1:1")
			one := &workload.Work{Trace: made, Plan: p, Places: route.RoundRobin(n, route.Even([]int{1}))}
			one.Targets = []workload.Target{{URL: "http://" + addr.String(), Host: addr.String(), Path: "/v1/completions", Endpoints: []netip.AddrPort{addr}, Name: "127.0.0.1", Port: addr.Port()}}
			one.Prebuilt = workloadtest.Build(t, workloadtest.Builder(t, "", "a", 1), one)
			arena := must.Have(unix.Mmap(int(one.Prebuilt.File().Fd()), 0, int(one.Prebuilt.MappedBytes()), unix.PROT_READ, unix.MAP_SHARED))(t)
			w.of[n], w.arena[n] = append(w.of[n], one), append(w.arena[n], arena)
		}
	}
	return w
}

// oneIn is true once in n times.
func (x *world) oneIn(n int) bool { return x.rng.IntN(n) == 0 }

// newWorld draws a world.
func newWorld(seed uint64) *world {
	x := &world{rng: rand.New(rand.NewPCG(seed, 29))}
	x.process = x.oneIn(2)
	if x.oneIn(4) {
		return x // nothing goes wrong
	}
	for _, fault := range []*bool{&x.closes, &x.resets, &x.stalls, &x.early, &x.refuses, &x.small, &x.odd, &x.scarce, &x.stops, &x.dies} {
		*fault = x.oneIn(3)
	}
	x.dies = x.dies && x.process
	return x
}

// flawless reports whether nothing happens to the run that may fail a request.
func (x *world) flawless() bool {
	return !(x.closes || x.resets || x.stalls || x.early || x.refuses || x.odd || x.scarce || x.stops || x.dies)
}

func (x *world) String() string {
	s := fmt.Sprintf("plan %d, senders in threads", x.plan)
	if x.process {
		s = fmt.Sprintf("plan %d, senders in a process", x.plan)
	}
	for name, is := range map[string]bool{"servers close": x.closes, "reset": x.resets, "stall": x.stalls, "answer early": x.early,
		"refuse": x.refuses, "answer oddly": x.odd, "small buffers": x.small, "few descriptors": x.scarce, "stops": x.stops, "sender dies": x.dies} {
		if is {
			s += ", " + name
		}
	}
	return s
}

// live is the first process: it makes the run and all others, and looks at what is left.
func (x *world) live(w *works) {
	n := 1 + min(x.rng.IntN(mostRequests), x.rng.IntN(mostRequests))
	kind := x.rng.IntN(onlyClock)
	if x.least {
		n, kind = 1, atOnceOnly
	} else if !x.process && x.oneIn(2) {
		kind = onlyClock + x.rng.IntN(len(plans)-onlyClock)
	}
	x.plan = kind
	x.work = w.of[n][kind]
	x.size = x.work.Prebuilt.Largest()
	for _, list := range []*[]int{&x.read, &x.answered, &x.ended} {
		*list = make([]int, n)
	}
	x.final = make([]record.Record, n)
	x.given = make([]*record.Record, n)
	senders, places := 1+x.rng.IntN(2), 2*n+dialSpare
	if x.scarce {
		places = 1 + x.rng.IntN(n+2)
	}
	r := New(Config{
		Backend: w.backend, Stream: true, Timeout: timeout, IdleTimeout: timeout, ConnectTimeout: timeout, Grace: timeout, Senders: senders,
		Descriptors: descriptorsKept + places, Resend: []Resend{ResendNever, ResendUnread, ResendSafe}[x.rng.IntN(3)],
	}, x.work, "a", workload.IdealHits{}, nobody{})
	x.run = r
	if r.records.all == nil && x.oneIn(2) { // the recorder is late
		for i := range r.records.of[1:] {
			r.records.of[1+i].Store(nil)
		}
		r.records.next = 1
	}
	if x.oneIn(2) { // pauses may be long
		r.pools[0].nagle.proofs.Store(proofsNeeded)
	}
	r.epollReaders.start.Do(func() { r.epollReaders.err = r.epollReaders.begin(r) })
	var helpers model.WaitGroup
	helper := func(name string, f func()) {
		helpers.Add(1)
		model.Go(name, func() { defer helpers.Done(); f() })
	}
	ended := func() bool { return r.left.Peek() == 0 }
	helper("recorder", func() {
		for {
			model.Until("a request to end", func() bool { return len(r.done) > 0 || ended() })
			if len(r.done) == 0 {
				return
			}
			i := <-r.done
			if x.ended[i]++; x.ended[i] > 1 {
				model.Fail("request %d has ended twice", i)
			}
			x.given[i] = r.recordOf(i)
			x.final[i] = *x.given[i]
			r.recorded[i] = true
			r.records.of[i].Store(new(x.final[i])) // so that nobody has a reason to change given
			r.giveBack(i)
		}
	})
	helper("watchdog", func() {
		for !ended() {
			model.Tick(ended)
			r.cancelOverdue(r.aborted())
		}
	})
	helper("dialer", func() {
		for !ended() && !r.stop.Load() {
			r.dialer.dialMissing(r.clock.Now())
			model.Tick(func() bool { return ended() || r.stop.Peek() })
		}
	})
	if x.process {
		x.startProcess(w.arena[n][kind], senders, helper)
	} else {
		r.spins, r.senderThreads = make([]time.Duration, r.senderCount()), make([]int, r.senderCount())
		for k := range r.senderCount() {
			placed, start := make(chan threadPlacement, 1), make(chan bool, 1)
			start <- true
			helper(name("sender", k), func() { r.runSender(k, placed, start) })
		}
	}
	if x.stops {
		at, how := model.Changes()+x.rng.IntN(150), []func(*Run){(*Run).Stop, (*Run).Abort, (*Run).expire}[x.rng.IntN(3)]
		helper("user", func() {
			model.Until("a whim", func() bool { return model.Changes() > at || ended() })
			if !ended() {
				model.Note("the run is stopped")
				x.stopped = true
				how(r)
			}
		})
	}
	model.Until("the end of all requests", ended)
	helpers.Wait()
	x.over = true
	r.hangUp()
	x.check()
}

// startProcess starts the sender process and the replay's side of it.
func (x *world) startProcess(arena []byte, senders int, helper func(string, func())) {
	r := x.run
	n := x.work.Requests()
	l := &senderProcess{run: r, header: new(sharedHeader), slots: make([]slot, n), link: model.NewLink()}
	r.process = l
	l.fill(len(r.table))
	child := &senderChild{header: l.header, slots: l.slots, arena: arena, table: make([]socketEntry, len(r.table)), clock: model.NewMonotonic()}
	gone := false
	helper("replay: drive", func() {
		for l.look() {
			model.Tick(func() bool { return l.header.ended.Peek() || l.died || r.stop.Peek() && !l.header.stop.Peek() })
		}
		_ = l.link.Close()
	})
	helper("replay: listen", l.listen)
	model.GoSpace(model.SenderSpace, "process: sockets", child.receiveSockets)
	sending := senders
	for k := range senders {
		model.GoSpace(model.SenderSpace, name("process: sender", k), func() {
			child.sendAll(&l.header.sender[k], model.NewWaiter(nil, 0, &l.header.stop), new(wire.Gatherer))
			if sending--; sending > 0 {
				return
			}
			l.header.ended.Store(true)
			child.wakeReplay()
			gone = true
			model.Changed()
		})
	}
	at := 1 << 30
	if x.dies {
		at = model.Changes() + x.rng.IntN(120)
	}
	helper("kernel", func() {
		model.Until("the end of the sender process", func() bool { return gone || model.Changes() > at })
		x.died = !gone
		model.Kill(model.SenderSpace)
		l.link.Die()
	})
}

// name returns the name of a process.
func name(of string, k int) string {
	if !model.Tracing() {
		return of
	}
	return fmt.Sprint(of, " ", k)
}

// dial is the network.
func (x *world) dial() (fd int, err error) {
	if x.run == nil { // descriptors
		_, fd := model.Connect(100)
		return fd, nil
	}
	if x.refuses && x.oneIn(4) {
		model.Note("a connection is refused")
		return 0, syscall.ECONNREFUSED
	}
	room := 10 * x.size
	if x.small {
		room = 1 + x.rng.IntN(x.size)
	}
	s, fd := model.Connect(room)
	model.GoDaemon(name("server", s.Number), func() { x.serve(s) })
	return fd, nil
}

// serve is the server's side of a connection.
func (x *world) serve(s *model.Socket) {
	var got []byte
	for {
		leaves := 1 << 30
		if (x.closes || x.resets) && x.oneIn(4) {
			leaves = model.Changes() + x.rng.IntN(80)
		}
		model.Until("a request", func() bool { return s.Waiting() > 0 || s.ClientGone() || model.Changes() > leaves })
		switch {
		case s.Waiting() == 0 && s.ClientGone():
			return
		case s.Waiting() == 0:
			x.leave(s)
			return
		}
		some := x.size - len(got)
		if x.oneIn(2) {
			some = 1 + x.rng.IntN(some)
		}
		got = append(got, s.ServerRead(some)...)
		if x.early && x.oneIn(6) {
			s.ServerWrite([]byte("HTTP/1.1 400 X\r\nContent-Length: 14\r\n\r\ncontext length"))
			x.leave(s)
			return
		}
		if len(got) == x.size {
			i := x.which(got)
			if x.read[i]++; !x.answer(s, i) {
				return
			}
			got = got[:0]
		}
		model.Point()
	}
}

// leave ends a connection.
func (x *world) leave(s *model.Socket) {
	if x.resets && (!x.closes || x.oneIn(2)) {
		s.ServerReset()
	} else {
		s.ServerClose()
	}
}

// which tells which request the bytes are.
func (x *world) which(b []byte) int {
	for i := range x.work.Requests() {
		if bytes.Equal(b, x.work.Prebuilt.At(i)) {
			return i
		}
	}
	model.Fail("a server got bytes that are no request: %q", b)
	return 0
}

// promptTokens is what the answer to request i says: so an answer is known by its record.
func promptTokens(i int) int64 { return int64(100 + i) }

// answerText are ways to answer request i: with a length, and until the end of the connection.
func answerText(i int, untilEnd bool) []byte {
	body := fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", promptTokens(i))
	if untilEnd {
		return []byte("HTTP/1.1 200 OK\r\n\r\n" + body)
	}
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// answer answers request i. It returns false if the connection has ended.
func (x *world) answer(s *model.Socket, i int) bool {
	if x.stalls && x.oneIn(4) {
		model.Note("connection %d: the server does not answer", s.Number)
		model.Until("nothing", s.ClientGone)
		return false
	}
	untilEnd := (x.closes || x.resets) && x.oneIn(5)
	text := answerText(i, untilEnd)
	if x.resets && x.oneIn(4) {
		k := x.rng.IntN(len(text) + 1)
		if s.ServerWrite(text[:k]); k == len(text) && !untilEnd {
			x.answered[i]++
		}
		model.Point()
		s.ServerReset()
		return false
	}
	if x.closes && x.oneIn(4) {
		s.ServerWrite(text[:x.rng.IntN(bytes.Index(text, []byte("finish_reason")))])
		model.Point()
		s.ServerClose()
		return false
	}
	if x.odd && x.oneIn(5) {
		s.ServerWrite([]byte("220 mail.example.org ESMTP\r\n"))
		model.Until("nothing", s.ClientGone)
		return false
	}
	if x.stalls && x.oneIn(3) {
		model.Tick(s.ClientGone)
	}
	for x.oneIn(2) && len(text) > 1 {
		k := 1 + x.rng.IntN(len(text)-1)
		s.ServerWrite(text[:k])
		text = text[k:]
		model.Point()
	}
	s.ServerWrite(text)
	x.answered[i]++
	if untilEnd {
		s.ServerClose()
		return false
	}
	if x.closes && x.oneIn(3) {
		s.ServerClose()
		return false
	}
	return true
}

// quiet looks at the run when nobody can go on before time has passed: then nobody may have missed something. But a
// reader may pause if nothing depends on when it reads.
func (x *world) quiet() error {
	for _, s := range model.Sockets() {
		if s.Unread() && !(model.Pausing() && x.work.Plan.ByClock()) {
			return fmt.Errorf("a wake-up was missed: connection %d has bytes or an end that nobody reads", s.Number)
		}
		if s.Roomy() && len(s.Taken)%x.size != 0 && !x.died {
			return fmt.Errorf("a wake-up was missed: the kernel takes more of a request on connection %d, and nobody writes", s.Number)
		}
	}
	return nil
}

// check says whether all is as it must be when a run has ended.
func (x *world) check() {
	r := x.run
	x.stopped = x.stopped || r.primerFailed.Load() != nil
	tries, waited := make([]int, len(x.read)), make([]bool, len(x.read))
	for _, s := range model.Sockets() {
		for b := s.Taken; len(b) > 0; b = b[min(len(b), x.size):] {
			whole, i := len(b) >= x.size, -1
			for k := range x.read {
				if bytes.HasPrefix(x.work.Prebuilt.At(k), b[:min(len(b), x.size)]) {
					i = k
				}
			}
			if i < 0 {
				model.Fail("connection %d has bytes of two requests in one: %q", s.Number, b)
			}
			if whole || len(b) > x.size/2 { // else it may be another, whose bytes begin alike
				tries[i]++
				waited[i] = len(b) < len(s.Taken)
			}
		}
		if !s.ClientGone() {
			model.Fail("connection %d stays open", s.Number)
		}
	}
	if n := model.OpenFiles(model.ReplaySpace); n > 0 {
		model.Fail("%d descriptors stay open", n)
	}
	p := r.pools[0]
	for id := range p.table {
		if c := p.table[id].Load(); c != nil && c.state.Load() != dead {
			model.Fail("connection %d is in state %d at the end", id, c.state.Load())
		} else if there := p.unused.words[0].Load()>>id&1 == 1; there == (c != nil) {
			model.Fail("place %d is both used and unused, or neither", id)
		}
	}
	if l := r.process; l != nil {
		for i := range l.slots {
			if s := l.slots[i].state.Load(); s != slotSettled && s != slotAbandoned {
				model.Fail("slot %d is in state %d at the end", i, s)
			}
		}
	}
	resent := int64(0)
	for i := range x.final {
		rec := &x.final[i]
		if again := r.records.of[i].Load(); x.given[i] != nil && (*x.given[i] != *rec || r.records.all == nil && again != nil) {
			model.Fail("somebody has used the record of request %d after its end", i)
		}
		if out := slices.Contains(r.leftOut, int32(i)); out != (x.ended[i] == 0) || out && (tries[i] > 0 || x.work.Plan.EndNS > int64(planEnd)) {
			model.Fail("request %d: left out: %v, ended %d times, sent %d times", i, out, x.ended[i], tries[i])
		} else if out {
			continue
		}
		x.checkRelease(i, rec)
		x.checkRecord(i, rec, tries[i])
		resent += rec.Resent
		if tries[i] == 1 && rec.Resent == 0 && waited[i] && rec.Outcome == record.Reset && rec.BytesReceived == 0 && !x.died {
			x.checkNotResent(i, rec)
		}
	}
	if got := r.resent.Load(); got != resent {
		model.Fail("%d requests were sent again, and %d are counted", resent, got)
	}
	if !x.closes && !x.resets && !x.early && p.unkept.Load() {
		model.Fail("the server closes no connections, and is said to")
	}
}

// checkRelease says whether request i was released by its plan.
func (x *world) checkRelease(i int, rec *record.Record) {
	p := &x.work.Plan
	if rec.SentNS == record.None {
		return
	}
	end := p.EndNS
	if q := x.run.pacer.queue; q != nil {
		end = q.planEndNS()
	}
	if rec.DriftNS() < 0 || rec.PlannedNS >= end {
		model.Fail("request %d was planned at %d and sent at %d; the plan ends at %d", i, rec.PlannedNS, rec.SentNS, end)
	}
	d := p.Dependencies
	if d == nil {
		return
	}
	for k := range x.final[:d.Prepare] {
		if before := &x.final[k]; int32(i) >= d.Prepare && (rec.PlannedNS < before.DoneNS || x.ended[k] == 0) {
			model.Fail("request %d passed the barrier at %d, and request %d ended at %d", i, rec.PlannedNS, k, before.DoneNS)
		}
	}
	for _, w := range d.Of(int32(i)) {
		if d.TreeIdleNS > 0 {
			w.DelayNS = min(w.DelayNS, d.TreeIdleNS)
		}
		if before := &x.final[w.On]; before.DoneNS != record.None && rec.PlannedNS < before.DoneNS+w.DelayNS {
			model.Fail("request %d was released at %d, and request %d was answered at %d", i, rec.PlannedNS, w.On, before.DoneNS)
		}
	}
}

// checkNotResent says whether request i, which broke off a connection that had carried another, was rightly sent once.
func (x *world) checkNotResent(i int, rec *record.Record) {
	tried := strings.Contains(rec.Error, "another attempt failed")
	advised := strings.Contains(rec.Error, "--resend safe")
	how, cancelled := x.run.cfg.Resend, x.stopped || x.stalls || x.odd
	if how == ResendSafe && !tried && !cancelled || how != ResendUnread && advised {
		model.Fail("request %d: %q with --resend %s", i, rec.Error, x.run.cfg.Resend)
	}
}

// checkRecord says whether a record is what happened.
func (x *world) checkRecord(i int, rec *record.Record, tries int) {
	bad := func(why string) {
		model.Fail("request %d: %s: %v %q, resent %d; sent %d times, read %d times, answered %d times", i, why, rec.Outcome, rec.Error, rec.Resent, tries, x.read[i], x.answered[i])
	}
	if tries > 1+int(rec.Resent) || rec.Resent > 0 && x.run.cfg.Resend == ResendNever {
		bad("it was sent too often")
	}
	if x.read[i] > 1 && x.run.cfg.Resend != ResendSafe {
		bad("it was read twice")
	}
	if x.flawless() && (rec.Outcome != record.OK || rec.Resent > 0) {
		bad("nothing has gone wrong")
	}
	if rec.SentNS != record.None && rec.DoneNS < rec.SentNS {
		bad("it was sent, and nobody knows when it ended")
	}
	allowed := false
	switch rec.Outcome {
	case record.OK:
		if x.answered[i] == 0 || rec.PromptTokens != promptTokens(i) || rec.Chunks != 1 || rec.BytesSent != int64(x.size) && !x.died {
			bad(fmt.Sprintf("it was not answered like that: %d bytes sent, %d prompt tokens, %d chunks", rec.BytesSent, rec.PromptTokens, rec.Chunks))
		}
		allowed = true
	case record.Reset:
		allowed = x.closes || x.resets || x.died || x.early
	case record.Truncated:
		allowed = x.closes || x.resets
	case record.BadResponse:
		allowed = x.odd || x.closes || x.resets
	case record.Timeout:
		allowed = x.stalls || x.odd
	case record.Cancelled:
		allowed = x.stopped || x.died
	case record.HTTPError:
		allowed = x.early
	case record.ConnectError:
		allowed = x.refuses || x.closes || x.resets || x.scarce
	case record.NotSent:
		allowed = (x.stopped || x.died || rec.LeftOut() && x.early) && tries == 0
	}
	if !allowed {
		bad("nothing has caused that")
	}
}

// descriptors is a small world of wire alone: a connection is closed while it is written, and the next one has its
// descriptor.
func (x *world) descriptors() {
	const size = 20
	dial := func() *wire.Socket {
		s, err := wire.Dial(context.Background(), model.NewMonotonic(), netip.AddrPort{}, wire.DialOptions{Timeout: timeout, Epoll: true})
		if err != nil {
			model.Fail("%v", err)
		}
		return s
	}
	first := dial()
	first.KeepRest(gather.Of(bytes.Repeat([]byte{'1'}, size)))
	model.Go("writer", func() { _ = first.Flush() })
	first.Close()
	second := dial()
	if all, err := second.Send(gather.Of(bytes.Repeat([]byte{'2'}, size))); !all || err != nil {
		model.Fail("the second request is sent: %v, %v", all, err)
	}
	if got := model.Sockets()[1].Taken; !bytes.Equal(got, bytes.Repeat([]byte{'2'}, size)) {
		model.Fail("bytes of one connection have reached another: %q", got)
	}
	second.Close()
}

// schedule runs one schedule, and returns what it found.
func schedule(m *model.World, x *world, main func(), trace func(string, ...any)) error {
	m.Trace, m.Dial, m.Quiet = trace, x.dial, x.quiet
	err := m.Run(main)
	if trace != nil && x.run != nil {
		trace("%v", x)
		for i := range x.final {
			rec := x.final[i]
			trace("request %d: %v %q, sent again %d", i, rec.Outcome, rec.Error, rec.Resent)
		}
	}
	return err
}

// seeded runs the schedule of a seed. Every sixteenth is of wire alone.
func seeded(w *works, seed uint64, bug int, trace func(string, ...any)) error {
	x := newWorld(seed)
	main := func() { x.live(w) }
	if seed%16 == 0 {
		x.size, x.closes, main = 1, true, x.descriptors
	}
	order := rand.New(rand.NewPCG(seed, 4))
	stays := []uint64{0, 1, 3, 7}[order.IntN(4)]
	m := &model.World{
		Bug:    bug,
		Choose: order.IntN,
		Stays:  func() bool { return order.Uint64()&stays != 0 },
		Jumps:  func() bool { return !x.flawless() && order.IntN(64) == 0 },
	}
	if order.IntN(2) == 0 {
		m.Sleeps = func() int {
			if order.IntN(16) > 0 {
				return 0
			}
			return order.IntN(100)
		}
	}
	return schedule(m, x, main, trace)
}

// number is a number of the environment.
func number(t *testing.T, name string) uint64 {
	n := must.Have(strconv.ParseUint(os.Getenv(name), 10, 64))(t)
	return n
}

// printTrace prints a line of a trace.
func printTrace(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// TestSeeds runs the schedules of the seeds that the environment names, up to the first that finds something. That one
// is run again, and printed.
func TestSeeds(t *testing.T) {
	from, count, bug := number(t, "MODEL_FROM"), number(t, "MODEL_COUNT"), int(number(t, "MODEL_BUG"))-1
	w := makeWorks(t)
	for seed := from; seed < from+count; seed++ {
		if err := seeded(w, seed, bug, nil); err != nil {
			fmt.Printf("seed %d:\n", seed)
			if again := seeded(w, seed, bug, printTrace); again == nil || again.Error() != err.Error() {
				t.Fatalf("seed %d has found %v at first, and then %v", seed, err, again)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestEverySchedule goes through all schedules of a sender process with one request, in each of some worlds, in which
// the order of the processes is broken MODEL_TURNS times at most.
func TestEverySchedule(t *testing.T) {
	turns := int(number(t, "MODEL_TURNS"))
	w := makeWorks(t)
	for name, x := range map[string]world{
		"answers": {}, "closes": {closes: true}, "resets": {resets: true}, "takes a part": {small: true}, "is stopped": {stops: true}, "dies": {dies: true},
	} {
		every, n := &model.Every{Turns: turns}, 0
		for more := true; more; more = every.Next() {
			one := x
			one.process, one.least, one.rng = true, true, rand.New(rand.NewPCG(1, 29))
			m := &model.World{Bug: -1, Choose: every.Choose, Stays: func() bool { return false }, Jumps: func() bool { return false }}
			must.Do(t, schedule(m, &one, func() { one.live(w) }, nil), "%s: schedule %d", name, n)
			n++
		}
		t.Logf("%s: %d schedules", name, n)
	}
}
