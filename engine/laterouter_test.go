package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// arrival is a request as a server got it.
type arrival struct {
	host string
	body []byte
}

// named are servers that remember what they got, by request id.
type named struct {
	mu   sync.Mutex
	got  map[string]arrival
	pace *pace // nil: it answers at once
	slow bool  // it answers when the others have answered many
}

// pace is what servers together have answered. It makes one of them slow however slow the machine is.
type pace struct{ answered atomic.Int64 }

// looks is how many times in a row a slow server sees that the others answer nothing: at the end there is nothing for
// them to do.
const looks = 100

// hold returns when a server may answer a request that has just arrived.
func (s *named) hold() {
	switch {
	case s.pace == nil:
	case s.slow:
		const many = 30
		since := s.pace.answered.Load()
		last := since
		for idle := 0; last < since+many && idle < looks; idle++ {
			time.Sleep(time.Millisecond)
			if now := s.pace.answered.Load(); now > last {
				last, idle = now, 0
			}
		}
	default:
		time.Sleep(5 * time.Millisecond)
		s.pace.answered.Add(1)
	}
}

func (s *named) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.got[r.Header.Get("X-Request-Id")] = arrival{r.Host, body}
	s.mu.Unlock()
	s.hold()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, events(16, finish, usage(64, 16, 0), done))
}

// balancedWork is requests for servers whose names are of different lengths, each to be decided when it leaves. A nil
// server is an address that refuses.
func balancedWork(t *testing.T, n int, plan func([]int64) (sched.Plan, error), servers ...*named) *workload.Work {
	t.Helper()
	made := must.Have(trace.Generate(trace.Gen{ArrivalNS: workloadtest.Spaced(n, 1500), InputTokens: trace.Range{Min: 64, Max: 900}, OutputTokens: trace.Range{Min: 16, Max: 16}, Reuse: 0.5, BlockTokens: 16}))(t)
	p := must.Have(plan(made.ArrivalNS))(t)
	w := &workload.Work{Trace: made, Plan: p, Routing: workload.Routing{Late: true, Targets: route.Even(slices.Repeat([]int{1}, len(servers)))}}
	for i, s := range servers {
		addr := refusing(t)
		if s != nil {
			s.got = map[string]arrival{}
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			addr = netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
		}
		host := fmt.Sprintf("server%s:%d", strings.Repeat("-and-more", i), i)
		w.Targets = append(w.Targets, workload.Target{URL: "http://" + host, Host: host, Path: "/v1/completions", Endpoints: []netip.AddrPort{addr}})
	}
	w.Places = route.RoundRobin(n, w.Routing.Targets)
	w.Prebuilt = workloadtest.Build(t, workloadtest.Builder(t, "", "a", 1), w)
	return w
}

// refusing is an address at which nobody listens.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	ln := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// replayBalanced does the run, and checks that each request reached the server of its record as one that was built for
// it.
func replayBalanced(t *testing.T, w *workload.Work, n int, servers []*named) []*record.Record {
	t.Helper()
	k := new(sink)
	r := newRun(t, senderKind{n: n}, w, k)
	r.dialer.fillFirst(context.Background())
	must.Have(r.Do(context.Background()))(t)
	settled := *w
	settled.Routing.Late = false
	built := workloadtest.Build(t, workloadtest.Builder(t, "", "a", 1), &settled)
	for _, rec := range k.records {
		if rec.Outcome != record.OK {
			continue
		}
		i := slices.IndexFunc(w.Targets, func(t workload.Target) bool { return t.URL == rec.Target })
		if i < 0 || servers[i] == nil || rec.Endpoint != w.Targets[i].Endpoints[0].String() {
			t.Fatalf("row %d went to %q at %q", rec.Row, rec.Target, rec.Endpoint)
		}
		got, want := servers[i].got[rec.RequestID], built.At(int(rec.Row))
		_, body, _ := bytes.Cut(want, []byte("\r\n\r\n"))
		if got.host != w.Targets[i].Host || !bytes.Equal(got.body, body) || rec.BytesSent != int64(len(want)) {
			t.Fatalf("row %d: %s got it for %q with %d bytes of body, %d in all; want %d and %d", rec.Row, w.Targets[i].Host, got.host, len(got.body), rec.BytesSent, len(body), len(want))
		}
	}
	return k.records
}

// TestBalanceFollowsWhoIsQuick: a slow server gets fewer requests than the others, whatever releases them, and expected
// hits are those of where the requests went.
func TestBalanceFollowsWhoIsQuick(t *testing.T) {
	const n = 400
	for name, plan := range map[string]func([]int64) (sched.Plan, error){
		"open":   openPlan,
		"closed": closedPlan(12),
		"capped": capped(9, 2),
		"gated":  following(turnsAfter(conversations(n), nil), 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (name == "closed" || name == "capped") {
				t.Skip("left out by -short")
			}
			both := new(pace)
			servers := []*named{{pace: both}, {pace: both, slow: true}, {pace: both}}
			w := balancedWork(t, n, plan, servers...)
			records := replayBalanced(t, w, 1, servers)
			counts := map[string]int{}
			for _, rec := range records {
				counts[rec.Target]++
			}
			slow, quick := counts[w.Targets[1].URL], min(counts[w.Targets[0].URL], counts[w.Targets[2].URL])
			if len(records) != n || slow == 0 || slow >= quick {
				t.Errorf("%v of %d, want fewer at the slow one", counts, len(records))
			}
			if name != "open" {
				return // where answers release requests, two of one instant may leave in either order
			}
			ideal := w.IdealHits()
			for _, rec := range records {
				if want := ideal.Least[rec.Row]; rec.ExpectedCachedTokens != want || rec.MostCachedTokens != ideal.Most[rec.Row] {
					t.Fatalf("row %d: %d cached tokens expected, at most %d, want %d and %d", rec.Row, rec.ExpectedCachedTokens, rec.MostCachedTokens, want, ideal.Most[rec.Row])
				}
			}
		})
	}
}

