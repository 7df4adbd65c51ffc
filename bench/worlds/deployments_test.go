package worlds

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestErlang: before eight slots with exponential services, as many wait as Erlang says, and as long.
func TestErlang(t *testing.T) {
	const slots, rate, seconds = 8, 2.0, 3.2
	d := Deployment{World{
		Slots: slots, Rate: func(float64) float64 { return rate },
		Noise: []Effect{func(r *rand.Rand, run []Request) {
			for i := range run {
				run[i].TTFT, run[i].TPOT = 0, 1000*seconds*r.ExpFloat64()/float64(run[i].Output-1)
			}
		}},
	}, 400_000}
	offered, term, sum := rate*seconds, 1.0, 0.0
	for k := range slots {
		sum += term
		term *= offered / float64(k+1)
	}
	waits := term / (1 - offered/slots) / (sum + term/(1-offered/slots))
	var waited, ms float64
	for _, q := range d.Serve(d.Trace(1), 1, 1, 0) {
		ms += q.TTFT / float64(d.Requests)
		if q.TTFT > 0 {
			waited += 1 / float64(d.Requests)
		}
	}
	expect.Near(t, waited/waits, 1, 0.03, "%.3f of the requests waited, want %.3f", waited, waits)
	if want := 1000 * waits * seconds / (slots - offered); math.Abs(ms/want-1) > 0.05 {
		t.Errorf("mean wait %.0f ms, want %.0f ms", ms, want)
	}
}

// TestServe: a probe is fixed by its numbers, and load presses its arrivals together.
func TestServe(t *testing.T) {
	for _, d := range Deployments() {
		part := d.Trace(3)[100:200]
		a, again, b := d.Serve(part, 2, 3, 0), d.Serve(part, 2, 3, 0), d.Serve(part, 2, 3, 1)
		if !reflect.DeepEqual(a, again) || reflect.DeepEqual(a, b) {
			t.Errorf("%s: a probe must equal itself, not another", d.Name)
		}
		if want := (part[99].At - part[0].At) / 2; a[0].At != 0 || math.Abs(a[99].At-want) > 1e-9 {
			t.Errorf("%s: arrivals from %v to %v s, want from 0 to %v s", d.Name, a[0].At, a[99].At, want)
		}
	}
}

// TestCarries: at the largest load the objective is just kept, and a slower server carries that much less.
func TestCarries(t *testing.T) {
	d := Deployments()[1]
	load := d.Carries(FirstToken, 1, Scope{})
	below, above := d.Kept(FirstToken, 1, Scope{}, load/1.05), d.Kept(FirstToken, 1, Scope{}, load*1.05)
	if below < 0.95 || above >= 0.95 {
		t.Errorf("a share of %.4f is kept below %.3f, of %.4f above; want 0.95 in between", below, load, above)
	}
	lone := Deployment{World{Name: "lone", Slots: 1, Rate: func(float64) float64 { return 0.2 }}, 200}
	patient := Objective{E2E, 0.5, 4000}
	slow := lone
	slow.Name, slow.Noise = "slow", []Effect{Drift(1), Step(0, 2)}
	twice := Objective{E2E, 0.5, 8000}
	if a, b := lone.Carries(patient, 1, Scope{}), slow.Carries(twice, 1, Scope{}); math.Abs(a/b/2-1) > 0.01 {
		t.Errorf("with all times doubled, the load falls from %.3f to %.3f, want half", a, b)
	}
}

// TestBusiest: a day has its peak in the middle, and there 1.6 times as many arrive as on average.
func TestBusiest(t *testing.T) {
	trace := Deployments()[2].Trace(1)
	from, to := Busiest(trace, 600)
	if at := trace[from].At; at < 2400 || at > 4200 {
		t.Errorf("the busiest 10 min begin at %.0f s, want about 3300 s", at)
	}
	if got := float64(to-from) / 600; got < 3 || got > 3.5 {
		t.Errorf("%.2f arrivals a second at the peak, want about 3.2", got)
	}
	if from, to := Busiest(trace, 0); from != 0 || to != len(trace) {
		t.Errorf("of 0 seconds: got %d to %d, want all", from, to)
	}
}

// TestRules: what a queue does when it is long, by hand: five requests of 10 s each arrive within a second.
func TestRules(t *testing.T) {
	play := func(rules ...Rule) (ends []float64) {
		w := World{Slots: 1, Rules: rules}
		trace := make([]Request, 5)
		for i := range trace {
			trace[i] = Request{At: float64(i) / 4, OK: true, TTFT: 10_000, Output: 1}
		}
		for _, q := range w.play(trace, nil, nil, 1) {
			ends = append(ends, q.At+q.E2E/1000)
		}
		return ends
	}
	for _, c := range []struct {
		what string
		got  []float64
		want []float64
	}{
		{"none", play(), []float64{10, 20, 30, 40, 50}},
		{"refuse at 2", play(Refuse(2)), []float64{10, 20, 30, 0.75, 1}},
		{"collapse at 2", play(Collapse(2, 0, 2)), []float64{10, 20, 30, 50, 70}},
		{"a slot 2 s after 1 waits", play(Grow(1, 1, 2)), []float64{10, 20, 12.5, 22.5, 30}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: ends at %v s, want %v s", c.what, c.got, c.want)
		}
	}
}

// TestForget: a server that forgets computes what it had cached.
func TestForget(t *testing.T) {
	run := []Request{{At: 0, Cached: 10}, {At: 5, Cached: 20}, {At: 20, Cached: 30}}
	Forget(10)(nil, run)
	for i, want := range []int{0, 20, 0} {
		expect.Equal(t, run[i].Cached, want, "request %d: tokens cached", i)
	}
	if run[1].TTFT != 0 || run[2].TTFT != 30*perToken {
		t.Errorf("TTFT grows by %v and %v ms, want 0 and 3 ms", run[1].TTFT, run[2].TTFT)
	}
}
