package engine

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestPartsOfARead: a read of which the ring knows the parts gives the record and the gaps that reads of those parts
// would have given, wherever it was split, and no gap is in doubt.
func TestPartsOfARead(t *testing.T) {
	w, s := equalWork(t, 2, openPlan)
	go s.run()
	r := newRun(t, oneThread, w, new(sink))
	c := must.Have(r.pools[0].connect(context.Background()))(t)
	r.epollReaders.end() // nobody else reads
	text := []byte(chunked(events(6, finish, usage(64, 6, 0), done)))
	for more := range 2 { // bytes after the answer
		whole := append(text[:len(text):len(text)], "HTTP"[:4*more]...)
		for size := 1; size <= len(whole); size++ {
			t.Run(fmt.Sprintf("%d more, parts of %d", more, size), func(t *testing.T) {
				want, rec := newResponse(t, true)
				rec.Clear()
				c.parts = c.parts[:0]
				at := int64(0)
				ended := false
				for begin := 0; begin < len(whole); begin += size {
					part1 := whole[begin:min(len(whole), begin+size)]
					at += 1_000_000
					c.parts = append(c.parts, part{len(part1), at})
					if !ended {
						ended, _ = want.feed(part1, at)
						if begin+size < len(whole) {
							want.reusable = false
						}
					}
				}
				c.run.recordOf(0).Clear()
				c.response.rec = nil
				c.request.Store(0)
				c.beginResponse()
				c.response.slackNS = 5_000_000
				if end, _ := c.feed(whole, at); !end {
					t.Fatal("the response has not ended")
				}
				if got := c.run.recordOf(0); !reflect.DeepEqual(*got, *rec) {
					t.Errorf("got  %+v\nwant %+v", *got, *rec)
				}
				expect.Equal(t, fmt.Sprint(c.response.gaps), fmt.Sprint(want.gaps), "gaps")
				expect.Equal(t, len(c.response.moved), 0, "gaps in doubt")
				expect.Equal(t, c.response.reusable, want.reusable, "reusable")
			})
		}
	}
	c.parts = c.parts[:0]
	c.closeClaimed()
	r.receivers.Wait()
}

// TestCompressedPartsOfARead: a compressed answer keeps all bytes of a read, wherever its head was split from them.
func TestCompressedPartsOfARead(t *testing.T) {
	w, s := equalWork(t, 2, openPlan)
	go s.run()
	r := newRun(t, oneThread, w, new(sink))
	c := must.Have(r.pools[0].connect(context.Background()))(t)
	r.epollReaders.end() // nobody else reads
	body := "not read here"
	text := []byte(responseText(200, "Content-Encoding: gzip\r\n", body))
	for size := 1; size <= len(text); size++ {
		c.parts = c.parts[:0]
		for begin := 0; begin < len(text); begin += size {
			c.parts = append(c.parts, part{min(size, len(text)-begin), int64(begin)})
		}
		c.response.rec = nil
		c.request.Store(0)
		_, compressed := c.feed(text, int64(len(text)))
		if compressed == nil {
			t.Fatalf("parts of %d: the response is not compressed", size)
		}
		expect.Equal(t, string(compressed.body)+string(compressed.pending), body, "bytes kept")
		expect.Equal(t, c.response.bytesIn, int64(len(text)), "bytes counted")
		if len(compressed.pending) > 0 {
			expect.Equal(t, compressed.nowNS, int64(len(text)), "the instant of the last of them")
		}
	}
	c.parts = c.parts[:0]
	c.closeClaimed()
	r.receivers.Wait()
}
