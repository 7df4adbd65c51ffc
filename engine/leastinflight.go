package engine

import (
	"runtime"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// balance gives each request, when it leaves, to the address with the fewest of our requests in flight against its weight. An
// address that fails requests counts them as in flight until it answers one again: one that is dead must not draw all others.
type balance struct {
	pools    []*pool
	released []atomic.Int32 // 1 + the requests, in the order in which they were given away; 0 = not yet there
	n        atomic.Int64   // of them

	// The recorder's own.
	followed int // of released
	known    []bool
	model    *workload.IdealModel
	ideal    workload.IdealHits
}

// newBalance is nil where places are settled before the run.
func newBalance(w *workload.Work, endpoints []*pool) *balance {
	if !w.Routing.LeastInFlight {
		return nil
	}
	b := &balance{pools: endpoints, released: make([]atomic.Int32, w.Requests()), known: make([]bool, w.Requests()), model: w.NewIdealModel()}
	b.ideal = b.model.Room(w.Requests())
	_, weights := route.Addresses(w.Routing.Targets)
	for k, p := range endpoints {
		p.weight = weights[k]
	}
	return b
}

// take chooses an address and counts a request there. Any goroutine may call it, and it allocates nothing.
func (b *balance) choose() *pool {
	for {
		best := b.pools[0]
		inFlight := best.inFlight.Load()
		for _, p := range b.pools[1:] {
			n := p.inFlight.Load()
			if route.Lighter(n, p.sent.Load(), p.weight, inFlight, best.sent.Load(), best.weight) {
				best, inFlight = p, n
			}
		}
		if best.inFlight.CompareAndSwap(inFlight, inFlight+1) {
			return best
		}
	}
}

// place is where request i, which leaves now, goes.
func (r *Run) place(i int32) *pool {
	b := r.balance
	if b == nil {
		return r.poolOf(i)
	}
	p := b.choose()
	rec := &r.records[i]
	r.work.Places[i] = route.Place{Target: p.target, Endpoint: p.index}
	rec.Target, rec.Endpoint = r.work.Targets[p.target].URL, p.name
	b.released[b.n.Add(1)-1].Store(i + 1)
	return p
}

// placed tells whether it is settled where request i goes, or went.
func (r *Run) placed(i int32) bool { return r.balance == nil || r.records[i].Target != "" }

// targetOf is the index of request i's target; -1 for one that never had any.
func (r *Run) targetOf(i int32) int {
	if !r.placed(i) {
		return -1
	}
	return r.work.Places[i].Target
}

// expect notes what an ideal cache would have held for request i, now that it is known where it and all before it went. The order
// is that in which they were released.
func (b *balance) expect(i int32, rec *record.Record) {
	for !b.known[i] {
		j := b.released[b.followed].Load() - 1
		if j < 0 {
			runtime.Gosched() // about to be noted
			continue
		}
		b.followed++
		b.model.Ask(int(j), &b.ideal)
		b.known[j] = true
	}
	b.ideal.Note(int(i), rec)
}

// needs is how many of the next requests each address gets if none ends before: those that level what is in flight.
func (b *balance) needs(next int64, into []int64) {
	low, high := 0.0, float64(next) // of a level, in requests for a weight of 1
	for _, p := range b.pools {
		high = max(high, float64(p.inFlight.Load()+next)/p.weight)
	}
	for range levelSteps {
		level, fits := (low+high)/2, 0.0
		for _, p := range b.pools {
			fits += max(0, level*p.weight-float64(p.inFlight.Load()))
		}
		if fits < float64(next) {
			low = level
		} else {
			high = level
		}
	}
	for k, p := range b.pools {
		into[k] = max(0, int64(high*p.weight+1)-p.inFlight.Load())
	}
}

// levelSteps halve the range of levels often enough: to a thousandth of a request of millions.
const levelSteps = 32
