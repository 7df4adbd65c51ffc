package workload

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/engine/route"
)

// Servers are the distinct addresses of a work's targets, each with a cache of its own: names may share one.
type Servers struct {
	Targets  []route.Target // that have these addresses, in order
	Weights  []float64
	places   []route.Place // the first of each
	Of       map[route.Place]int32
	Capacity []int64 // tokens of each one's cache; 0 = unlimited or unknown
}

// Servers lists the work's addresses, each once.
func (w *Work) Servers() Servers {
	places, weights := route.Addresses(w.Routing.Targets)
	s := Servers{Targets: w.Routing.Targets, Of: make(map[route.Place]int32, len(places))}
	index := map[netip.AddrPort]int32{}
	for k, place := range places {
		addr := w.Targets[place.Target].Peers[place.Peer]
		i, known := index[addr]
		if !known {
			i = int32(len(s.places))
			index[addr] = i
			s.places, s.Weights = append(s.places, place), append(s.Weights, 0)
			s.Capacity = append(s.Capacity, w.Cache(addr).Tokens)
		}
		s.Weights[i] += weights[k]
		s.Of[place] = i
	}
	if len(s.places) < len(places) {
		s.Targets = make([]route.Target, len(s.places))
		for i, weight := range s.Weights {
			s.Targets[i] = route.Target{Weight: weight, Peers: 1}
		}
	}
	return s
}
