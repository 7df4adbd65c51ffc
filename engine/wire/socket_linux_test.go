package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/sched"
)

// connected returns both ends of a connection.
func connected(t testing.TB, o DialOptions) (near *Socket, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer ln.Close()
	to := ln.Addr().(*net.TCPAddr).AddrPort()
	o.Timeout = 10 * time.Minute
	near, err = Dial(context.Background(), sched.NewMonotonic(), to, o)
	must.Do(t, err)
	t.Cleanup(near.Close)
	c := must.Have(ln.Accept())(t)
	t.Cleanup(func() { _ = c.Close() })
	return near, c.(*net.TCPConn)
}

// stamping returns both ends of a connection, near with stamps, and skips where the kernel does not stamp.
func stamping(t testing.TB, s Stamps) (near *Socket, far *net.TCPConn) {
	t.Helper()
	if err := ProbeStamps(s); err != nil {
		t.Skip(err)
	}
	near, far = connected(t, DialOptions{Stamps: s})
	for end := time.Now().Add(time.Minute); s.Receive && near.in.wallNS == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the kernel has stopped stamping")
		}
		_, _ = far.Write([]byte("x"))
		must.Have(near.Read(make([]byte, 1)))(t)
	}
	return near, far
}

// ulp is how far two readings of one clock may seem out of order: the kernel stamps by a coarser path than a reading.
const ulp = 1000

func TestReadsBearTheKernelsStamp(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true})
	b := make([]byte, 100)
	stamped := 0
	for range 200 {
		before := time.Now().UnixNano()
		must.Have(far.Write(make([]byte, 60)))(t)
		written := time.Now().UnixNano()
		n, err := near.Read(b)
		after := time.Now().UnixNano()
		if n != 60 || err != nil {
			t.Fatal(n, err)
		}
		if at := near.in.wallNS; at != 0 {
			stamped++
			if at < before-ulp || at > after+ulp {
				t.Errorf("stamped %d, written from %d to %d and read at %d", at, before, written, after)
			}
		}
	}
	if stamped == 0 {
		t.Error("no read bears a stamp")
	}
}

func TestSegmentsReadAtOnceBearTheLastOnesStamp(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true})
	_ = far.SetNoDelay(true)
	b := make([]byte, 100)
	last := int64(0)
	for range 5 {
		last = time.Now().UnixNano()
		must.Have(far.Write([]byte("x")))(t)
	}
	for n := 0; n < 5; { // loopback delivers within the write
		k := must.Have(near.Read(b))(t)
		n += k
	}
	if at := near.in.wallNS; at != 0 && at < last-ulp {
		t.Errorf("stamped %d, the last segment was written at %d", at, last)
	}
	// A read that takes part of what came bears the same stamp as the rest.
	must.Have(far.Write(make([]byte, 50)))(t)
	must.Have(io.ReadFull(near, b[:20]))(t)
	first := near.in.wallNS
	must.Have(io.ReadFull(near, b[:30]))(t)
	expect.Equal(t, near.in.wallNS, first, "the head of a segment is stamped")
}

func TestStampedReadDoesNotAllocate(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true, Send: true})
	b, one := make([]byte, 100), []byte("x")
	n := testing.AllocsPerRun(500, func() {
		_, _ = far.Write(one)
		_, _ = near.Read(b)
		_, _ = near.Send(gather.Of(one))
		_, _ = far.Read(b)
		near.in.sent(func(SentStamp) {})
	})
	expect.Equal(t, n, 0, "allocations")
}

// TestSentStampsNameTheirByte: each write makes a stamp of its last byte when it leaves and when it is acknowledged.
func TestSentStampsNameTheirByte(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true, Send: true})
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 1<<16)
	end := uint32(0)
	for range 50 {
		n := 1 + rng.IntN(40_000)
		before := time.Now().UnixNano()
		if all, err := near.Send(gather.Of(b[:n])); !all || err != nil {
			t.Fatal(all, err)
		}
		end += uint32(n)
		must.Have(io.ReadFull(far, b[:n]))(t)
		must.Have(far.Write(b[:1]))(t)
		must.Have(near.Read(b))(t)
		departed, acked := int64(0), int64(0)
		near.in.sent(func(s SentStamp) {
			switch {
			case s.Key != end-1:
				t.Errorf("a stamp of byte %d; the write ended with %d", s.Key, end-1)
			case s.Acked:
				acked = s.WallNS
			default:
				departed = s.WallNS
			}
		})
		if now := time.Now().UnixNano(); departed < before-ulp || acked < departed-ulp || acked > now+ulp {
			t.Errorf("sent after %d, departed %d, acked %d, now %d", before, departed, acked, now)
		}
	}
}

// TestStampsBesideAFullBuffer: a stamp that comes while nothing can be written is an event of an error alone, on which
// Go's poller gives a reader up. The reader goes on, obeys deadlines and notices the end.
func TestStampsBesideAFullBuffer(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true, Send: true})
	_ = near.tcp.(*net.TCPConn).SetWriteBuffer(1 << 16)
	got := make(chan error)
	b := make([]byte, 10)
	read := func() { _, err := near.Read(b); got <- err }
	go read()
	block := make([]byte, 1<<18)
	filled := 0
	for all := true; all && filled < 1<<26; filled += len(block) { // more than any buffer holds
		var err error
		if all, err = near.Send(gather.Of(block)); err != nil {
			t.Fatal(err)
		}
	}
	near.Interrupt()
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a deadline ended the read with %v", err)
	}
	near.Resume()
	go read()
	flushed := make(chan error)
	go func() { flushed <- near.Flush() }()
	must.Have(io.ReadFull(far, make([]byte, filled)))(t)
	go func() { _, _ = io.Copy(io.Discard, far) }()
	must.Do(t, <-flushed)
	must.Have(far.Write([]byte("answer")))(t)
	if err := <-got; err != nil || string(b[:6]) != "answer" {
		t.Fatalf("read %q, %v", b, err)
	}
	go read()
	near.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) && err != io.EOF {
		t.Errorf("closing ended the read with %v", err)
	}
}

