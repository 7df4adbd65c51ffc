package engine

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/engine/route"
)

// servers are the distinct addresses of a work's targets, each with a cache of its own: names may share one.
type servers struct {
	targets  []route.Target // that have these addresses, in order
	weights  []float64
	places   []route.Place // the first of each
	of       map[route.Place]int32
	capacity []int64 // tokens of each one's cache; 0 = unlimited or unknown
}

func (w *Work) servers() servers {
	places, weights := route.Addresses(w.Routing.Targets)
	s := servers{targets: w.Routing.Targets, of: make(map[route.Place]int32, len(places))}
	index := map[netip.AddrPort]int32{}
	for k, place := range places {
		addr := w.Targets[place.Target].Peers[place.Peer]
		i, known := index[addr]
		if !known {
			i = int32(len(s.places))
			index[addr] = i
			s.places, s.weights = append(s.places, place), append(s.weights, 0)
			s.capacity = append(s.capacity, w.cache(addr).Tokens)
		}
		s.weights[i] += weights[k]
		s.of[place] = i
	}
	if len(s.places) < len(places) {
		s.targets = make([]route.Target, len(s.places))
		for i, weight := range s.weights {
			s.targets[i] = route.Target{Weight: weight, Peers: 1}
		}
	}
	return s
}
