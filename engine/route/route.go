// Package route decides which instance gets which request.
//
// It owns the choice alone: no sockets, no time. Its functions are pure.
package route

// Place is one address of one target.
type Place struct {
	Target int // index of the target
	Peer   int // index among the target's addresses
}

// RoundRobin gives request i of n to target i mod T and, within the target, to its addresses in turn, so that an address
// behind a name with three of them gets a third of what the name gets. peers holds the number of addresses of each target.
func RoundRobin(n int, peers []int) []Place {
	places := make([]Place, n)
	for i := range places {
		t := i % len(peers)
		places[i] = Place{Target: t, Peer: i / len(peers) % peers[t]}
	}
	return places
}
