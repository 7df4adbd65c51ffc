package wire

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// scattered is a list of n pieces of random sizes up to most bytes, in any order in their memory.
func scattered(rng *rand.Rand, n, most int) gather.List {
	l := gather.List{Memory: make([]byte, 4*most)}
	for i := range l.Memory {
		l.Memory[i] = byte(rng.Uint32())
	}
	for range n {
		size := rng.Int64N(int64(most) + 1)
		l.Segments = append(l.Segments, gather.Segment{Offset: rng.Int64N(int64(len(l.Memory)) - size + 1), Size: size})
	}
	l.Skip = rng.Int64N(max(1, l.Segments[0].Size))
	return l
}

// TestGatherStopsAndGoesOnAtAnyByte: the kernel's buffer is small and is emptied by random amounts, so that writes end
// anywhere.
func TestGatherStopsAndGoesOnAtAnyByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g, parts, inside := new(Gatherer), 0, 0
	for range 300 {
		pair := must.Have(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))(t)
		_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1)
		l := scattered(rng, 1+rng.IntN(3*atOnce), 1+rng.IntN(400))
		want := l.Append(nil)
		var got []byte
		b := make([]byte, 1+rng.IntN(6000))
		for l.Len() > 0 {
			n, errno := g.WriteNow(uintptr(pair[0]), &l)
			if errno != 0 && (errno != syscall.EAGAIN || n != 0) {
				t.Fatal(n, errno)
			}
			before := l.Skip
			if l.Drop(int64(n)); l.Len() > 0 {
				parts++
				if l.Skip != 0 && l.Skip != before {
					inside++
				}
			}
			k, _ := unix.Read(pair[1], b)
			got = append(got, b[:max(0, k)]...)
		}
		for k := 1; len(got) < len(want) && k > 0; {
			k, _ = unix.Read(pair[1], b)
			got = append(got, b[:max(0, k)]...)
		}
		_, _ = unix.Close(pair[0]), unix.Close(pair[1])
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes arrived, %d were written, and they differ", len(got), len(want))
		}
	}
	if parts < 100 || inside < 50 {
		t.Errorf("only %d writes were partial, %d of them inside a piece", parts, inside)
	}
}

func TestGatherReportsErrors(t *testing.T) {
	l := scattered(rand.New(rand.NewPCG(1, 3)), 5, 10)
	if n, errno := new(Gatherer).WriteNow(^uintptr(0), &l); n != 0 || errno != syscall.EBADF {
		t.Errorf("wrote %d, %v", n, errno)
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	near, far := connected(t, DialOptions{Epoll: true})
	l := scattered(rand.New(rand.NewPCG(1, 4)), 100, 100)
	got := make([]byte, l.Len())
	expect.Equal(t, testing.AllocsPerRun(200, func() {
		_, _ = near.Send(l)
		_, _ = io.ReadFull(far, got)
	}), 0, "allocations")
}

// TestFlushOfPieces: what the kernel did not take is written later, from inside a piece on.
func TestFlushOfPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, epoll := range []bool{true, false} {
		near, far := connected(t, DialOptions{Epoll: epoll})
		_ = near.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<14) })
		l := scattered(rng, 90, 100_000)
		all, err := near.Send(l)
		if all || err != nil || near.FirstOut() == 0 {
			t.Fatal(all, err, near.FirstOut())
		}
		flushed := make(chan error, 1)
		go func() { flushed <- flushAll(near) }()
		got := make([]byte, l.Len())
		must.Have(io.ReadFull(far, got))(t)
		if err := <-flushed; err != nil || !bytes.Equal(got, l.Append(nil)) || near.BytesOut() != l.Len() {
			t.Errorf("epoll %t: %v, %d of %d bytes", epoll, err, near.BytesOut(), l.Len())
		}
	}
}

// flushAll flushes, as an epoll reader would wake it.
func flushAll(s *Socket) error {
	if _, ok := s.EpollFD(); !ok {
		return s.Flush()
	}
	end := make(chan struct{})
	defer close(end)
	go func() {
		for {
			select {
			case <-end:
				return
			default:
				s.WakeWriter()
				runtime.Gosched()
			}
		}
	}()
	return s.Flush()
}

// BenchmarkGather compares requests that are written from pieces with the same written whole: both write as much, to a
// peer that reads it at once. Whole requests lie one after the other in 256 MB. Pieces lie in an arena of a twentieth
// of that, as the prompts of coding sessions do.
func BenchmarkGather(b *testing.B) {
	const total = 256 << 20
	for _, c := range []struct{ size, pieces int }{{20_000, 5}, {70_000, 6}, {70_000, 140}, {700_000, 5}, {700_000, 42}, {700_000, 500}} {
		b.Run(fmt.Sprintf("%dB/%d", c.size, c.pieces), func(b *testing.B) {
			memory := make([]byte, total)
			for i := 0; i < total; i += 4096 {
				memory[i] = 1
			}
			rng := rand.New(rand.NewPCG(1, 6))
			whole, parts := make([]gather.List, total/c.size), make([]gather.List, total/c.size)
			for i := range whole {
				whole[i] = gather.Of(memory[i*c.size:][:c.size])
				parts[i].Memory = memory[:total/20]
				left := int64(c.size)
				for k := range c.pieces {
					size := left / int64(c.pieces-k)
					left -= size
					parts[i].Segments = append(parts[i].Segments, gather.Segment{Offset: rng.Int64N(total/20 - size), Size: size})
				}
			}
			near, far := connected(b, DialOptions{SendBuffer: 2 * c.size, Epoll: true})
			arrived := make([]byte, c.size)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [2]time.Duration
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for k, l := range [2]gather.List{whole[n%len(whole)], parts[n%len(parts)]} {
					began := time.Now()
					if all, err := near.Send(l); !all || err != nil {
						b.Fatal(all, err)
					}
					took[k] += time.Since(began)
					must.Have(io.ReadFull(far, arrived))(b)
				}
				n++
			}
			b.ReportMetric(float64(took[0].Nanoseconds())/float64(n), "ns-whole/op")
			b.ReportMetric(float64(took[1].Nanoseconds())/float64(n), "ns-pieces/op")
			b.ReportMetric(float64(took[1])/float64(took[0]), "pieces/whole")
		})
	}
}
