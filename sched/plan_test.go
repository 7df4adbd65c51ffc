package sched

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestFromTraceKeepsRecordedNanosecondsAtScaleOne(t *testing.T) {
	at := []int64{0, 1, 999_999_999_999_999_937} // beyond a float64's 53 bits
	p := must.Have(FromTrace(at, 1, 0))(t)
	if !slices.Equal(p.ReleaseNS, at) || p.Requests != 3 || !p.Open() || p.SpanNS() != at[2] {
		t.Fatalf("plan %+v, want the arrivals %v as they are", p, at)
	}
}

// TestFromTraceScales compares with exact rational arithmetic.
func TestFromTraceScales(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []float64{0.5, 2, 3, 60, 0.1, 1.0 / 3} {
		at := make([]int64, 200)
		for i := range at {
			at[i] = rng.Int64N(1 << 45)
		}
		slices.Sort(at)
		p := must.Have(FromTrace(at, scale, 0))(t)
		for i, got := range p.ReleaseNS {
			want, _ := new(big.Rat).Quo(new(big.Rat).SetInt64(at[i]), new(big.Rat).SetFloat64(scale)).Float64()
			if math.Abs(float64(got)-want) > 0.51 {
				t.Fatalf("%d ns at scale %v: planned %d, want %v", at[i], scale, got, want)
			}
		}
		if !slices.IsSorted(p.ReleaseNS) {
			t.Fatalf("scale %v broke the order", scale)
		}
	}
}

func TestPlansRefuseNonsense(t *testing.T) {
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		expect.Refused(FromTrace([]int64{0}, bad, 0))(t, "", "scale %v was accepted", bad)
	}
	expect.Refused(Closed(1, 0, 0))(t, "", "a closed loop of 0 was accepted")
}

func TestDurationLeavesOutWhatIsReleasedAtOrAfterIt(t *testing.T) {
	p, _ := FromTrace([]int64{0, 5e8, 1e9, 2e9}, 1, time.Second)
	if p.Requests != 2 || len(p.ReleaseNS) != 2 || p.EndNS != 1e9 {
		t.Errorf("%d requests before %d ns, want 2 before 1 s", p.Requests, p.EndNS)
	}
	if p, _ = FromTrace([]int64{0, 5e8, 1e9, 2e9}, 2, time.Second); p.Requests != 3 {
		t.Errorf("%d requests before 1 s at scale 2, want 3", p.Requests)
	}
	if p, _ = FromTrace([]int64{0, 5e8}, 1, 0); p.Requests != 2 || p.EndNS != math.MaxInt64 {
		t.Errorf("%d requests before %d ns, want 2 without an end", p.Requests, p.EndNS)
	}
}

func TestConstantSpacingDoesNotAccumulateError(t *testing.T) {
	const rate = 3.0
	p, _ := FromArrivals(1_000_000, Arrivals{Rate: Steady(rate), Process: Constant}, 0)
	for _, i := range []int{0, 1, 2, 3, 999_999} {
		want := new(big.Rat).SetFrac64(int64(i)*1e9, 3)
		exact, _ := want.Float64()
		expect.Near(t, float64(p.ReleaseNS[i]), exact, 0.51, "request %d at %d ns", i, p.ReleaseNS[i])
	}
}

func TestClosedPlan(t *testing.T) {
	p, err := Closed(5, 8, 2*time.Second)
	if err != nil || p.Open() || p.Concurrency != 5 || p.Requests != 5 || p.EndNS != 2e9 {
		t.Errorf("plan %+v, %v; want 5 in flight of 5, until 2 s", p, err)
	}
}

func TestCappedPlan(t *testing.T) {
	open, _ := FromTrace([]int64{0, 5}, 1, 0)
	p, err := open.Capped(3)
	if err != nil || p.Cap != 3 || !p.Open() || !slices.Equal(p.ReleaseNS, open.ReleaseNS) || open.Cap != 0 {
		t.Errorf("plan %+v, %v; want the same instants with a cap of 3", p, err)
	}
	expect.Refused(open.Capped(0))(t, "", "a cap of 0 was accepted")
	closed, _ := Closed(5, 2, 0)
	expect.Refused(closed.Capped(1))(t, "", "a closed loop took a cap")
}

// TestPeakWithin compares with counting every window that begins at a request.
func TestPeakWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		at := make([]int64, 1+rng.IntN(60))
		for i := range at {
			at[i] = rng.Int64N(1000)
		}
		slices.Sort(at)
		p, _ := FromTrace(at, 1, 0)
		window := 1 + rng.Int64N(300)
		want := 0
		for _, from := range at {
			n := 0
			for _, x := range at {
				if x >= from && x < from+window {
					n++
				}
			}
			want = max(want, n)
		}
		must.Equal(t, p.PeakWithin(time.Duration(window)), want, "peak of %v within %d", at, window)
	}
}

