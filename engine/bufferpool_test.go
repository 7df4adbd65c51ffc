package engine

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
)

// largeEvent is a stream of one token in an event of so many bytes, as servers send that put much beside it.
func largeEvent(size int) string {
	return chunked(`data: {"choices":[{"index":0,"text":"a","logprobs":"` + strings.Repeat("x", size) + `"}]}` + "\n\n" + events(15, finish, usage(64, 16, 0), done))
}

// TestLargeAnswersShareABudget: the memory for large answers of all connections together is bounded, and no answer is
// lost.
func TestLargeAnswersShareABudget(t *testing.T) {
	const requests, inFlight, size, budget = 40, 32, 3 << 20, 16 << 20 // each takes 4 MiB twice: without a bound, 256 MiB
	for name, answer := range map[string]string{
		"events": largeEvent(size), "a body": responseText(200, "", `{"choices":[{"index":0,"text":"a","finish_reason":"length","logprobs":"`+strings.Repeat("x", size)+`"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			w, s := equalWork(t, requests, closedPlan(inFlight))
			s.answer = []byte(answer)
			k := new(sink)
			r := newRun(t, oneThread, w, k)
			r.large.limit = budget
			do(t, s, r)
			if got := k.outcomes(); got[record.OK] != requests {
				t.Errorf("%v, want %d ok; the first: %+v", got, requests, k.records[0])
			}
			if r.large.most > 5*budget || r.large.most < size {
				t.Errorf("%d bytes at a time, want little more than %d", r.large.most, budget)
			}
			if r.large.lent.Load() != 0 || r.large.bytes != 0 || len(r.large.mapped) != 0 {
				t.Errorf("%d bytes lent and %d mapped after the end", r.large.lent.Load(), r.large.bytes)
			}
		})
	}
}

// TestErrorBodiesAreNotKept: of an error response of any size the beginning is kept, and the connection stays.
func TestErrorBodiesAreNotKept(t *testing.T) {
	const requests, inFlight, size = 32, 8, 4 << 20
	w, s := equalWork(t, requests, closedPlan(inFlight))
	answer := responseText(500, "", "out of order"+strings.Repeat(" ", size))
	s.answer = []byte(answer)
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	do(t, s, r)
	for _, rec := range k.records {
		if rec.Outcome != record.HTTPError || rec.Error != "out of order" || rec.BytesReceived != int64(len(answer)) {
			t.Fatalf("%v %q with %d bytes, want http_error with %d", rec.Outcome, rec.Error, rec.BytesReceived, len(answer))
		}
	}
	if r.large.most != 0 || s.accepted.Load() >= requests {
		t.Errorf("%d bytes held, %d connections for %d requests", r.large.most, s.accepted.Load(), requests)
	}
}

func TestLargeBuffersAreLetGo(t *testing.T) {
	l := largeBuffers{limit: 1 << 20, mapped: map[*byte]bool{}}
	l.changed.L = &l.mu
	b := append(l.grow([]byte("abc"), 100<<10), 'd')
	if string(b) != "abcd" || cap(b) != 128<<10 {
		t.Fatalf("%q of %d", b, cap(b))
	}
	c := l.grow(b, 200<<10) // gives the smaller one back
	if string(c) != "abcd" || cap(c) != 256<<10 || l.lent.Load() != 256<<10 || l.bytes != 384<<10 {
		t.Errorf("%q of %d; %d lent, %d mapped", c, cap(c), l.lent.Load(), l.bytes)
	}
	if again := l.grow(nil, 70<<10); &again[:1][0] != &b[0] {
		t.Error("what was given back is not used again")
	} else {
		l.put(again)
	}
	l.put(make([]byte, 1<<20)) // not its own
	l.trim()
	expect.Equal(t, l.bytes, 384<<10, "mapped: all stays while some is in use")
	l.limit = 0
	d := l.get(1 << 20)
	if l.bytes != 1<<20+256<<10 || !l.short() {
		t.Errorf("%d mapped, short %v, want room to be made for what is over the limit", l.bytes, l.short())
	}
	l.put(c)
	l.put(d)
	l.trim()
	if l.bytes != 0 || len(l.mapped) != 0 || l.lent.Load() != 0 {
		t.Errorf("%d mapped, %d lent after all", l.bytes, l.lent.Load())
	}
}

// TestResponsesWaitForEachOther: of those that hold too much one continues at a time, and one that is cancelled
// continues at once.
func TestResponsesWaitForEachOther(t *testing.T) {
	l := largeBuffers{limit: 1, mapped: map[*byte]bool{}}
	l.changed.L = &l.mu
	var p [3]borrower
	held := [3][]byte{l.get(100 << 10), l.get(100 << 10), l.get(100 << 10)}
	never := func() bool { return false }
	l.wait(&p[0], never)
	l.wait(&p[0], never) // still its turn
	went := make(chan int)
	asked := make(chan bool, 1)
	go func() {
		l.wait(&p[1], func() bool {
			select {
			case asked <- true:
			default:
			}
			return false
		})
		went <- 1
	}()
	<-asked
	l.wait(&p[2], func() bool { return true })
	select {
	case <-went:
		t.Fatal("two go on at once")
	default:
	}
	l.put(held[0])
	l.end(&p[0])
	<-went
	l.put(held[1])
	l.put(held[2])
	l.end(&p[1])
	l.wait(&p[2], never)
	l.trim()
}
