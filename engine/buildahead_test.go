package engine

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// ringed are w's requests, built during the run in a ring that holds a little more than so many.
func ringed(t *testing.T, w *workload.Work, requests int) *workload.Requests {
	m := must.Have(workloadtest.Builder(t, "", "a", 1).Layout(t.Context(), w))(t)
	must.Do(t, m.UseRing(int64(requests*m.Largest()+17)))
	must.Do(t, m.FillRing(t.Context(), new(atomic.Int64)))
	t.Cleanup(func() { _ = m.Free() })
	return m
}

// TestRingSendsTheSameBytes: requests that are built during the run, in a ring, reach the server with the same bytes as
// those built before it, also if they are sent again. The fingerprint is the same.
func TestRingSendsTheSameBytes(t *testing.T) { eachSender(t, ringSendsTheSameBytes) }

func ringSendsTheSameBytes(t *testing.T, kind senderKind) {
	const n = 400
	w, s := equalWork(t, n, fasterPlan)
	whole := w.Prebuilt
	m := ringed(t, w, 60)
	if m.Ready(n-1) || !m.Ready(50) || m.Fingerprint() != "" {
		t.Fatal("the ring holds other requests than the first")
	}
	w.Prebuilt = m
	var wrong atomic.Int64
	s.handle = func(_ int64, c net.Conn) {
		defer func() { _ = c.Close() }()
		buf := make([]byte, s.request)
		for range 40 { // then it closes, and what is on its way is sent again
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			s.served.Add(1)
			_, after, _ := bytes.Cut(buf, []byte("X-Request-Id: a-"))
			i, err := strconv.Atoi(string(after[:9]))
			if err != nil || !bytes.Equal(buf, whole.At(i)) {
				wrong.Add(1)
			}
			if _, err := c.Write(s.answer); err != nil {
				return
			}
		}
	}
	k := new(sink)
	run := newRun(t, kind, w, k)
	b := do(t, s, run).BuildAhead
	ok := int64(0)
	for _, rec := range k.records {
		switch rec.Outcome {
		case record.OK:
			ok++
		case record.Reset: // crossed the server's end of the connection on its way
		default:
			t.Errorf("row %d: %v %q", rec.Row, rec.Outcome, rec.Error)
		}
	}
	if len(k.records) != n || s.served.Load() != ok || ok < n*9/10 || wrong.Load() != 0 {
		t.Errorf("%d records, %d ok, %d served, %d with other bytes", len(k.records), ok, s.served.Load(), wrong.Load())
	}
	m.DigestRest(t.Context(), new(atomic.Int64))
	expect.Equal(t, m.Fingerprint(), whole.Fingerprint(), "fingerprint")
	if b == nil || b.LeastLeadMS == nil || b.WindowBytes != m.RingBytes() || (b.Late > 0) != (*b.LeastLeadMS < 0) {
		t.Errorf("built ahead: %+v", b)
	}
}

// TestBuiltBeforeTheBarrier: what was built while others prepared was built in time, though instants count from the
// barrier.
func TestBuiltBeforeTheBarrier(t *testing.T) {
	w, s := equalWork(t, 12, preparedLanes)
	m := ringed(t, w, 8)
	expect.Equal(t, m.Ready(11), false, "all is built before the start")
	w.Prebuilt = m
	s.refusing(0, "")
	r := newRun(t, oneThread, w, new(sink))
	r.cfg.OnPrepared = func() {
		for !m.Ready(11) {
			runtime.Gosched()
		}
	}
	if b := do(t, s, r).BuildAhead; b == nil || b.Late > 0 || b.LeastLeadMS == nil || *b.LeastLeadMS < 0 {
		t.Errorf("built ahead: %+v", b)
	}
}

