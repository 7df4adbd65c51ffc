package engine

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// stalling is a backend whose first event after arm waits until let go: all that its receiver reads waits with it.
type stalling struct {
	api.Backend
	arm  atomic.Bool
	free chan struct{}
}

func (s *stalling) ParseEvent(data []byte, d *api.Delta) error {
	if s.arm.Load() {
		<-s.free
	}
	return s.Backend.ParseEvent(data, d)
}

// blockedFor is how long a write of the server must have lasted before it counts as one that waits for room.
const blockedFor = 300 * time.Millisecond

// floods answers with a stream of events that no receive buffer holds. It notes by its own clock since when a write
// waits.
type floods struct {
	events  int
	pad     string
	writing sync.Map // when the write of each connection began that lasts
}

func (f *floods) answer(c net.Conn, request int) {
	defer func() { _ = c.Close() }()
	for buf := make([]byte, request); ; {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		write := func(text string) {
			f.writing.Store(c, time.Now())
			_, _ = io.WriteString(c, text)
			f.writing.Delete(c)
		}
		write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range f.events {
			write(chunk(`data: {"choices":[{"index":0,"text":"a"}],"pad":"` + f.pad + `"}` + "\n\n"))
		}
		write(chunk(events(0, finish, usage(64, f.events, 0), done)) + "0\r\n\r\n")
	}
}

// allWait waits until so many writes wait for room.
func (f *floods) allWait(n int) {
	for waiting := 0; waiting < n; time.Sleep(time.Millisecond) {
		waiting = 0
		f.writing.Range(func(_, began any) bool {
			if time.Since(began.(time.Time)) > blockedFor {
				waiting++
			}
			return true
		})
	}
}

// TestAnswersLargerThanTheBuffer: a receiver that stalls makes the server wait for room. What comes afterwards has
// stamps in time but may be late, and each such request says so.
func TestAnswersLargerThanTheBuffer(t *testing.T) {
	stamped := wire.Stamps{Receive: true, Send: true}
	if err := wire.ProbeStamps(stamped); err != nil {
		t.Skip(err)
	}
	ringed := stamped
	ringed.Ring = wire.ProbeRing() == nil
	for _, secure := range []bool{false, true} {
		for _, stamps := range slices.Compact([]wire.Stamps{stamped, ringed}) {
			answersLargerThanTheBuffer(t, stamps, secure)
		}
	}
}

func answersLargerThanTheBuffer(t *testing.T, stamps wire.Stamps, secure bool) {
	const n = 12
	w, s := equalWork(t, n, openPlan)
	w.Targets[0].TLS = secure
	fake := httptest.NewUnstartedServer(nil)
	fake.StartTLS()
	defer fake.Close()
	f := &floods{events: 1000, pad: strings.Repeat("x", 1500)}
	s.handle = func(_ int64, c net.Conn) {
		_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10) // else the kernel takes it all, and the server never waits
		if secure {
			c = tls.Server(c, fake.TLS)
		}
		f.answer(c, s.request)
	}
	k := new(sink)
	r := newRunWith(t, oneThread, w, k, &tls.Config{InsecureSkipVerify: true})
	r.useStamps(stamps)
	blocks := &stalling{Backend: r.cfg.Backend, free: make(chan struct{})}
	r.cfg.Backend = blocks
	blocks.arm.Store(true)
	go func() {
		f.allWait(n)
		blocks.arm.Store(false)
		close(blocks.free)
	}()
	r.openRing()
	found := do(t, s, r)
	must.Equal(t, found.Client.Stamps.Ring, stamps.Ring, "%+v, secure %v: a ring", stamps, secure)
	for _, rec := range k.records {
		must.Equal(t, rec.Outcome, record.OK, "secure %v: %s", secure, rec.Error)
		if rec.LastSlackNS <= 0 {
			t.Errorf("secure %v: the server waited for room, and row %d does not say so", secure, rec.Row)
		}
	}
}
