package engine

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestSlack: which token chunks, and which gaps, a late read makes uncertain. t is a token chunk, | ends a read, of
// which each has an instant 10 later than the one before, and x is the end of the stream.
func TestSlack(t *testing.T) {
	for _, c := range []struct {
		stream      string
		slack       []int64 // of each read
		first, last int64
		moved       []metrics.LateReadGap
	}{
		{"t|t|tx", []int64{0, 0, 0}, 0, 0, nil},
		{"t|t|t|x", []int64{5, 5, 5, 5}, 0, 0, nil}, // each alone, so each has its own stamp
		{"tt|t|x", []int64{0, 5, 5}, 0, 0, nil},     // in time, as the server sent them
		{"tt|t|x", []int64{6, 6, 6}, 6, 0, []metrics.LateReadGap{{LikelyNS: 3}}},
		{"t|t|tx", []int64{0, 0, 8}, 0, 8, []metrics.LateReadGap{{NS: 10, LikelyNS: 6}}},
		{"t|ttt|t|x", []int64{0, 9, 0, 0}, 0, 0, []metrics.LateReadGap{{NS: 10, LikelyNS: 4}, {LikelyNS: 3}, {LikelyNS: 3}}},
		{"ttx", []int64{9}, 9, 9, []metrics.LateReadGap{{LikelyNS: 3}}},
		{"tx", []int64{9}, 9, 9, nil},
	} {
		p, rec := newResponse(t, true)
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
		p.feed([]byte(head), 1)
		reads := [][]byte{nil}
		for _, sign := range c.stream {
			last := &reads[len(reads)-1]
			switch sign {
			case 't':
				*last = fmt.Append(*last, `data: {"choices":[{"index":0,"text":"a"}]}`, "\n\n")
			case 'x':
				*last = fmt.Append(*last, "data: [DONE]\n\n")
			default:
				reads = append(reads, nil)
			}
		}
		for i, read := range reads {
			p.slackNS = c.slack[i]
			p.feed(read, int64(100+10*i))
		}
		if rec.FirstSlackNS != c.first || rec.LastSlackNS != c.last || len(p.moved)+len(c.moved) > 0 && !reflect.DeepEqual(p.moved, c.moved) {
			t.Errorf("%s %v: first %d, last %d, moved %v; want %+v", c.stream, c.slack, rec.FirstSlackNS, rec.LastSlackNS, p.moved, c)
		}
	}
}

// TestNoteSlack: a late read makes uncertain what came since the connection was last known to have nothing.
func TestNoteSlack(t *testing.T) {
	for _, c := range []struct {
		what                      string
		drained, settled, started int64
		at, now                   int64
		want                      int64
	}{
		{"in time", 1000, 0, 0, 5_000_000, 5_000_000 + lateRead, 0},
		{"late", 1_000_000, 0, 0, 5_000_000, 9_000_000, 4_000_000},
		{"late, others were read meanwhile", 1_000_000, 4_500_000, 0, 5_000_000, 9_000_000, 500_000},
		{"late, and nothing before its request", 0, 0, 4_900_000, 5_000_000, 9_000_000, 100_000},
	} {
		k := &conn{drainedNS: c.drained, readLag: &readLag{settledNS: c.settled}}
		k.startedNS.Store(c.started)
		k.noteSlack(c.at, c.now, 1)
		if k.response.slackNS != c.want || k.drainedNS != c.drained {
			t.Errorf("%s: %d, want %d; drained at %d though there may be more", c.what, k.response.slackNS, c.want, k.drainedNS)
		}
		k.noteSlack(c.now+10, c.now+20, 0)
		if k.response.slackNS != 0 || k.drainedNS != c.now+20 || k.readLag.lastNS != c.now+20 {
			t.Errorf("%s: then %d, drained at %d", c.what, k.response.slackNS, k.drainedNS)
		}
	}
	var l readLag
	for _, at := range []int64{10, 20, 30} {
		l.lastNS = at
		l.settle()
	}
	expect.Equal(t, l.settledNS, 20, "settled at the end of the batch before the last")
	k := &conn{readLag: &l}
	expect.Equal(t, testing.AllocsPerRun(100, func() { k.noteSlack(5_000_000, 9_000_000, 5); k.noteFull(5_000_000, 9_000_000, leastWindow) }), 0, "allocations")
}

// TestNoteFull: after a read that may have found the buffer full, all later chunks of the answer may be late by the
// server's wait for room. A read is what it found, when the last byte of it came, and when it was read, in ms.
func TestNoteFull(t *testing.T) {
	type read struct {
		found   int
		at, now int64
		want    int64 // of waits so far, ms
	}
	const full, few = leastWindow, leastWindow - 1
	for _, c := range []struct {
		what  string
		reads []read
	}{
		{"in time", []read{{full, 5, 5, 0}, {full, 6, 6, 0}}},
		{"late, but few bytes", []read{{few, 5, 400, 0}, {few, 401, 401, 0}}},
		{"late and full", []read{{full, 5, 400, 0}, {few, 401, 401, 395}, {few, 450, 450, 395}, {full, 451, 451, 395}}},
		{"in several reads: the last byte of the buffer counts", []read{{full, 5, 400, 0}, {few, 100, 401, 0}, {few, 402, 402, 301}}},
		{"what follows was found with bytes that had waited", []read{{full, 5, 400, 0}, {full, 402, 410, 395}, {few, 411, 411, 403}}},
		{"nothing follows", []read{{full, 5, 400, 0}}},
		{"twice", []read{{full, 5, 400, 0}, {few, 401, 401, 395}, {full, 500, 600, 395}, {few, 601, 601, 495}}},
	} {
		k := &conn{readLag: new(readLag)}
		k.startedNS.Store(1)
		for i, r := range c.reads {
			k.noteFull(r.at*1e6, r.now*1e6, r.found)
			expect.Equal(t, k.response.waitedNS, r.want*1e6, "%s: after read %d, ms: %d", c.what, i, r.want)
		}
		k.startedNS.Store(700e6)
		if k.noteFull(701e6, 701e6, few); k.response.waitedNS != 0 {
			t.Errorf("%s: the next answer begins with %d ns", c.what, k.response.waitedNS)
		}
	}
	k := &conn{readLag: &readLag{takenNS: 390e6}}
	k.noteFull(5e6, 400e6, full)
	k.noteFull(395e6, 401e6, few)
	expect.Equal(t, k.response.waitedNS, 395e6, "more came after the read, while others of its batch were looked at")
}