// TestNotPollable enters the way out directly.
func TestNotPollable(t *testing.T) {
	near, far := stamping(t, Stamps{Receive: true, Send: true})
	must.Do(t, near.in.waitReadable())
	must.Have(far.Write([]byte("x")))(t)
	must.Do(t, near.in.waitReadable())
	near.Close()
	if err := near.in.waitReadable(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("waiting on a closed socket: %v", err)
	}
}

// message is a control message as the kernel lays it out.
func message(level, kind int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.SetLen(unix.CmsgLen(len(data)))
	h.Level, h.Type = level, kind
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func TestParseStamp(t *testing.T) {
	stamp := unix.ScmTimestamping{Ts: [3]unix.Timespec{{Sec: 17, Nsec: 5}, {}, {Sec: 99}}}
	at := message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, unsafe.Slice((*byte)(unsafe.Pointer(&stamp)), unsafe.Sizeof(stamp)))
	fault := unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_TIMESTAMPING, Info: unix.SCM_TSTAMP_ACK, Data: 4711}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&fault)), unsafe.Sizeof(fault))
	other := message(unix.SOL_SOCKET, unix.SCM_RIGHTS, []byte{1, 2, 3, 4})
	for _, level := range []int32{unix.SOL_IP, unix.SOL_IPV6} {
		kind := map[int32]int32{unix.SOL_IP: unix.IP_RECVERR, unix.SOL_IPV6: unix.IPV6_RECVERR}[level]
		all := append(append(append([]byte(nil), other...), at...), message(level, kind, text)...)
		if ns, e := parseStamp(all); ns != 17e9+5 || e == nil || *e != fault {
			t.Errorf("parsed %d, %+v", ns, e)
		}
	}
	for _, none := range [][]byte{nil, other, at[:20], message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, []byte("short"))} {
		if ns, e := parseStamp(none); ns != 0 || e != nil {
			t.Errorf("%x: parsed %d, %+v", none, ns, e)
		}
	}
}

func FuzzParseStamp(f *testing.F) {
	f.Add(message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, make([]byte, 48)))
	f.Add(message(unix.SOL_IP, unix.IP_RECVERR, make([]byte, 32)))
	f.Add(binary.NativeEndian.AppendUint64(nil, 1<<40))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) > 0 { // as the kernel's buffer, aligned
			b = append(make([]byte, 0, len(b)+8), b...)
		}
		parseStamp(b)
	})
}

// BenchmarkRead compares a read of what is there with the kernel's stamp with one without.
func BenchmarkRead(b *testing.B) {
	const size, ahead = 250, 256
	for _, c := range []struct {
		name string
		Stamps
	}{{"plain", Stamps{}}, {"stamped", Stamps{Receive: true}}} {
		b.Run(c.name, func(b *testing.B) {
			near, far := stamping(b, c.Stamps)
			buf := make([]byte, size)
			b.ReportAllocs()
			for left := 0; b.Loop(); left-- {
				if left == 0 {
					b.StopTimer()
					must.Have(far.Write(make([]byte, size*ahead)))(b)
					left = ahead
					b.StartTimer()
				}
				if n, err := near.Read(buf); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkSend is a write of 20 kB by a thread of its own, as a sender's, to a peer that reads it at once. A receiver
// waits on the connection.
func BenchmarkSend(b *testing.B) {
	for _, c := range []struct {
		name string
		Stamps
	}{{"plain", Stamps{}}, {"received", Stamps{Receive: true}}, {"sent", Stamps{Receive: true, Send: true}}} {
		b.Run(c.name, func(b *testing.B) {
			near, far := stamping(b, c.Stamps)
			request := make([]byte, 20_000)
			go func() { _, _ = near.Read(make([]byte, 1)) }()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			arrived := make([]byte, len(request))
			var sending time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				if all, err := near.Send(gather.Of(request)); !all || err != nil {
					b.Fatal(all, err)
				}
				sending += time.Since(began)
				must.Have(io.ReadFull(far, arrived))(b)
				if near.in != nil {
					near.in.sent(func(SentStamp) {})
				}
			}
			b.ReportMetric(float64(sending.Nanoseconds())/float64(b.N), "ns-sending/op")
		})
	}
}

func TestEpollWriteEndsWithItsDeadlineAndItsConnection(t *testing.T) {
	near, _ := connected(t, DialOptions{Epoll: true})
	write := func() error {
		_, err := near.tcp.Write(make([]byte, 64<<20))
		return err
	}
	ended := make(chan error)
	for _, c := range []struct {
		end  func()
		want error
	}{
		{near.Interrupt, os.ErrDeadlineExceeded},
		{func() { _ = near.tcp.Close() }, net.ErrClosed},
	} {
		near.Resume()
		go func() { ended <- write() }()
		for !near.tcp.(*epollConn).out.waiting.Load() {
			time.Sleep(time.Millisecond)
		}
		c.end()
		if err := <-ended; !errors.Is(err, c.want) {
			t.Errorf("the write ended with %v, want %v", err, c.want)
		}
	}
	if _, err := near.tcp.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed connection: %v", err)
	}
}
