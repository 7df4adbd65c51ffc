package engine

import (
	"slices"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// lateRouter settles where each request goes at its release: as planned, if that endpoint is still there. Otherwise it
// goes to the endpoint with the fewest requests in flight for its weight. Failed requests of an endpoint count as in
// flight until it answers one: an endpoint that is dead must not get all requests.
type lateRouter struct {
	pools   []*pool
	poolsOf [][]*pool                     // by target
	planned atomic.Pointer[[]route.Place] // by request; nil = nothing is planned
	skipped atomic.Int64                  // how many are never released
}

// newLateRouter returns nil if endpoints are chosen before the run.
func newLateRouter(w *workload.Work, endpoints []*pool, poolsOf [][]*pool) *lateRouter {
	if !w.Routing.Late {
		return nil
	}
	b := &lateRouter{pools: endpoints, poolsOf: poolsOf}
	if route.IsPlanned(w.Routing.Router) {
		b.planned.Store(&w.Places)
	}
	_, weights := route.Addresses(w.Routing.Targets)
	for k, p := range endpoints {
		p.weight = 1
		if p.gone.Load() {
			continue // a spare one
		}
		p.weight = weights[k]
	}
	return b
}

// plannedPool is where request i goes as planned; nil if nothing is planned, or if nobody is there.
func (b *lateRouter) plannedPool(i int) *pool {
	planned := b.planned.Load()
	if planned == nil {
		return nil
	}
	place := (*planned)[i]
	if p := b.poolsOf[place.Target][place.Endpoint]; !p.gone.Load() {
		return p
	}
	return nil
}

// choose settles the endpoint of request i and counts it there. Any goroutine may call it, and it allocates nothing.
func (b *lateRouter) choose(i int) *pool {
	if p := b.plannedPool(i); p != nil {
		p.inFlight.Add(1)
		return p
	}
	for {
		best := b.pools[0]
		inFlight := best.inFlight.Load()
		for _, p := range b.pools[1:] {
			n := p.inFlight.Load()
			if p.gone.Load() {
				continue
			}
			if best.gone.Load() || route.Lighter(n, p.sent.Load(), p.weight, inFlight, best.sent.Load(), best.weight) {
				best = p
				inFlight = n
			}
		}
		if best.inFlight.CompareAndSwap(inFlight, inFlight+1) {
			return best
		}
	}
}

// needs sets how many requests are due at each endpoint. They are those from one number up to another, if they are
// planned. Else they are as many, which level what is in flight if none ends before.
func (b *lateRouter) needs(from, to int64) {
	for _, p := range b.pools {
		p.due = 0
	}
	if b.planned.Load() != nil {
		for i := from; i < to; i++ {
			if p := b.plannedPool(int(i)); p != nil {
				p.due++
			}
		}
		return
	}
	next := max(0, to-from)
	low, high := 0.0, float64(next) // of a level, in requests for a weight of 1
	present := b.present()
	for _, p := range present {
		high = max(high, float64(p.inFlight.Load()+next)/p.weight)
	}
	for range levelSteps {
		level := (low + high) / 2
		fits := 0.0
		for _, p := range present {
			fits += max(0, level*p.weight-float64(p.inFlight.Load()))
		}
		if fits < float64(next) {
			low = level
		} else {
			high = level
		}
	}
	for _, p := range present {
		p.due = max(0, int64(high*p.weight+1)-p.inFlight.Load())
	}
}

// present are the endpoints that get requests.
func (b *lateRouter) present() []*pool {
	if !slices.ContainsFunc(b.pools, func(p *pool) bool { return p.gone.Load() }) {
		return b.pools
	}
	return slices.DeleteFunc(slices.Clone(b.pools), func(p *pool) bool { return p.gone.Load() })
}

// levelSteps is how often the range of levels is halved: from millions of requests to a thousandth of one.
const levelSteps = 32
