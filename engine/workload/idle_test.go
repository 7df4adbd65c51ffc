package workload_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestCapIdle compares with cutting, ns by ns of a small trace, what lies further from the last busy ns than the cap.
func TestCapIdle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a := sched.AssumedLatency{TTFT: 3, TPOT: 1}
	for range 20 {
		const n = 30
		at := make([]int64, n)
		for i := range at[1:] {
			at[i+1] = rng.Int64N(600)
		}
		slices.Sort(at)
		made := must.Have(trace.Generate(trace.Gen{Format: "bailian", ArrivalNS: slices.Clone(at), InputTokens: trace.Range{Min: 64, Max: 4000}, OutputTokens: trace.Range{Min: 1, Max: 20}, Turns: trace.Range{Min: 1, Max: 6}, Active: 3}))(t)
		if !slices.ContainsFunc(made.Parent, func(p int64) bool { return p >= 0 }) {
			t.Fatal("no conversation of several turns")
		}
		made.TookNS = make([]int64, n)
		for i := range made.TookNS {
			made.TookNS[i] = cmp.Or(rng.Int64N(40)-10, 1)
		}
		most, system := 1+rng.Int64N(30), rng.IntN(2) == 0
		took := func(i int) int64 {
			if made.TookNS[i] >= 0 {
				return made.TookNS[i]
			}
			return a.LastNS(made.OutputTokens[i])
		}
		want := map[int32]int64{} // by row
		cutNS := map[int64]int64{}
		for i := range n {
			same := func(j int) bool { return system || made.Session[j] == made.Session[i] }
			cut, idle, begun := int64(0), int64(0), false
			for ns := int64(0); ns < at[i]; ns++ {
				busy := false
				for j := range n {
					begun = begun || same(j) && at[j] <= ns
					busy = busy || same(j) && at[j] <= ns && ns < at[j]+took(j)
				}
				if idle++; busy || !begun {
					idle = 0
				}
				if idle > most {
					cut++
				}
			}
			want[made.Row[i]] = at[i] - cut
			key := made.Session[i]
			if system {
				key = 0
			}
			cutNS[key] = max(cutNS[key], cut)
		}
		got, found := workload.CapIdle(made, most, system, a)
		all := int64(0)
		for _, ns := range cutNS {
			all += ns
		}
		if found.CutNS != all || found.FromNS != made.SpanNS() || found.SpanNS != got.SpanNS() || !slices.IsSorted(got.ArrivalNS) {
			t.Fatalf("%+v, want %d ns of a span of %d", found, all, made.SpanNS())
		}
		for i := range n {
			must.Equal(t, got.ArrivalNS[i], want[got.Row[i]], "at most %d ns idle, system %v: instant of row %d", most, system, got.Row[i])
		}
	}
}

// TestLanesOfRepetitions: each repetition of a conversation is a job of its own, and waits and bounds stay within jobs.
func TestLanesOfRepetitions(t *testing.T) {
	made := must.Have(trace.Generate(trace.Gen{Format: "bailian", ArrivalNS: workloadtest.Spaced(200, 10), InputTokens: trace.Range{Min: 64, Max: 4000}, OutputTokens: trace.Range{Min: 1, Max: 20}, Turns: trace.Range{Min: 1, Max: 4}, Active: 9}))(t)
	twice := must.Have(made.Repeat(2))(t)
	n := twice.Len()
	turns := workload.FollowPolicy{Think: true, Jobs: true, Speed: 1, Assumed: sched.AssumedLatency{TTFT: time.Millisecond}}.Dependencies(twice, n)
	expect.Equal(t, turns.Jobs(), 2*len(slices.Compact(slices.Sorted(slices.Values(made.Session)))), "jobs of conversations %v", twice.Session)
	latest := int32(-1)
	for i, job := range turns.Job {
		if job > latest+1 || (i >= n/2) != (int(job) >= turns.Jobs()/2) {
			t.Errorf("request %d is in job %d after %d", i, job, latest)
		}
		latest = max(latest, job)
		for _, w := range turns.Of(int32(i)) {
			expect.Equal(t, turns.Job[w.On], job, "request %d waits for %d of another job", i, w.On)
		}
	}
	if turns.NotBeforeNS != nil {
		t.Errorf("the first request of a conversation waits for nothing, and leaves with its job: %v", turns.NotBeforeNS)
	}
	if n, cut := workload.CapDelays(turns, 5e7); n == 0 || cut == 0 || slices.ContainsFunc(turns.List, func(w sched.Dependency) bool { return w.DelayNS > 5e7 }) {
		t.Errorf("%d delays cut by %d ns: %v", n, cut, turns.List)
	}
}

// TestCapDelays: a request loses as much as its longest delay does, however many it has.
func TestCapDelays(t *testing.T) {
	turns := new(sched.Dependencies)
	turns.Add()
	turns.Add(sched.Dependency{DelayNS: 30}, sched.Dependency{DelayNS: 50, Dispatch: true}, sched.Dependency{DelayNS: 5})
	turns.Add(sched.Dependency{DelayNS: 11, On: 1})
	turns.Add(sched.Dependency{DelayNS: 10, On: 2})
	n, cut := workload.CapDelays(turns, 10)
	want := []sched.Dependency{{DelayNS: 10}, {DelayNS: 10, Dispatch: true}, {DelayNS: 5}, {DelayNS: 10, On: 1}, {DelayNS: 10, On: 2}}
	if n != 2 || cut != 41 || !slices.Equal(turns.List, want) {
		t.Errorf("%d requests, by %d ns: %v, want 2, by 41 ns: %v", n, cut, turns.List, want)
	}
}
