package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestRequestsInPiecesArriveWhole: from threads and from a process, with TLS and without, and where the kernel takes
// only a part at once, a server gets the bytes that whole requests have.
func TestRequestsInPiecesArriveWhole(t *testing.T) {
	eachSender(t, func(t *testing.T, kind senderKind) {
		for _, c := range []struct{ tls, part bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
			t.Run(fmt.Sprintf("tls=%t,part=%t", c.tls, c.part), func(t *testing.T) { piecesArriveWhole(t, kind, c.tls, c.part) })
		}
	})
}

func piecesArriveWhole(t *testing.T, kind senderKind, secure, part bool) {
	const n = 20
	var mu sync.Mutex
	got := map[string][]byte{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[r.Header.Get("X-Request-Id")] = body
		mu.Unlock()
		_, _ = io.WriteString(w, events(16, finish, usage(64, 16, 0), done))
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	defer s.Close()
	made := must.Have(trace.Generate(trace.Gen{ArrivalNS: workloadtest.Spaced(n, 400), InputTokens: trace.Range{Min: 2000, Max: 30_000}, OutputTokens: trace.Range{Min: 16, Max: 16},
		Turns: trace.Range{Min: 5, Max: 5}, TurnTokens: trace.Range{Min: 100, Max: 900}, SystemTokens: 1024}))(t)
	p := must.Have(sched.FromTrace(made.ArrivalNS, 1, 0))(t)
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	w := &workload.Work{Trace: made, Plan: p, Places: route.RoundRobin(n, route.Even([]int{1}))}
	w.Targets = []workload.Target{{URL: s.URL, Host: addr.String(), Path: "/v1/completions", Endpoints: []netip.AddrPort{addr}, TLS: secure, Name: "127.0.0.1", Port: addr.Port()}}
	b := workloadtest.Builder(t, "", "a", 1)
	whole := workloadtest.Build(t, b, w)
	b.AlwaysShare = true
	w.Prebuilt = workloadtest.Build(t, b, w)
	k := new(sink)
	r := newRunWith(t, kind, w, k, &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
	r.dialer.fillFirst(context.Background())
	if part {
		for i := range r.table {
			if c := r.table[i].Load(); c != nil {
				_ = c.sock.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<12) })
			}
		}
	}
	found := must.Have(r.Do(context.Background()))(t)
	expect.Equal(t, part, r.partialWrites.Load() > 0, "%d partial writes", r.partialWrites.Load())
	several := 0
	for _, rec := range k.records {
		want := whole.At(int(rec.Row))
		_, body, _ := bytes.Cut(want, []byte("\r\n\r\n"))
		l := w.Prebuilt.List(int(rec.Row))
		if l.Pieces() > 2 {
			several++
		}
		if rec.Outcome != record.OK || !bytes.Equal(got[rec.RequestID], body) {
			t.Fatalf("row %d: %v %q, %d bytes of body arrived, want %d", rec.Row, rec.Outcome, rec.Error, len(got[rec.RequestID]), len(body))
		}
		if most := wire.EncryptedSize(int64(len(want)), l.Pieces()); rec.BytesSent < int64(len(want)) || rec.BytesSent > most || !secure && rec.BytesSent != int64(len(want)) {
			t.Fatalf("row %d: %d bytes sent of %d", rec.Row, rec.BytesSent, len(want))
		}
	}
	if len(k.records) != n || several != n || found.Run.Partial {
		t.Errorf("%d records, %d requests of several pieces", len(k.records), several)
	}
}
