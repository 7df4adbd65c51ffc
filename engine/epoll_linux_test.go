package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// compressedAnswer is a server's answer, compressed, in two pieces.
func compressedAnswer(t *testing.T, body string) [2][]byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, body)
	must.Do(t, w.Close())
	all := []byte(responseText(200, "Content-Encoding: gzip\r\n", z.String()))
	return [2][]byte{all[:len(all)-z.Len()/2], all[len(all)-z.Len()/2:]}
}

// TestConnectionLeavesItsEpollReaderForACompressedResponse: reading such a response waits, which must not delay other
// connections. The connection carries further requests.
func TestConnectionLeavesItsEpollReaderForACompressedResponse(t *testing.T) {
	eachSender(t, connectionLeavesItsEpollReaderForACompressedResponse)
}

func connectionLeavesItsEpollReaderForACompressedResponse(t *testing.T, kind senderKind) {
	const n = 200
	w, s := equalWork(t, n, openPlan)
	pieces := compressedAnswer(t, events(16, finish, usage(64, 16, 0), done))
	s.handle = func(number int64, c net.Conn) {
		if number%2 == 0 {
			s.serve(c)
			return
		}
		defer c.Close()
		for buf := make([]byte, s.request); ; {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			s.served.Add(1)
			_, _ = c.Write(pieces[0])
			time.Sleep(time.Millisecond)
			_, _ = c.Write(pieces[1])
		}
	}
	k := new(sink)
	do(t, s, newRun(t, kind, w, k))
	for _, rec := range k.records {
		if rec.Outcome != record.OK || rec.Chunks != 16 || rec.Resent != 0 {
			t.Fatalf("%v %q, %d chunks, resent %d; want ok with 16", rec.Outcome, rec.Error, rec.Chunks, rec.Resent)
		}
	}
	if len(k.records) != n || s.served.Load() != n {
		t.Errorf("%d records, %d served; want %d", len(k.records), s.served.Load(), n)
	}
}

// readerOf returns a reader without a thread, with a request in flight on each connection, and their far
// ends.
func readerOf(t testing.TB, streams int) (l *epollReader, far []net.Conn) {
	w, s := equalWork(t, streams, openPlan)
	accepted := make(chan net.Conn, streams)
	s.handle = func(_ int64, c net.Conn) { accepted <- c }
	go s.run()
	r := newRun(t, oneThread, w, new(sink))
	r.pools[0].dial.Stamps = wire.Stamps{Receive: wire.ProbeStamps(wire.Stamps{Receive: true}) == nil}
	r.wall.Store(sched.NewWall(r.clock))
	l, err := newEpollReader(r)
	must.Do(t, err)
	r.epollReaders.start.Do(func() { r.epollReaders.all = []*epollReader{l} })
	for i := range int32(streams) {
		c := must.Have(r.pools[0].connect(context.Background()))(t)
		f := <-accepted
		t.Cleanup(func() {
			c.sock.Close()
			_ = f.Close()
		})
		if !c.start(i, opening) {
			t.Fatal("a new connection is not free")
		}
		far = append(far, f)
	}
	return l, far
}

// onEpoll returns a connection that an epoll reader reads, and its far end.
func onEpoll(t *testing.T) (near *conn, far net.Conn) {
	w, s := equalWork(t, 1, openPlan)
	accepted := make(chan net.Conn, 1)
	s.handle = func(_ int64, c net.Conn) { accepted <- c }
	go s.run()
	r := newRun(t, oneThread, w, new(sink))
	near = must.Have(r.pools[0].connect(context.Background()))(t)
	far = <-accepted
	t.Cleanup(func() {
		_ = far.Close()
		near.sock.Close()
		r.epollReaders.end()
		r.receivers.Wait()
	})
	must.Equal(t, near.receiver.Load(), byEpoll, "the connection is read by an epoll reader")
	return near, far
}

func TestEpollWritesWhatThePeerTakes(t *testing.T) {
	near, far := onEpoll(t)
	sent := bytes.Repeat([]byte("0123456789"), 2<<20) // more than two buffers hold
	wrote := make(chan error)
	go func() {
		near.sock.KeepRest(gather.Of(sent))
		wrote <- near.sock.Flush()
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other bytes came than were sent, %v", err)
	}
	expect.Equal(t, <-wrote, nil)
}

// TestUnreadBytesAreNoTimeout: if an answer has come in time and lies unread in the kernel, its request is not over its
// timeout. If nothing has come, it is.
func TestUnreadBytesAreNoTimeout(t *testing.T) {
	l, far := readerOf(t, 2)
	defer l.close()
	r := l.run
	r.cfg.Timeout, r.cfg.IdleTimeout = 1, 1
	answer := chunked(events(16, finish, usage(64, 16, 0), done))
	must.Have(io.WriteString(far[0], answer[:len(answer)/2]))(t)
	conns := [2]*conn{r.table[0].Load(), r.table[1].Load()}
	answered, silent := conns[0], conns[1]
	if answered.request.Load() != 0 {
		answered, silent = silent, answered
	}
	unread := func() int64 { _, n := answered.sock.Received(); return n }
	for unread() < int64(len(answer)/2) {
		time.Sleep(time.Millisecond)
	}
	for range 5 {
		r.cancelOverdue(false)
	}
	if got, other := answered.cancelReason(), silent.cancelReason(); got != notCancelled || other != overTimeout {
		t.Fatalf("cancelled for %v with bytes unread, and %v without any; want 0 and %d", got, other, overTimeout)
	}
	l.ready(answered, unix.EPOLLIN)
	d := &l.due[0]
	d.n, d.err = answered.sock.ReadNow(d.buf)
	must.Equal(t, unread(), 0, "not read")
	r.cancelOverdue(false)
	must.Equal(t, answered.cancelReason(), notCancelled, "cancelled before its bytes were looked at")
	must.Equal(t, l.read(*d), true, "stays with the epoll reader")
	l.due = l.due[:0]
	answered.receiver.Store(byEpoll)
	must.Have(io.WriteString(far[0], answer[len(answer)/2:]))(t)
	for unread() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.cancelOverdue(false)
	expect.Equal(t, answered.cancelReason(), overTimeout, "cancelled for: all that came in time has been read")
	r.receivers.Wait()
}

// TestFloodLeavesTheEpollReader: a connection that has more after each read gets a goroutine of its own, which reads on.
func TestFloodLeavesTheEpollReader(t *testing.T) {
	l, far := readerOf(t, 1)
	defer l.close()
	c := l.run.table[0].Load()
	answer := chunked(events(64, finish, usage(64, 64, 0), done))
	must.Have(io.WriteString(far[0], answer))(t)
	must.Do(t, far[0].(*net.TCPConn).CloseWrite())
	for unread := int64(0); unread < int64(len(answer)); _, unread = c.sock.Received() {
		time.Sleep(time.Millisecond)
	}
	part := make([]byte, len(answer)/(2*mostReads))
	n, err := c.sock.ReadNow(part)
	must.Equal(t, l.read(dueRead{conn: c, buf: part, n: n, err: err}), false, "stays with the epoll reader")
	l.run.receivers.Wait()
	expect.Equal(t, l.run.recordOf(0).Outcome, record.OK, "%s", l.run.recordOf(0).Error)
}
