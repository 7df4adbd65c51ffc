package engine

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/sched"
)

// preparedLanes plans three jobs of four requests in two lanes. The first two jobs' first requests are primers, and
// the next two warm up. Within a job each request waits for the one before it, or for the first one, as another stream.
func preparedLanes(arrivals []int64) (sched.Plan, error) {
	d := &sched.Dependencies{Think: true, Primers: 2, Prepare: 4}
	d.Job = []int32{0, 1, 0, 1, 0, 0, 1, 1, 2, 2, 2, 2}
	d.Stream = []int32{0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1}
	for i, on := range []int32{-1, -1, 0, 1, 2, 0, 3, 1, -1, 8, 8, 10} {
		if on < 0 {
			d.Add()
		} else {
			d.Add(sched.Dependency{On: on, DelayNS: int64(i) * 1000})
		}
	}
	plan, err := sched.Closed(len(arrivals), 2, 0)
	if err != nil {
		return plan, err
	}
	return plan.Following(d)
}

// refusing lets a server answer some requests, by their numbers, with an error.
func (s *server) refusing(status int, message string, requests ...int) {
	s.handle = func(_ int64, c net.Conn) {
		s.each(c, func(request []byte) []byte {
			_, id, _ := bytes.Cut(request, []byte("X-Request-Id: a-"))
			id, _, _ = bytes.Cut(id, []byte("\r\n"))
			if number, _ := strconv.Atoi(string(id)); slices.Contains(requests, number) {
				body := fmt.Sprintf(`{"error":{"message":%q}}`, message)
				return []byte(responseText(status, "Content-Type: application/json\r\n", body))
			}
			return s.answer
		})
	}
}

// replayPrepared replays preparedLanes.
func replayPrepared(t *testing.T, status int, message string, refused ...int) (map[int64]*record.Record, Result, *server) {
	w, s := equalWork(t, 12, preparedLanes)
	s.refusing(status, message, refused...)
	k := new(sink)
	f := do(t, s, newRun(t, oneThread, w, k))
	if rows := byRow(k.records); len(rows) == 12 && len(k.records) == 12 {
		return rows, f, s
	}
	t.Fatalf("%d records", len(k.records))
	return nil, f, s
}

// TestNothingPassesTheBarrier: what prepares ends below 0, what is profiled is planned and sent from 0 on, and the run
// says when all has ended. What waits for a request counts from when that was sent or had ended.
func TestNothingPassesTheBarrier(t *testing.T) {
	w, s := equalWork(t, 12, preparedLanes)
	w.Plan.Dependencies.List[w.Plan.Dependencies.First[10]].Dispatch = true
	var read, prepared atomic.Int64
	s.refusing(0, "")
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	r.cfg.OnPrepared = func() { read.Store(s.served.Load()); prepared.Add(1) }
	f := do(t, s, r)
	if k.outcomes()[record.OK] != 12 || read.Load() != 4 || prepared.Load() != 1 {
		t.Fatalf("%v; %d requests were read before the barrier, which came %d times", k.outcomes(), read.Load(), prepared.Load())
	}
	for i, rec := range byRow(k.records) {
		phase := record.Profiled
		if i < 4 {
			phase = []record.Phase{record.Primer, record.Primer, record.Warmup, record.Warmup}[i]
		}
		if rec.Phase != phase || (phase == record.Profiled) != (rec.PlannedNS >= 0) || rec.PlannedNS > rec.SentNS || phase != record.Profiled && rec.DoneNS > 0 {
			t.Errorf("request %d: phase %q, planned %d, sent %d, done %d", i, rec.Phase, rec.PlannedNS, rec.SentNS, rec.DoneNS)
		}
		if at := f.Run.StartedAt.UnixMicro() + rec.SentNS/1000 - int64(rec.SentAt); at < -2 || at > 2 {
			t.Errorf("request %d: its date is %d µs from its instant", i, at)
		}
	}
	for i := int64(4); i < 8; i++ {
		rec, waits := byRow(k.records)[i], w.Plan.Dependencies.Of(int32(i))
		if waits[0].On < 4 && rec.PlannedNS != waits[0].DelayNS {
			t.Errorf("request %d was planned %d ns after the barrier, want %d", i, rec.PlannedNS, waits[0].DelayNS)
		}
	}
	for i := int64(9); i < 12; i++ {
		w := w.Plan.Dependencies.Of(int32(i))[0]
		at := byRow(k.records)[int64(w.On)].DoneNS
		if w.Dispatch {
			at = byRow(k.records)[int64(w.On)].SentNS
		}
		expect.Equal(t, byRow(k.records)[i].PlannedNS, at+w.DelayNS, "what it waits for was over at %d: request %d was planned for", at, i)
	}
	last := slices.MaxFunc(k.records, func(a, b *record.Record) int { return int(a.DoneNS - b.DoneNS) })
	if ends := int64(f.Run.DurationS * 1e9); ends < last.DoneNS-1 {
		t.Errorf("the run took %d ns, and its last request ended at %d", ends, last.DoneNS)
	}
}

