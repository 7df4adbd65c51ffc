package engine

import (
	"slices"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// leastInFlight sends each request, at its release, to the endpoint with the fewest requests in flight for its
// weight. Failed requests of an endpoint count as in flight until it answers one: an endpoint that is dead must not
// get all requests.
type leastInFlight struct {
	pools   []*pool
	skipped atomic.Int64 // how many are never released
}

// newLeastInFlight returns nil if endpoints are chosen before the run.
func newLeastInFlight(w *workload.Work, endpoints []*pool) *leastInFlight {
	if !w.Routing.LeastInFlight {
		return nil
	}
	b := &leastInFlight{pools: endpoints}
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

// choose chooses an endpoint and counts a request there. Any goroutine may call it, and it allocates nothing.
func (b *leastInFlight) choose() *pool {
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

// needs sets into to how many of the next requests each endpoint gets, if none ends before: they level what is in
// flight.
func (b *leastInFlight) needs(next int64, into []int64) {
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
	for k, p := range b.pools {
		if into[k] = 0; !p.gone.Load() {
			into[k] = max(0, int64(high*p.weight+1)-p.inFlight.Load())
		}
	}
}

// present are the endpoints that get requests.
func (b *leastInFlight) present() []*pool {
	if !slices.ContainsFunc(b.pools, func(p *pool) bool { return p.gone.Load() }) {
		return b.pools
	}
	return slices.DeleteFunc(slices.Clone(b.pools), func(p *pool) bool { return p.gone.Load() })
}

// levelSteps is how often the range of levels is halved: from millions of requests to a thousandth of one.
const levelSteps = 32
