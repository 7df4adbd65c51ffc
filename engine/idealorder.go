package engine

import (
	"runtime"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// idealOrder finds what an ideal cache would have held for each request, in the order of their release. It is for runs
// that alone tell that order, or where a request goes.
type idealOrder struct {
	released []atomic.Int32 // 1 + the requests, in the order of their release; 0 = not noted yet
	n        atomic.Int64   // how many requests are in released, or about to be

	// What follows belongs to Run.recordAll.
	followed int // how many of released the model has seen
	known    []bool
	model    *workload.IdealModel
	ideal    workload.IdealHits
}

// newIdealOrder returns nil if all is known before the run. A part of a load does not tell in which order the other
// parts are released: there the planned order counts.
func newIdealOrder(w *workload.Work) *idealOrder {
	whole := w.Numbers == nil
	if !w.Routing.Late && (w.Plan.Dependencies == nil || !whole) {
		return nil
	}
	o := &idealOrder{
		released: make([]atomic.Int32, w.Requests()),
		known:    make([]bool, w.Requests()),
		model:    w.NewIdealModel(),
	}
	o.ideal = o.model.Room(w.Requests())
	return o
}

// note counts request i as released now. Any goroutine may call it.
func (o *idealOrder) note(i int32) { o.released[o.n.Add(1)-1].Store(i + 1) }

// sofar are the requests that have been released, in their order. Any goroutine may call it.
func (o *idealOrder) sofar() (released []int32) {
	for k := range o.n.Load() {
		i := o.released[k].Load() - 1
		if i < 0 {
			break // send is about to note it
		}
		released = append(released, i)
	}
	return released
}

// expect notes in rec what an ideal cache would have held for request i, which was released. It follows all requests up
// to i in the order of their release.
func (o *idealOrder) expect(i int32, rec *record.Record) {
	for !o.known[i] {
		j := o.released[o.followed].Load() - 1
		if j < 0 {
			runtime.Gosched() // send is about to note it
			continue
		}
		o.followed++
		o.model.Observe(int(j), &o.ideal)
		o.known[j] = true
	}
	o.ideal.FillRecord(int(i), rec)
}
