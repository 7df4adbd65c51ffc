package worlds

import (
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

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