// TestNothingIsBuiltAfterTheEnd: a run whose time is over does not build what it never sent, for which servers and
// machine would be watched on. Whoever wants the fingerprint builds it then, until he is interrupted.
func TestNothingIsBuiltAfterTheEnd(t *testing.T) {
	const end = 20 * time.Millisecond
	w, s := equalWork(t, 200, func(a []int64) (sched.Plan, error) { return sched.Closed(len(a), 2, end) })
	whole := w.Prebuilt
	m := ringed(t, w, 8)
	w.Prebuilt = m
	r := newRun(t, oneThread, w, new(sink))
	s.handle = func(_ int64, c net.Conn) {
		defer func() { _ = c.Close() }()
		_, _ = io.ReadFull(c, make([]byte, s.request))
		for r.clock.Now() < 2*int64(end) {
			runtime.Gosched()
		}
		_, _ = c.Write(s.answer)
	}
	if f := do(t, s, r); len(f.LeftOut) < 150 || f.BuildAhead == nil || m.Ready(199) {
		t.Fatalf("%d requests are left out, built ahead: %+v, the last one is built: %v", len(f.LeftOut), f.BuildAhead, m.Ready(199))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	m.DigestRest(over, new(atomic.Int64))
	expect.Equal(t, m.Fingerprint(), "", "fingerprint after an interruption")
	m.DigestRest(t.Context(), new(atomic.Int64))
	expect.Equal(t, m.Fingerprint(), whole.Fingerprint(), "fingerprint")
}

// TestBuiltAhead: a lead counts until a request could leave, so that nothing late has none and nothing punctual a lead
// below 0.
func TestBuiltAhead(t *testing.T) {
	const n = 8
	ms := func(at float64) int64 { return int64(at * 1e6) }
	nothing := &workload.Work{Trace: &trace.Trace{}}
	builder := workloadtest.Builder(t, "", "a", 1)
	m, err := builder.Layout(t.Context(), nothing)
	must.Do(t, err)
	must.Do(t, m.UseRing(9))
	for name, c := range map[string]struct {
		heldNS  []int64 // by a cap
		notSent []int   // rows
		batches []batch // the first before the start
		leastMS float64 // NaN: there is no lead
		late    int64
	}{
		"before the start":     {nil, nil, []batch{{to: n}}, math.NaN(), 0},
		"all in time":          {nil, nil, []batch{{to: 2}, {5, ms(1.5)}, {n, ms(4)}}, 0.5, 0},
		"some late":            {nil, nil, []batch{{to: 2}, {5, ms(3.25)}, {n, ms(4)}}, -1.25, 2},
		"held back till then":  {[]int64{0, 0, ms(2), ms(1), 0, 0, 0, 0}, nil, []batch{{to: 2}, {5, ms(3.25)}, {n, ms(4)}}, 0.75, 0},
		"never released":       {nil, []int{2, 3}, []batch{{to: 2}, {5, ms(3.25)}, {n, ms(4)}}, 0.75, 0},
		"not built at the end": {nil, []int{7}, []batch{{to: 2}, {5, ms(1)}, {n, ms(10)}}, -5, 2},
	} {
		ahead := aheadBuilder{work: &workload.Work{Prebuilt: m}, batches: c.batches}
		fates := make([]audit.Fate, n)
		for i := range fates {
			fates[i] = audit.Fate{PlannedNS: ms(float64(i))}
		}
		for _, i := range c.notSent {
			fates[i].Outcome = record.NotSent
		}
		heldNS := func(i int32) int64 {
			if c.heldNS == nil {
				return 0
			}
			return c.heldNS[i]
		}
		got := ahead.result(fates, heldNS)
		least := math.NaN()
		if got.LeastLeadMS != nil {
			least = *got.LeastLeadMS
		}
		if got.WindowBytes != 9 || got.Late != c.late || !(least == c.leastMS || math.IsNaN(least) && math.IsNaN(c.leastMS)) {
			t.Errorf("%s: %+v, least lead %v ms; want %v ms, %d late", name, got, least, c.leastMS, c.late)
		}
	}
	m, err = builder.Layout(t.Context(), nothing)
	must.Do(t, err)
	ahead := aheadBuilder{work: &workload.Work{Prebuilt: m}}
	if ahead.result(nil, nil) != nil {
		t.Error("without a ring nothing is built during the run")
	}
}