// turnsOf makes turns of what each request waits for.
func turnsOf(waits ...[]Dependency) *Dependencies {
	t := new(Dependencies)
	for _, w := range waits {
		t.Add(w...)
	}
	return t
}

// TestOnlyKeepsInstantsAndOrder: what waited for a missing request waits for what that one waited for, with its own
// delay.
func TestOnlyKeepsInstantsAndOrder(t *testing.T) {
	all := Plan{Requests: 6, ReleaseNS: []int64{5, 6, 7, 8, 9, 10}, Cap: 3, EndNS: 99,
		Dependencies: turnsOf(nil, []Dependency{{10, 0, true}}, []Dependency{{20, 1, false}, {25, 0, false}}, []Dependency{{30, 2, false}}, nil, []Dependency{{50, 4, false}, {60, 3, true}})}
	all.Dependencies.NotBeforeNS, all.Dependencies.Job = []int64{0, 1, 2, 3, 4, 5}, []int32{0, 0, 1, 1, 2, 2}
	p := all.Only([]int32{0, 3, 5})
	want := turnsOf(nil, []Dependency{{30, 0, false}, {30, 0, true}}, []Dependency{{60, 1, true}})
	if p.Requests != 3 || !slices.Equal(p.ReleaseNS, []int64{5, 8, 10}) || p.Cap != 3 || p.EndNS != 99 ||
		!slices.Equal(p.Dependencies.First, want.First) || !slices.Equal(p.Dependencies.List, want.List) ||
		!slices.Equal(p.Dependencies.NotBeforeNS, []int64{0, 3, 5}) || !slices.Equal(p.Dependencies.Job, []int32{0, 1, 2}) {
		t.Errorf("%+v, turns %+v", p, p.Dependencies)
	}
	if p := all.Only([]int32{4, 5}).Dependencies; !slices.Equal(p.Job, []int32{0, 0}) || p.Jobs() != 1 {
		t.Errorf("jobs %v", p.Job)
	}
	if all.Requests != 6 || len(all.ReleaseNS) != 6 || len(all.Dependencies.First) != 7 {
		t.Errorf("the plan itself was changed: %+v", all)
	}
	if p := (Plan{Requests: 6, Concurrency: 4}).Only([]int32{1, 2}); p.Requests != 2 || p.Concurrency != 2 || p.ReleaseNS != nil || p.Dependencies != nil || p.Open() {
		t.Errorf("closed: %+v", p)
	}
}

// TestOnlyKeepsPreparation: of the requests that are left those prepare that did, and each keeps its stream.
func TestOnlyKeepsPreparation(t *testing.T) {
	all := turnsOf(nil, nil, []Dependency{{0, 0, false}}, []Dependency{{0, 1, false}})
	all.Think, all.Prepare, all.Primers, all.TreeIdleNS = true, 2, 1, 7
	all.Job, all.Stream = []int32{0, 1, 0, 1}, []int32{4, 5, 6, 7}
	got := Plan{Requests: 4, Concurrency: 2, Dependencies: all}.Only([]int32{1, 2, 3}).Dependencies
	if got.Prepare != 1 || got.Primers != 0 || got.TreeIdleNS != 7 || !slices.Equal(got.Stream, []int32{5, 6, 7}) {
		t.Errorf("%+v", got)
	}
}

// TestFollowingRefuses what the fields of Dependencies do not allow.
func TestFollowingRefuses(t *testing.T) {
	for want, d := range map[string]Dependencies{
		"need jobs":       {Prepare: 1},
		"2 of them":       {Job: []int32{0, 0}, Prepare: 1, Primers: 2},
		"3 of 2 requests": {Job: []int32{0, 0}, Prepare: 3},
		"job 1 prepares":  {Job: []int32{0, 1, 0, 1}, Prepare: 2},
		"0 and -1 ns":     {Job: []int32{0, 1}, TreeIdleNS: -1},
		"1 requests have": {Job: []int32{0, 1}, Stream: []int32{0}},
		"":                {Job: []int32{0, 1}, Prepare: 2, TreeIdleNS: 1, Stream: []int32{0, 0}},
	} {
		if _, err := (Plan{Requests: 2, Concurrency: 1}).Following(&d); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
}

// TestOnlyOfManyMissing: what missing requests pass on does not grow with the ways that lead to it, here 2 to the 40th.
func TestOnlyOfManyMissing(t *testing.T) {
	all := Plan{Requests: 81, Dependencies: turnsOf(nil)}
	for i := int32(1); i < 81; i += 2 {
		all.Dependencies.Add(Dependency{1, i - 1, false}, Dependency{1, max(0, i-2), false})
		all.Dependencies.Add(Dependency{1, i - 1, false}, Dependency{1, max(0, i-2), false})
	}
	expect.List(t, all.Only([]int32{0, 80}).Dependencies.Of(1), []Dependency{{1, 0, false}})
}
