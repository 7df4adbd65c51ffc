package engine

import (
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// server answers each request of a known size with the same bytes and allocates nothing while it does.
type server struct {
	net.Listener
	request  int // bytes of each request
	answer   []byte
	accepted atomic.Int64
	served   atomic.Int64
	used     atomic.Int64 // connections that had a request
	// handle, where set, takes a connection over.
	handle func(n int64, c net.Conn)
}

func (s *server) run() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		n := s.accepted.Add(1)
		if s.handle != nil {
			go s.handle(n, c)
		} else {
			go s.serve(c)
		}
	}
}

func (s *server) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, s.request)
	for first := true; ; first = false {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		s.served.Add(1)
		if first {
			s.used.Add(1)
		}
		if _, err := c.Write(s.answer); err != nil {
			return
		}
	}
}

// each answers the requests of a connection one after the other, with what answer makes of a request's bytes.
func (s *server) each(c net.Conn, answer func(request []byte) []byte) {
	defer func() { _ = c.Close() }()
	for buf := make([]byte, s.request); ; {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		s.served.Add(1)
		if _, err := c.Write(answer(buf)); err != nil {
			return
		}
	}
}

// after calls f when n requests have been served.
func (s *server) after(n int64, f func()) {
	for s.served.Load() < n {
		runtime.Gosched()
	}
	f()
}

// sink keeps the order of completion and the gaps.
type sink struct {
	mu      sync.Mutex
	records []*record.Record
	kept    []record.Record // where they lie
	gaps    []int64
}

func (s *sink) Record(r *record.Record, _ int) {
	if len(s.kept) == cap(s.kept) {
		s.kept = make([]record.Record, 0, 1024)
	}
	s.kept = append(s.kept, *r)
	s.records = append(s.records, &s.kept[len(s.kept)-1])
}

func (s *sink) Tick() {}
func (s *sink) Gaps(_ int, gaps []int64, _ []metrics.LateReadGap) {
	s.mu.Lock()
	s.gaps = append(s.gaps, gaps...)
	s.mu.Unlock()
}

func (s *sink) outcomes() map[record.Outcome]int {
	count := map[record.Outcome]int{}
	for _, r := range s.records {
		count[r.Outcome]++
	}
	return count
}

// equalWork is n requests of equal size, planned by plan.
func equalWork(t testing.TB, n int, plan func(arrivals []int64) (sched.Plan, error)) (*workload.Work, *server) {
	ln := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ln.Close() })
	made := must.Have(trace.Generate(trace.Gen{ArrivalNS: workloadtest.Spaced(n, 2000), InputTokens: trace.Range{Min: 64, Max: 64}, OutputTokens: trace.Range{Min: 16, Max: 16}}))(t)
	p := must.Have(plan(made.ArrivalNS))(t)
	addr := netip.MustParseAddrPort(ln.Addr().String())
	w := &workload.Work{Trace: made, Plan: p, Places: route.RoundRobin(p.Requests, route.Even([]int{1}))}
	w.Targets = []workload.Target{{URL: "http://" + addr.String(), Host: addr.String(), Path: "/v1/completions", Endpoints: []netip.AddrPort{addr}, Name: "127.0.0.1", Port: addr.Port()}}
	r := workloadtest.Builder(t, "", "a", 1)
	w.Prebuilt = workloadtest.Build(t, r, w)
	s := &server{Listener: ln, request: w.Prebuilt.Largest(), answer: []byte(chunked(events(16, finish, usage(64, 16, 0), done)))}
	return w, s
}

// patience is longer than a busy machine delays anything.
const patience = 10 * time.Minute

func newRun(t testing.TB, kind senderKind, w *workload.Work, k Sink) *Run {
	return newRunWith(t, kind, w, k, nil)
}

func newRunWith(t testing.TB, kind senderKind, w *workload.Work, k Sink, secure *tls.Config) *Run {
	backend := must.Have(api.New("completions", api.Options{Stream: true}))(t)
	r := New(Config{
		Backend: backend, Stream: true, Timeout: patience, IdleTimeout: patience, ConnectTimeout: patience, Grace: patience,
		Realtime: sched.RealtimeAuto, Spin: sched.AutoSpin, Senders: kind.n, Descriptors: 4096, SenderCommand: kind.command, TLS: secure,
	}, w, "a", workload.IdealHits{}, k)
	r.closingRace, r.keptAtLeast = patience, patience
	if kind.command != nil && w.Plan.Open() && r.process == nil {
		t.Fatal("no process for the senders: ", r.processErr)
	}
	return r
}

