package engine

import (
	"slices"

	"github.com/fastreplay/fastreplay/engine/workload"
)

// Join lets a target take requests during a run, at a spare endpoint of the work, or at its own if it has left before.
// It is given the first address of the target. It returns false if none is spare, or if requests cannot begin with its
// path and host. One goroutine at a time calls Join and Leave.
func (r *Run) Join(t *workload.Target, weight float64) bool {
	for _, p := range r.pools {
		if p.url == t.URL && p.gone.Load() {
			r.enter(p)
			return true
		}
	}
	for _, p := range r.pools[len(r.pools)-r.work.Spare:] {
		if r.work.IsSpare(p.url) && r.work.Prebuilt.SetStart(p.target, t) {
			p.url = t.URL
			p.addr = t.Endpoints[0]
			p.name = t.Endpoints[0].String()
			p.weight = weight
			p.dial.ServerName = t.Name
			p.dial.TLS = nil
			p.dial.Epoll = !t.TLS
			if t.TLS {
				p.dial.TLS = r.cfg.TLS
			}
			r.enter(p)
			return true
		}
	}
	return false
}

// enter lets an endpoint take requests. It counts as if it had had its share so far: else it would get all for a while.
func (r *Run) enter(p *pool) {
	p.inFlight.Add(-p.failures.Swap(0))
	for _, other := range r.lateRouter.present() {
		p.sent.Store(max(p.sent.Load(), int64(float64(other.sent.Load())/other.weight*p.weight)))
	}
	p.gone.Store(false)
}

// Leave sends no further request to a target; those in flight end. It returns false if no other target is left.
func (r *Run) Leave(url string) bool {
	others := 0
	for _, p := range r.lateRouter.present() {
		if p.url != url {
			others++
		}
	}
	if others == 0 {
		return false
	}
	for _, p := range r.pools {
		if p.url != url {
			continue
		}
		p.gone.Store(true)
		p.eachConn(func(c *conn) {
			if c.state.CompareAndSwap(idle, dead) {
				c.closeAndRemove()
			}
		})
	}
	return true
}

// Replan gives requests that are to come new places among the targets that take part now, where places are planned. It
// returns how many had been released by then. Those that leave meanwhile go as planned before.
func (r *Run) Replan() (released int64) {
	b := r.lateRouter
	order := r.idealOrder
	if b.planned.Load() != nil {
		targets := slices.Clone(r.work.Routing.Targets)
		for i, of := range r.poolsOf {
			if targets[i].Weight = of[0].weight * float64(len(of)); of[0].gone.Load() {
				targets[i].Weight = 0
			}
		}
		b.planned.Store(new(r.work.Placed(targets, order.sofar())))
	}
	return order.n.Load()
}

// TargetURLs are the targets that took part, in the order of Sink.Record's. Call it after Do.
func (r *Run) TargetURLs() (urls []string) {
	for _, of := range r.poolsOf {
		if !r.work.IsSpare(of[0].url) { // those that joined took the first
			urls = append(urls, of[0].url)
		}
	}
	return urls
}
