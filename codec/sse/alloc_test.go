package sse

import (
	"bytes"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// chunk is a usual vLLM event.
const chunk = `data: {"id":"cmpl-8f4b8a7b6c5d4e3f2a1b0c9d8e7f6a5b","object":"text_completion","created":1732154321,` +
	`"model":"Qwen/Qwen2.5-7B-Instruct","choices":[{"index":0,"text":" hello","logprobs":null,"finish_reason":null,` +
	`"stop_reason":null}],"usage":null}` + "\n\n"

// drain scans p in reads of step bytes and returns the number of events and their bytes.
func drain(tb testing.TB, s *Scanner, p []byte, step int) (events, size int) {
	for len(p) > 0 {
		part := p[:min(step, len(p))]
		p = p[len(part):]
		for {
			data, n, ok, err := s.Next(part)
			must.Do(tb, err)
			if part = part[n:]; !ok {
				break
			}
			events++
			size += len(data)
		}
	}
	return events, size
}

func TestNextAllocatesNothing(t *testing.T) {
	stream := bytes.Repeat([]byte(chunk), 100)
	var s Scanner
	for _, step := range []int{len(stream), 1000, 100, 1} {
		drain(t, &s, stream, step) // grows the buffers
		expect.Equal(t, testing.AllocsPerRun(10, func() {
			s.Reset()
			if events, size := drain(t, &s, stream, step); events != 100 || size != 100*(len(chunk)-len("data: \n\n")) {
				t.Fatalf("%d events of %d bytes", events, size)
			}
		}), 0, "allocations a stream in reads of %d bytes", step)
	}
}

func BenchmarkNext(b *testing.B) {
	stream := bytes.Repeat([]byte(chunk), 1000)
	for _, c := range []struct {
		name string
		step int
	}{{"whole", len(stream)}, {"reads of 64 KiB", 64 << 10}, {"reads of 1,000 bytes", 1000}, {"reads of 100 bytes", 100}} {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			events := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				n, _ := drain(b, &s, stream, c.step)
				events += n
			}
			must.Equal(b, events, 1000*b.N, "events in %d rounds", b.N)
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