// TestPrimerEndsTheRun: when a primer has failed, nothing is sent that is profiled.
func TestPrimerEndsTheRun(t *testing.T) {
	rows, f, _ := replayPrepared(t, 503, "no room", 1)
	if !strings.Contains(f.Run.PrimerFailed, `row 1, http_error: no room`) || !f.Run.Partial {
		t.Errorf("%+v", f.Run)
	}
	for i := int64(4); i < 12; i++ {
		if rec := rows[i]; rec.SentNS != record.None || rec.Outcome != record.NotSent || rec.Error != f.Run.PrimerFailed {
			t.Errorf("request %d: %v %q, sent at %d", i, rec.Outcome, rec.Error, rec.SentNS)
		}
	}
}

// TestWarmupMayFail: the barrier is passed although a request that warms up has failed.
func TestWarmupMayFail(t *testing.T) {
	rows, f, s := replayPrepared(t, 503, "no room", 2)
	if f.Run.PrimerFailed != "" || f.Run.Partial || s.served.Load() != 12 || rows[4].Outcome != record.OK {
		t.Errorf("%+v, %d requests were read", f.Run, s.served.Load())
	}
}

// TestTooLongEndsItsStream: what comes after a request that is too long for the server is not sent, and says why.
func TestTooLongEndsItsStream(t *testing.T) {
	const words = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"
	for refused, want := range map[int][]int64{
		1:  {3, 6, 7},   // a primer, and what waits for it alone
		2:  {4},         // the agent's next one, and not the other agent
		8:  {9, 10, 11}, // with the agent that its answer would have begun
		10: {11},
	} {
		rows, f, s := replayPrepared(t, 400, words, refused)
		if f.Run.PrimerFailed != "" || f.Run.Partial || int(s.served.Load()) != 12-len(want) {
			t.Errorf("%d refused: %+v, %d requests were read", refused, f.Run, s.served.Load())
		}
		for i, rec := range rows {
			lost := slices.Contains(want, i)
			if rec.LeftOut() != lost || !lost && (rec.Outcome == record.OK) == (i == int64(refused)) {
				t.Errorf("%d refused: request %d: %v %q", refused, i, rec.Outcome, rec.Error)
			}
		}
	}
}

// TestUntakenJobsAreNoPart: if a run with an end is stopped, what is left of jobs that lanes have taken is not sent, and
// jobs that no lane has taken are no part of it. Nothing is open while the run prepares.
func TestUntakenJobsAreNoPart(t *testing.T) {
	w, s := equalWork(t, 12, func(arrivals []int64) (sched.Plan, error) {
		plan, err := preparedLanes(arrivals)
		plan.EndNS = 1e15
		return plan, err
	})
	s.refusing(503, "no room", 1) // a primer, which ends the run
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	r.EachOpen(func(_ rows.Owner, _, _, _ int64) { t.Error("a request is open before the barrier") })
	f := do(t, s, r)
	if len(k.records) != 8 || !slices.Equal(f.LeftOut, []int32{8, 9, 10, 11}) {
		t.Errorf("%d records, and %v were left out", len(k.records), f.LeftOut)
	}
}
