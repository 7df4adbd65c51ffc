package capacity

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
)

const second = int64(time.Second)

// arrivals are random ones at a rate that depends on the time.
func arrivals(seed uint64, seconds float64, rate func(at float64) float64) (t Timeline) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for at := 0.0; at < seconds; at += rng.ExpFloat64() / rate(at) {
		t = append(t, int64(at*1e9))
	}
	first := t[0]
	for i := range t {
		t[i] -= first
	}
	return t
}

// TestChooseBusiest: of a day the part with most requests is measured, and the answer says how much more that is. The
// oracle counts at every request.
func TestChooseBusiest(t *testing.T) {
	day := arrivals(1, 7200, func(at float64) float64 { return 5 * (1 - 0.6*math.Cos(2*math.Pi*at/7200)) })
	p := day.Choose(FromBusiest, 1, 600*second, 30*second)
	most := 0
	for i := range day {
		if day[i] >= 30*second && day[i]+600*second <= day[len(day)-1]+1 {
			most = max(most, day.count(Stretch{day[i], day[i] + 600*second}))
		}
	}
	if got := day.count(p.Stretches[0]); got != most || p.Even || p.Whole || math.Abs(p.OfMeanRate-1.6) > 0.1 || p.OfPeakRate > 1 || p.OfPeakRate < 0.85 {
		t.Errorf("%d of %d requests in %+v", got, most, p)
	}
	if !strings.Contains(p.Words(), "at 1.6 × the mean") || !strings.Contains(p.Words(), "not about the rest") {
		t.Error(p.Words())
	}
	again := day.Choose(FromBusiest, 2, 600*second, 30*second)
	if !reflect.DeepEqual(p, again) {
		t.Errorf("another probe measures %+v, want %+v", again, p)
	}
}

// TestChooseEven: of a trace whose rate varies by chance, each probe measures another part; few such traces are taken for
// uneven ones, and none that doubles its rate for even.
func TestChooseEven(t *testing.T) {
	uneven := 0
	for seed := range uint64(200) {
		even := arrivals(seed, 1800, func(float64) float64 { return 4 })
		a, b := even.Choose(FromBusiest, 1, 120*second, 0), even.Choose(FromBusiest, 2, 120*second, 0)
		if !a.Even || reflect.DeepEqual(a.Stretches, b.Stretches) {
			uneven++
		}
		steps := arrivals(seed, 1800, func(at float64) float64 { return 4 + 4*math.Floor(at/900) })
		if steps.even(120 * second) {
			t.Errorf("seed %d: a rate that doubles passes for even", seed)
		}
	}
	if uneven > 6 {
		t.Errorf("%d of 200 even traces pass for uneven", uneven)
	}
}

// TestChooseSpreadAndStart: parts are as long as is wanted and lie in the trace, behind the warm-in; what is too short is
// measured as a whole.
func TestChooseSpreadAndStart(t *testing.T) {
	trace := arrivals(1, 600, func(float64) float64 { return 3 })
	end := trace[len(trace)-1] + 1
	p := trace.Choose(FromSpread, 1, 100*second, 20*second)
	if len(p.Stretches) != spreadOver || covered([]*Part{&p, &p}) != 100*second || p.Stretches[0].FromNS < 20*second || p.Stretches[4].ToNS > end {
		t.Errorf("%+v", p)
	}
	if p = trace.Choose(FromStart, 1, 100*second, 20*second); !slices.Equal(p.Stretches, []Stretch{{20 * second, 120 * second}}) {
		t.Errorf("%+v", p)
	}
	if p = trace.Choose(FromBusiest, 1, 1000*second, 20*second); !p.Whole || !slices.Equal(p.Stretches, []Stretch{{20 * second, end}}) || p.OfMeanRate < 0.9 || p.OfMeanRate > 1.1 {
		t.Errorf("%+v", p)
	}
}

// TestTake: a probe has the requests of the warm-in and of each stretch, one behind the other, in order.
func TestTake(t *testing.T) {
	trace := Timeline{0, 10, 20, 30, 40, 50, 60, 70, 80}
	source, at := trace.Take(Part{Stretches: []Stretch{{20, 40}, {65, 90}}}, 15)
	if !slices.Equal(source, []int32{1, 2, 3, 7, 8}) || !slices.Equal(at, []int64{5, 15, 25, 40, 50}) {
		t.Errorf("requests %v at %v", source, at)
	}
	places := Places(5)
	if source, at = places.Take(Part{Stretches: []Stretch{{1, 3}}}, 1); !slices.Equal(source, []int32{0, 1, 2}) || !slices.Equal(at, []int64{0, 1, 2}) {
		t.Errorf("requests %v at %v", source, at)
	}
}

// TestReplicas: a minute with 3 requests a second needs two instances of 2 a second, one with none needs one.
func TestReplicas(t *testing.T) {
	var trace Timeline
	for i := range int64(180) {
		trace = append(trace, i*second/3)
	}
	trace = append(trace, 120*second)
	r := trace.Replicas(2, 1)
	if !slices.Equal(r.EachMinute, []int{2, 1, 1}) || r.Peak != 2 || math.Abs(r.InstanceHours-3./60) > 1e-9 || math.Abs(r.Mean-1.5) > 1e-6 || math.Abs(r.InstanceHoursAtLow-4./60) > 1e-9 {
		t.Errorf("%+v", r)
	}
	expect.Contains(t, r.Words(2), "Each of the 2 instances that were measured carries 2.00 requests/s (1.00 by the lower end of the interval), so the trace as recorded needs ", "words")
	short := Part{Stretches: []Stretch{{480e6, 2402e6}}, TraceNS: 2403e6, OfMeanRate: 1, OfPeakRate: 1}
	expect.Contains(t, short.MeasuredWords(), "0.5 s–2.4 s of 2.4 s", "of a short trace seconds are too coarse")
	if r = trace.Replicas(0, 0); r != nil || r.Words(1) != "" {
		t.Errorf("%+v", r)
	}
}

// TestMissedBursts: of a trace with a request a second and 40 more in one second, only a part with that second misses
// no burst.
func TestMissedBursts(t *testing.T) {
	var trace Timeline
	for i := range int64(1000) {
		trace = append(trace, i*second)
		for k := range int64(40) {
			if i == 700 {
				trace = append(trace, i*second+k*second/80+1)
			}
		}
	}
	start := trace.Choose(FromStart, 1, 100*second, 20*second)
	expect.Equal(t, *start.Missed, Burst{LastsNS: second, Requests: 41, Measured: 1})
	expect.Contains(t, start.missedWords(), "In 1.00 s of the trace 41 requests arrive, and in no such time of the confirmation more than 1:", "words")
	expect.Equal(t, trace.Choose(FromStart, 1, 960*second, 20*second).Missed == nil, true)

	missed := 0
	for seed := range uint64(200) {
		even := arrivals(seed, 1000, func(float64) float64 { return 5 })
		if even.Choose(FromStart, 1, 100*second, 20*second).Missed != nil {
			missed++
		}
	}
	expect.Equal(t, missed, 0, "of 200 traces without bursts")
}
