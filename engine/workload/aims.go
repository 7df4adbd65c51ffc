package workload

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/http1"
)

// aims let a request be told its target when it leaves. Images are drawn for the target whose requests have the longest start,
// up to the Host header's value; another one's start takes its place, flush with what follows.
type aims struct {
	starts  [][]byte // by target
	longest int      // bytes
	gaps    []uint16 // by request: how far behind its place in the arena it begins
}

// newAims is nil where targets are settled before the requests are built.
func newAims(w *Work) *aims {
	if !w.Routing.LeastInFlight {
		return nil
	}
	a := &aims{gaps: make([]uint16, w.Requests())}
	for i := range w.Targets {
		a.starts = append(a.starts, w.Targets[i].start())
		a.longest = max(a.longest, len(a.starts[i]))
	}
	return a
}

// start is what the requests of a target begin with.
func (t *Target) start() []byte {
	return http1.AppendRequestStart(nil, method, t.Path+t.Query, t.Host)
}

// write puts the start of a target's requests into a request as it was drawn, and returns where it then begins.
func (a *aims) write(raw []byte, target int) (gap int) {
	gap = a.longest - len(a.starts[target])
	copy(raw[gap:], a.starts[target])
	return gap
}

// Aim makes request i, which has been built, one for a target, where that was open.
func (m *Requests) Aim(i int32, target int) {
	if m.aims == nil {
		return
	}
	m.aims.gaps[i] = uint16(m.aims.write(m.arena.bytes[m.Offset(int(i)):], target))
}

// drawnFor is the target that request i is drawn for.
func (w *Work) drawnFor(i int) *Target {
	if !w.Routing.LeastInFlight {
		return &w.Targets[w.Places[i].Target]
	}
	widest := &w.Targets[0]
	for j := range w.Targets {
		if t := &w.Targets[j]; len(t.Path)+len(t.Query)+len(t.Host) > len(widest.Path)+len(widest.Query)+len(widest.Host) {
			widest = t
		}
	}
	return widest
}

// CheckLeastInFlight refuses targets between which requests cannot be decided when they leave.
func (w *Work) CheckLeastInFlight() error {
	for i := range w.Targets {
		if t := &w.Targets[i]; t.Path != w.Targets[0].Path {
			return fmt.Errorf("%s posts to %s, %s to %s: requests that may go to either are built before, so want one path", w.Targets[0].URL, w.Targets[0].Path, t.URL, t.Path)
		} else if len(t.start()) > mostStart {
			return fmt.Errorf("%s: its path and host have more than %d bytes", t.URL, mostStart)
		}
	}
	return nil
}

// mostStart is the most bytes that a request's start may have where it is written when the request leaves.
const mostStart = 32 << 10
