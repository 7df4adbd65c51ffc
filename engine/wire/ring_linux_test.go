package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// ringed returns both ends of a connection that a ring sees, and skips where there may be none. With version 0 it is
// plain, else of TLS.
func ringed(t *testing.T, address string, version uint16) (near *Socket, far net.Conn) {
	t.Helper()
	must.Do(t, ProbeStamps(Stamps{Receive: true}))
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	defer ln.Close()
	to := ln.Addr().(*net.TCPAddr).AddrPort()
	r, err := OpenRing([]uint16{1, to.Port()}, 1000)
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	}
	must.Do(t, err)
	o := DialOptions{Timeout: time.Minute, Stamps: Stamps{Receive: true}, Ring: r}
	accepted := make(chan net.Conn, 1)
	if version != 0 {
		server := httptest.NewTLSServer(nil)
		defer server.Close()
		o.TLS = &tls.Config{InsecureSkipVerify: true, MaxVersion: version}
		ln = tls.NewListener(ln, server.TLS)
	}
	go func() {
		c, _ := ln.Accept()
		if secure, ok := c.(*tls.Conn); ok {
			_ = secure.Handshake()
		}
		accepted <- c
	}()
	near, err = Dial(context.Background(), sched.NewMonotonic(), to, o)
	must.Do(t, err)
	far = <-accepted
	t.Cleanup(func() {
		near.Close()
		_ = far.Close()
		expect.Equal(t, len(r.flows), 0, "connections that are still watched")
		expect.Equal(t, r.Close(), 0, "lost segments")
	})
	near.Expect()
	return near, far
}

const four = "127.0.0.1:0"

// TestRingTellsSegmentsApart: bytes that one read returns have the instant of their own write each, between the
// writer's readings of the clock, and none is after the read's stamp. That is later if the kernel has joined them to
// what the read left.
func TestRingTellsSegmentsApart(t *testing.T) {
	for _, of := range []struct {
		address string
		version uint16
	}{{four, 0}, {"[::1]:0", 0}, {four, tls.VersionTLS12}, {four, tls.VersionTLS13}} {
		t.Run(fmt.Sprintf("%s, TLS %x", of.address, of.version), func(t *testing.T) {
			near, far := ringed(t, of.address, of.version)
			for range 50 {
				sizes := []int{1, 300, 2, 70_000, 40}
				var before, after []int64
				total := 0
				for _, size := range sizes {
					before = append(before, time.Now().UnixNano())
					must.Have(far.Write(make([]byte, size)))(t)
					after = append(after, time.Now().UnixNano())
					total += size
				}
				k, left, read := 0, sizes[0], 0
				for b := make([]byte, 1<<20); read < total; {
					n := must.Have(near.Read(b))(t)
					arrived, known := near.Arrived(nil)
					if !known {
						t.Fatalf("the ring does not know %d bytes after %d", n, read)
					}
					stamp, _ := near.ReadStamp()
					if last := arrived[len(arrived)-1].WallNS; stamp != 0 && last > stamp {
						t.Fatalf("the last bytes came at %d, after the read's stamp, %d", last, stamp)
					}
					for _, a := range arrived {
						if a.Bytes > left || a.WallNS < before[k]-ulp || a.WallNS > after[k]+ulp {
							t.Fatalf("%d bytes at %d; want at most %d between %d and %d", a.Bytes, a.WallNS, left, before[k], after[k])
						}
						read += a.Bytes
						if left -= a.Bytes; left == 0 && k+1 < len(sizes) {
							k++
							left = sizes[k]
						}
					}
				}
				expect.Equal(t, read, total, "bytes explained")
			}
		})
	}
}

// TestRingThatLost: what came while the ring was full is unknown until the next answer.
func TestRingThatLost(t *testing.T) {
	near, far := ringed(t, four, 0)
	b := make([]byte, 1<<20)
	say := func(text string) (known bool) {
		must.Have(far.Write([]byte(text)))(t)
		must.Have(near.Read(b))(t)
		_, known = near.Arrived(nil)
		return known
	}
	expect.Equal(t, say("before"), true, "known before the loss")
	near.in.ring.losses.Add(1)
	expect.Equal(t, say("the same answer"), false, "known in the answer that lost segments")
	near.Expect()
	expect.Equal(t, say("the next one"), true, "known in the next answer")
}

// TestHeadsOfAnything: no packet makes the ring fail.
func TestHeadsOfAnything(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	r := &Ring{flows: map[flow]*arrivals{}, opened: map[flow]uint32{}}
	for range 100_000 {
		p := make([]byte, chance.IntN(headBytes+1))
		for i := range p {
			p[i] = byte(chance.Uint32())
		}
		if len(p) > 0 {
			p[0] = []byte{0x45, 0x4f, 0x60, 0x40, p[0]}[chance.IntN(5)]
		}
		r.segment(p, chance.IntN(1<<17), 1)
		if f, _, payload, ok := parseHeads(p, len(p)); ok && payload > 0 {
			r.flows[f] = new(arrivals)
		}
	}
}

// TestRingNeedsAPermission: without CAP_NET_RAW, OpenRing says so.
func TestRingNeedsAPermission(t *testing.T) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err == nil {
		_ = unix.Close(fd)
		t.Skip("this process has CAP_NET_RAW")
	}
	_, err = OpenRing(nil, 1)
	expect.Contains(t, err.Error(), "CAP_NET_RAW")
}
