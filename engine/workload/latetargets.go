package workload

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/route"
)

// lateTargets let a request get its target when it leaves. Requests are built for the target with the longest start,
// which ends with the Host header's value. Another target's start overwrites it, directly before what follows.
type lateTargets struct {
	starts  [][]byte // by target
	longest int      // bytes
	offsets []uint16 // by request: how far behind its place in the arena it begins
}

// newLateTargets is nil where targets are settled before the requests are built.
func newLateTargets(w *Work) *lateTargets {
	if !w.Routing.Late {
		return nil
	}
	a := &lateTargets{offsets: make([]uint16, w.Requests())}
	for i := range w.Targets {
		start := w.Targets[i].start()
		a.starts = append(a.starts, start)
		a.longest = max(a.longest, len(start))
	}
	return a
}

// start is what the requests of a target begin with.
func (t *Target) start() []byte {
	return http1.AppendRequestStart(nil, method, t.Path+t.Query, t.Host)
}

// spareURL begins the names of spare targets. mostHost is how many bytes a host's name and port have at most (RFC
// 1035).
const (
	spareURL = "spare:"
	mostHost = 255 + len(":65535")
)

// AddSpares adds targets in whose places others may join during the run, with caches like the first target's. Call it
// before the requests are built.
func (w *Work) AddSpares(n int) {
	for k := range n {
		t := w.Targets[0]
		t.URL = fmt.Sprint(spareURL, k)
		t.Host = strings.Repeat("x", mostHost)
		t.TLS = false
		nowhere := netip.AddrPortFrom(netip.AddrFrom4([4]byte{0, 0, 0, byte(k + 1)}), 1)
		if cache, known := w.Caches[w.Targets[0].Endpoints[0]]; known {
			w.Caches[nowhere] = cache
		}
		t.Endpoints = []netip.AddrPort{nowhere}
		w.Targets = append(w.Targets, t)
		w.Routing.Targets = append(w.Routing.Targets, route.Target{Endpoints: 1})
	}
	w.Spare = n
}

// IsSpare reports whether a target's name is that of a spare one.
func (w *Work) IsSpare(url string) bool { return strings.HasPrefix(url, spareURL) }

// SetStart makes a spare target's requests begin as those of t; false if they cannot. No request may be for it yet.
func (m *Requests) SetStart(target int, t *Target) bool {
	start := t.start()
	if t.Path != m.work.Targets[0].Path || len(start) > m.late.longest {
		return false
	}
	m.late.starts[target] = start
	return true
}

// write puts the start of a target's requests into a request as it was built, and returns where it then begins.
func (a *lateTargets) write(raw []byte, target int) (offset int) {
	offset = a.longest - len(a.starts[target])
	copy(raw[offset:], a.starts[target])
	return offset
}

// SetTarget makes request i, which has been built, one for a target, where that was open.
func (m *Requests) SetTarget(i int32, target int) {
	if m.late == nil {
		return
	}
	raw := m.arena.bytes[m.place(int(i)):]
	m.late.offsets[i] = uint16(m.late.write(raw, target))
}

// builtFor is the target that request i is built for.
func (w *Work) builtFor(i int) *Target {
	if !w.Routing.Late {
		return &w.Targets[w.Places[i].Target]
	}
	widest := &w.Targets[0]
	for j := range w.Targets {
		t := &w.Targets[j]
		if t.width() > widest.width() {
			widest = t
		}
	}
	return widest
}

// width is how many bytes of a request's start the target decides.
func (t *Target) width() int {
	return len(t.Path) + len(t.Query) + len(t.Host)
}

// CheckLate refuses targets between which nothing can decide when requests leave.
func (w *Work) CheckLate() error {
	first := &w.Targets[0]
	for _, t := range w.Targets {
		if t.Path != first.Path {
			return fmt.Errorf(
				"%s posts to %s, %s to %s: requests that may go to either are built before, so want one path",
				first.URL, first.Path, t.URL, t.Path)
		}
		if len(t.start()) > mostStart {
			return fmt.Errorf("%s: its path and host have more than %d bytes", t.URL, mostStart)
		}
	}
	return nil
}

// mostStart is the most bytes that a request's start may have where it is written when the request leaves.
const mostStart = 32 << 10