// TestBalanceInARing: requests that are built during the run, some late, are as good.
func TestBalanceInARing(t *testing.T) {
	servers := []*named{{}, {}}
	w := balancedWork(t, 400, openPlan, servers...)
	m := ringed(t, w, 20)
	whole := w.Prebuilt
	w.Prebuilt = m
	for _, rec := range replayBalanced(t, w, 3, servers) {
		must.Equal(t, rec.Outcome, record.OK, rec)
	}
	m.DigestRest(context.Background(), new(atomic.Int64)) // on a busy machine requests leave before the ring has room for them
	if got, want := m.Fingerprint(), whole.Fingerprint(); got != want || got == "" {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

// TestDeadAddressDrawsFew: one that refuses has nothing in flight, but must not get all requests for it.
func TestDeadAddressDrawsFew(t *testing.T) {
	both := new(pace)
	servers := []*named{{pace: both}, nil, {pace: both}}
	w := balancedWork(t, 300, openPlan, servers...)
	failed := 0
	for _, rec := range replayBalanced(t, w, 1, servers) {
		if rec.Outcome != record.OK {
			failed++
			expect.Equal(t, rec.Target, w.Targets[1].URL, "row %d failed at: %s", rec.Row, rec.Error)
		}
	}
	if failed == 0 || failed > 300/2 {
		t.Errorf("%d of 300 failed at the one of three that is dead", failed)
	}
}

// TestBalanceChooses agrees with a search through plain counters, also after failures.
func TestBalanceChooses(t *testing.T) {
	chance := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		b := new(lateRouter)
		n := 1 + chance.IntN(6)
		inFlight, given, failures := make([]int64, n), make([]int64, n), make([]int64, n)
		for range n {
			b.pools = append(b.pools, &pool{weight: []float64{1, 2, 0.5}[chance.IntN(3)]})
		}
		for range 400 {
			want := 0
			for k, p := range b.pools {
				x, y := float64(inFlight[k])/p.weight, float64(inFlight[want])/b.pools[want].weight
				if x < y || x == y && float64(given[k])/p.weight < float64(given[want])/b.pools[want].weight {
					want = k
				}
			}
			got := b.choose(0)
			if got != b.pools[want] {
				t.Fatalf("%v in flight, %v given: chose %d, want %d", inFlight, given, slices.Index(b.pools, got), want)
			}
			got.sent.Add(1)
			inFlight[want]++
			given[want]++
			for k, p := range b.pools {
				if inFlight[k] == failures[k] || chance.IntN(3) > 0 {
					continue
				}
				switch chance.IntN(4) {
				case 0:
					p.endRequest(record.ConnectError)
					failures[k]++
				case 1:
					p.endRequest(record.Cancelled)
					inFlight[k]--
				default:
					p.endRequest(record.OK)
					inFlight[k] -= 1 + failures[k]
					failures[k] = 0
				}
			}
		}
	}
}

// TestBalanceNeedsConnections: what the next requests need levels what is in flight, and is enough.
func TestBalanceNeedsConnections(t *testing.T) {
	chance := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		b := new(lateRouter)
		for range 1 + chance.IntN(8) {
			p := &pool{weight: []float64{1, 3, 0.25}[chance.IntN(3)]}
			p.inFlight.Store(chance.Int64N(40))
			b.pools = append(b.pools, p)
		}
		next := chance.Int64N(100)
		needs, takes := make([]int64, len(b.pools)), make([]int64, len(b.pools))
		b.needs(5, 5+next)
		for k, p := range b.pools {
			needs[k] = p.due
		}
		for range next {
			takes[slices.Index(b.pools, b.choose(0))]++
		}
		for k := range needs {
			if needs[k] < takes[k] || needs[k] > takes[k]+2 {
				t.Fatalf("%d more: %v connections, and %v are taken", next, needs, takes)
			}
		}
	}
}

// TestBalanceAllocatesNothing where a request leaves.
func TestBalanceAllocatesNothing(t *testing.T) {
	w := balancedWork(t, 300, openPlan, nil, nil, nil)
	r := newRun(t, oneThread, w, new(sink))
	i := int32(0)
	expect.Equal(t, testing.AllocsPerRun(200, func() {
		p := r.choosePool(i)
		w.Prebuilt.SetTarget(i, p.target)
		p.endRequest(record.OK)
		i++
	}), 0, "allocations a request")
	r.hangUp()
}

// TestBalanceRefuses: targets with two paths cannot be chosen between at the release; a sender process cannot know what
// has ended.
func TestBalanceRefuses(t *testing.T) {
	w := balancedWork(t, 2, openPlan, nil, nil)
	expect.Equal(t, w.CheckLate(), nil)
	held, _ := equalWork(t, 2, capped(1, 1))
	if whyNoSenderProcess(w, nil) == nil || whyNoSenderProcess(held, nil) == nil {
		t.Error("a sender process is allowed with least-inflight or a cap")
	}
	w.Targets[1].Path = "/v2/completions"
	expect.Error(t, w.CheckLate(), "/v2/completions", "two paths")
}
