package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// event has the size of a usual vLLM chunk.
var event = "data: " + strings.Repeat("x", 236) + "\n\n"

// eventStream is a whole response with each event in a chunk of its own, as uvicorn sends it.
func eventStream(events int) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 02:51:15 GMT\r\nserver: uvicorn\r\n" +
		"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
	for range events {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(event), event)
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

// drain scans a whole response in reads of step bytes and returns its body's size.
func drain(tb testing.TB, r *Response, p []byte, step int) (size int) {
	r.Reset()
	for len(p) > 0 {
		part := p[:min(step, len(p))]
		p = p[len(part):]
		for len(part) > 0 && !r.Done() {
			body, n, err := r.Scan(part)
			must.Do(tb, err)
			size += len(body)
			part = part[n:]
		}
	}
	if !r.Done() {
		tb.Fatal("not done")
	}
	return size
}

func TestScanAllocatesNothing(t *testing.T) {
	stream := eventStream(100)
	var r Response
	r.Keep("Server")
	for _, step := range []int{len(stream), 1000, 100, 1} {
		drain(t, &r, stream, step) // grows the buffers
		expect.Equal(t, testing.AllocsPerRun(10, func() {
			if size := drain(t, &r, stream, step); size != 100*len(event) || string(r.Kept(0)) != "uvicorn" {
				t.Fatalf("%d bytes of body, server %q", size, r.Kept(0))
			}
		}), 0, "allocations a response in reads of %d bytes", step)
	}
}

func BenchmarkScan(b *testing.B) {
	const events = 1000
	stream := eventStream(events)
	for _, step := range []int{64 << 10, 1000} {
		b.Run(fmt.Sprintf("reads of %d bytes", step), func(b *testing.B) {
			var r Response
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				must.Equal(b, drain(b, &r, stream, step), events*len(event), "wrong body")
			}
			b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	b.Run("net/http", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(stream)))
		for b.Loop() {
			resp, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(stream), 64<<10), nil)
			must.Do(b, err)
			must.Equal(b, must.Have(io.Copy(io.Discard, resp.Body))(b), int64(events*len(event)))
		}
		b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
	})
}