func do(t testing.TB, s *server, r *Run) Result {
	go s.run()
	r.dialer.fillFirst(context.Background()) // Connect looks for servers too, among all sockets of the machine
	found := must.Have(r.Do(context.Background()))(t)
	return found
}

func openPlan(arrivals []int64) (sched.Plan, error) { return sched.FromTrace(arrivals, 1, 0) }

// fasterPlan replays equalWork's 2,000 requests a second at 6,000.
func fasterPlan(arrivals []int64) (sched.Plan, error) { return sched.FromTrace(arrivals, 3, 0) }

func closedPlan(concurrency int) func([]int64) (sched.Plan, error) {
	return func(arrivals []int64) (sched.Plan, error) { return sched.Closed(len(arrivals), concurrency, 0) }
}

// TestRunSendsEveryRequestOnceAndNeverEarly also expects the machine's measurements, which exist on Linux only.
func TestRunSendsEveryRequestOnceAndNeverEarly(t *testing.T) {
	eachSender(t, runSendsEveryRequestOnceAndNeverEarly)
}

func runSendsEveryRequestOnceAndNeverEarly(t *testing.T, kind senderKind) {
	w, s := equalWork(t, 400, openPlan)
	k := new(sink)
	r := newRun(t, kind, w, k)
	stamps := kernelStamps(t)
	r.useStamps(stamps)
	found := do(t, s, r).Client
	checkMachine(t, found.Machine)
	threads := slices.Clone(r.soleSenders())
	slices.Sort(threads)
	if threads = slices.Compact(threads); runtime.GOOS == "linux" && (len(threads) != kind.n || threads[0] == 0) {
		t.Errorf("threads %v send, want %d", threads, kind.n)
	}
	if len(k.records) != 400 || s.served.Load() != 400 {
		t.Fatalf("%d records of %d served requests, want 400", len(k.records), s.served.Load())
	}
	seen := map[int64]bool{}
	for _, r := range k.records {
		if seen[r.Row] || r.Outcome != record.OK || r.Chunks != 16 || r.PromptTokens != 64 || r.BytesSent != int64(len(w.Prebuilt.At(0))) {
			t.Fatalf("record %+v", r)
		}
		seen[r.Row] = true
		if r.DriftNS() < 0 || r.WrittenNS < r.SentNS || r.HeadersNS < r.SentNS || r.FirstTokenNS < r.HeadersNS || r.DoneNS < r.LastTokenNS ||
			r.DepartedNS != record.None && r.DepartedNS < r.SentNS-apart || r.AckedNS != record.None && r.AckedNS < r.DepartedNS-apart {
			t.Fatalf("instants out of order: %+v", r)
		}
	}
	if stamps.Receive {
		checkLag(t, r, found)
	}
	expect.Equal(t, len(k.gaps), 400*15, "gaps")
}

// apart is how far two instants may seem out of order of which the kernel has one from its own clock: sched.Wall's
// tolerance, twice.
const apart = 20_000

// kernelStamps are those that this machine has.
func kernelStamps(t *testing.T) wire.Stamps {
	stamps := wire.Stamps{Receive: true, Send: true}
	if err := wire.ProbeStamps(stamps); err != nil {
		t.Log("without stamps: ", err)
		return wire.Stamps{}
	}
	return stamps
}

// checkLag: each read of a response has a lag, or is counted as one without a stamp.
func checkLag(t *testing.T, r *Run, found metrics.Client) {
	t.Helper()
	f := found.Stamps
	if f.Reads == 0 || f.Reads+f.Unstamped+f.Dropped < 400 || found.ReceiveLagUS == nil || r.readLag.lag.Count() != f.Reads {
		t.Fatalf("%+v, %d lags", f, r.readLag.lag.Count())
	}
	if us, ns := found.ReceiveLagUS.P99, r.readLag.lag.QuantileNS(990); math.Abs(us*1e3-float64(ns)) > 0.5 {
		t.Errorf("a receive lag of %g µs, want %d ns in µs", us, ns)
	}
}

