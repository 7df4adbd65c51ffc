package engine

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// BenchmarkEpollReader measures what a core can read. Each operation is a round of events: one on each of 1,000
// connections, in a read of its own. All lie in the kernel when the reader begins, since a core that reads all it can
// never sleeps. The result counts CPU time, the kernel's included, so that other programs matter less.
func BenchmarkEpollReader(b *testing.B) {
	const streams = 1000
	l, far := benchmarkEpollReader(b, streams)
	defer l.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l.round(b, far, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
	token := chunk(events(1))
	used := time.Duration(0)
	for b.Loop() {
		used += l.round(b, far, token)
	}
	b.ReportMetric(float64(streams*b.N)/used.Seconds(), "events/cpu-s")
}

// benchmarkEpollReader returns a reader without a thread, with a request in flight on each connection, and their far
// ends.
func benchmarkEpollReader(b testing.TB, streams int) (l *epollReader, far []net.Conn) {
	w, s := equalWork(b, streams, openPlan)
	accepted := make(chan net.Conn, streams)
	s.handle = func(_ int64, c net.Conn) { accepted <- c }
	go s.run()
	r := newRun(b, oneThread, w, new(sink))
	r.pools[0].dial.Stamps = wire.Stamps{Receive: wire.ProbeStamps(wire.Stamps{Receive: true}) == nil}
	r.wall.Store(sched.NewWall(r.clock))
	l, err := newEpollReader(r)
	must.Do(b, err)
	r.epollReaders.start.Do(func() { r.epollReaders.all = []*epollReader{l} })
	for i := range int32(streams) {
		c := must.Have(r.pools[0].connect(context.Background()))(b)
		f := <-accepted
		b.Cleanup(func() {
			c.sock.Close()
			_ = f.Close()
		})
		if !c.start(i, opening) {
			b.Fatal("a new connection is not free")
		}
		far = append(far, f)
	}
	return l, far
}

// round sends text on every connection and returns the CPU time of reading it.
func (l *epollReader) round(b *testing.B, far []net.Conn, text string) time.Duration {
	b.StopTimer()
	for _, f := range far {
		must.Have(io.WriteString(f, text))(b)
	}
	b.StartTimer()
	before := threadTime(b)
	ready := make([]unix.EpollEvent, epollBatch)
	for got := 0; got < len(far)*len(text); {
		n := l.wait(ready)
		for _, e := range ready[:n] {
			c := l.run.table[uint32(e.Fd)].Load()
			got -= int(c.response.bytesIn)
			l.ready(c, e.Events)
		}
		l.readDue()
		for _, e := range ready[:n] {
			got += int(l.run.table[uint32(e.Fd)].Load().response.bytesIn)
		}
	}
	return threadTime(b) - before
}

// threadTime returns the CPU time of the calling thread.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	must.Do(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}
