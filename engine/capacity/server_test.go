package capacity

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// request is one of a simulated window. Times are in s of virtual time.
type request struct {
	at   float64
	ttft float64 // +Inf if it failed
	tpot float64
	done float64 // when it ended
}

// server sets what becomes of requests, which are in order of arrival.
type server func(rng *rand.Rand, all []request)

// model is a server and a load on it in virtual time: no sockets, no clock.
type model struct {
	name       string
	slo        string
	objectives []Objective
	rate       float64 // requests a second at a load of 1
	knee       float64 // the load at which the long-run share beyond equals what is allowed
	least      float64 // where the search begins
	arrivals   func(m *model, rng *rand.Rand, load, seconds float64) []request
	serve      server
	serveAt    func(load float64) server // instead, if it depends on the load
}

// poisson are independent requests.
func poisson(m *model, rng *rand.Rand, load, seconds float64) (all []request) {
	for at := rng.ExpFloat64() / m.rate / load; at < seconds; at += rng.ExpFloat64() / m.rate / load {
		all = append(all, request{at: at})
	}
	return all
}

// poissonOf are independent requests at a rate that does not depend on the load.
func poissonOf(rate float64) func(*model, *rand.Rand, float64, float64) []request {
	return func(m *model, rng *rand.Rand, _, seconds float64) []request {
		return poisson(&model{rate: rate}, rng, 1, seconds)
	}
}

// regular are requests at equal distances.
func regular(m *model, _ *rand.Rand, load, seconds float64) (all []request) {
	for i := 1.0; i/m.rate/load < seconds; i++ {
		all = append(all, request{at: i / m.rate / load})
	}
	return all
}

// bursts are independent requests, at 1.3 times the rate in every other 5 s and 0.7 times in between.
func bursts(m *model, rng *rand.Rand, load, seconds float64) (all []request) {
	for at := 0.0; at < seconds; {
		at += rng.ExpFloat64() / m.rate / load / 1.3
		if int(at/5)%2 == 0 || rng.Float64() < 0.7/1.3 {
			all = append(all, request{at: at})
		}
	}
	return all
}

// floats is a heap of times.
type floats []float64

func (h floats) Len() int           { return len(h) }
func (h floats) Less(i, j int) bool { return h[i] < h[j] }
func (h floats) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *floats) Push(x any)        { *h = append(*h, x.(float64)) }
func (h *floats) Pop() any          { old := *h; x := old[len(old)-1]; *h = old[:len(old)-1]; return x }

// queue serves in order of arrival on so many servers. More than room waiting requests are refused.
func queue(servers, room int, service func(rng *rand.Rand) float64) server {
	return func(rng *rand.Rand, all []request) {
		free := make(floats, servers) // when each server is free
		var starts []float64          // of those that wait
		for i := range all {
			r := &all[i]
			for len(starts) > 0 && starts[0] <= r.at {
				starts = starts[1:]
			}
			start := max(r.at, free[0])
			if room > 0 && start > r.at && len(starts) >= room {
				r.ttft, r.done = math.Inf(1), r.at
				continue
			}
			if start > r.at {
				starts = append(starts, start)
			}
			r.ttft = start - r.at
			r.done = start + service(rng)
			free[0] = r.done
			heap.Fix(&free, 0)
		}
	}
}

// models are servers with loads. The knee of log-normal is that of long simulations.
func models() []model {
	return []model{
		{name: "M/M/8", slo: "ttft.p95<1s", rate: 2, knee: erlang(8, 0.05, 1) / 2, least: 1, arrivals: poisson, serve: queue(8, 0, exponential)},
		{name: "M/M/32, p99", slo: "ttft.p99<500ms", rate: 40, knee: erlang(32, 0.01, 0.5) / 40, least: 1, arrivals: poisson, serve: queue(32, 0, exponential)},
		{name: "refusing", slo: "ok>=95% ttft.p50<10s", rate: 0.75, knee: refused(8, 4, 0.05) / 0.75, least: 1, arrivals: poisson, serve: queue(8, 4, exponential)},
		{name: "log-normal", slo: "ttft.p90<500ms", rate: 10, knee: 1.8037, least: 1, arrivals: bursts, serve: queue(16, 0, func(rng *rand.Rand) float64 { return 0.5 * math.Exp(0.8*rng.NormFloat64()) })},
		{name: "hard edge", slo: "ttft.p95<1s", rate: 3, knee: 10. / 3, least: 1, arrivals: regular, serve: queue(1, 0, func(*rand.Rand) float64 { return 0.1 })},
	}
}

func exponential(rng *rand.Rand) float64 { return rng.ExpFloat64() }

// refused is the rate at which a share of the requests finds all servers and places to wait taken, in an
// M/M/servers/servers+room queue with service times of 1 s.
func refused(servers, room int, share float64) float64 {
	return root(float64(10*servers), func(rate float64) bool {
		p, sum := 1.0, 1.0
		for i := 1; i <= servers+room; i++ {
			p *= rate / float64(min(i, servers))
			sum += p
		}
		return p/sum < share
	}, 60)
}

// erlang is the rate at which a share of the requests waits longer than limit s in an M/M/servers queue with service
// times of 1 s.
func erlang(servers int, beyond, limit float64) float64 {
	return root(float64(servers), func(rate float64) bool {
		blocked := 1.0 // Erlang B
		for i := 1; i <= servers; i++ {
			blocked = rate * blocked / (float64(i) + rate*blocked)
		}
		used := rate / float64(servers)
		waits := blocked / (1 - used*(1-blocked)) // Erlang C
		return waits*math.Exp(-(float64(servers)-rate)*limit) < beyond
	}, 60)
}

// root is the largest number from 0 to most for which less is true.
func root(most float64, less func(float64) bool, steps int) float64 {
	lo, hi := 0.0, most
	for range steps {
		if middle := (lo + hi) / 2; less(middle) {
			lo = middle
		} else {
			hi = middle
		}
	}
	return lo
}