func checkMachine(t *testing.T, c stats.Machine) {
	t.Helper()
	for name, v := range map[string]*float64{"stolen": c.StolenS, "stolen share": c.StolenShare, "worst second": c.StolenWorst, "run queue": c.RunQueueS, "senders' run queue": c.SenderRunQueueS} {
		expect.Equal(t, v != nil, runtime.GOOS == "linux", "%s on %s: %v", name, runtime.GOOS, v)
	}
	for name, v := range map[string]*float64{"stolen share": c.StolenShare, "worst second": c.StolenWorst} {
		if v != nil && (*v < 0 || *v > 1) {
			t.Errorf("%s is %g", name, *v)
		}
	}
}

// TestHotPathDoesNotAllocate counts every allocation of the process, server included, while thousands of requests pass.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector allocates")
	}
	hotPathDoesNotAllocate(t, 8000, oneThread, closedPlan(8), wire.Stamps{})
	stamps := kernelStamps(t)
	eachSender(t, func(t *testing.T, kind senderKind) {
		n := 5000
		if kind.command != nil {
			n = 12_000 // many connections are used for the first time
		}
		hotPathDoesNotAllocate(t, n, kind, fasterPlan, stamps)
	})
}

func hotPathDoesNotAllocate(t *testing.T, n int, kind senderKind, plan func([]int64) (sched.Plan, error), stamps wire.Stamps) {
	w, s := equalWork(t, n, plan)
	go s.run()
	k := &sink{records: make([]*record.Record, 0, n), gaps: make([]int64, 0, 16*n)}
	r := newRun(t, kind, w, k)
	r.useStamps(stamps)
	r.dialer.fillFirst(context.Background())
	var before, after runtime.MemStats
	dialled := r.dialled.Load()
	runtime.ReadMemStats(&before)
	goroutines := -goroutinesCreated()
	found := must.Have(r.Do(context.Background()))(t)
	goroutines += goroutinesCreated()
	runtime.ReadMemStats(&after)
	// A connection allocates when it is made, with its first answer, and if a goroutine comes to read it, as after an
	// answer that ends before the sender has noted the end of its write. The run starts a few goroutines and timers.
	// The machine watch asks each thread at the beginning and at the end of a run how long it waited.
	const perConnection, perUsed, perGoroutine, perRun, perThread = 100, 10, 10, 1000, 25
	threads, _ := os.ReadDir("/proc/self/task")
	connections := int(r.notReady.Load() + r.dialled.Load() - dialled)
	used := int(s.used.Load())
	mallocs := int(after.Mallocs - before.Mallocs)
	if mallocs > perConnection*connections+perUsed*used+perGoroutine*goroutines+perRun+perThread*len(threads) {
		t.Errorf("%+v, open %v, %+v: %d allocations in %d requests over %d new and %d used connections, %d goroutines",
			kind, w.Plan.Open(), stamps, mallocs, n, connections, used, goroutines)
	}
	expect.Equal(t, found.Client.GCCycles, 0, "%+v, open %v, %+v: collections during the replay", kind, w.Plan.Open(), stamps)
}

// goroutinesCreated is how many goroutines this process has started.
func goroutinesCreated() int {
	count := []runtimemetrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	runtimemetrics.Read(count)
	return int(count[0].Value.Uint64())
}

// useStamps makes a run that has not begun use stamps.
func (r *Run) useStamps(stamps wire.Stamps) {
	r.cfg.Stamps = stamps
	for _, p := range r.pools {
		p.dial.Stamps = stamps
	}
}

// TestClosedLoopEndsInTime: what is not released before its end is left out, and few connections are made. TestTurnsWait
// has what is in flight.
func TestClosedLoopEndsInTime(t *testing.T) {
	const all, end = 1 << 16, 200 * time.Millisecond
	w, s := equalWork(t, all, func(a []int64) (sched.Plan, error) { return sched.Closed(len(a), 4, end) })
	k := new(sink)
	f := do(t, s, newRun(t, oneThread, w, k))
	if out := len(f.LeftOut); len(k.records)+out != all || out == 0 {
		t.Errorf("%d records and %d left out of %d requests", len(k.records), out, all)
	}
	if f.Connections.Dialled > 4+1+dialSpare || f.Client.Machine.SenderRunQueueS != nil {
		t.Errorf("%+v, %+v", f.Connections, f.Client.Machine)
	}
	for _, rec := range k.records {
		if rec.PlannedNS >= int64(end) || rec.DriftNS() < 0 {
			t.Fatalf("released at %d ns, drift %d ns", rec.PlannedNS, rec.DriftNS())
		}
	}
}
