package engine

import (
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/wire"
)

// A server with Nagle's algorithm holds a small segment back until the one before is acknowledged (RFC 896). Linux
// acknowledges when we read, and after 40 ms at the latest. So a reader may pause for longer than a millisecond only if
// the server is known to go on. The proof is two small segments, of which the first was not acknowledged in between.

const (
	// quickAcks is how many segments the kernel may acknowledge as they come (net/ipv4/tcp_input.c, TCP_MAX_QUICKACKS).
	// It may begin anew after a silence of a retransmission timeout, which is at least 0.2 s.
	quickAcks = 16
	// soonestAckNS is how long the kernel delays an acknowledgement at least (include/net/tcp.h, TCP_DELACK_MIN).
	soonestAckNS = int64(40 * time.Millisecond)
	// proofsNeeded are of so many reads.
	proofsNeeded = 3
)

// smallSegments are those that came on a connection one after the other.
type smallSegments struct {
	count  int
	lastNS int64 // wall clock
}

// note notes a read, and reports whether it proves that the server goes on without an acknowledgement.
func (s *smallSegments) note(came []wire.Arrival) (proved bool) {
	const (
		leastFull    = 536 // no full segment has less; Nagle's algorithm lets a full one pass
		quickAgainNS = int64(100 * time.Millisecond)
	)
	for k, a := range came {
		switch {
		case a.Bytes >= leastFull || a.WallNS-s.lastNS > quickAgainNS:
			s.count = 0
		case k > 0 && s.count > quickAcks && a.WallNS-came[0].WallNS < soonestAckNS:
			proved = true
		}
		s.count++
		s.lastNS = a.WallNS
	}
	return proved
}

// nagle is what is known of an endpoint. Readers share it.
type nagle struct {
	proofs  atomic.Int32 // that it goes on without acknowledgements
	trials  atomic.Int32 // since the latest proof
	trialNS atomic.Int64 // there is none before
}

// absent reports whether the endpoint is known to go on without acknowledgements.
func (n *nagle) absent() bool { return n.proofs.Load() >= proofsNeeded }

// note notes a read of a connection.
func (n *nagle) note(s *smallSegments, came []wire.Arrival) {
	if !n.absent() && s.note(came) {
		n.proofs.Add(1)
		n.trials.Store(0)
		n.trialNS.Store(0)
	}
}

// try reports whether a connection is to be left unread for once, to see whether the server goes on. With Nagle's
// algorithm that delays a token. So the time between trials doubles until there is a proof.
func (n *nagle) try(s *smallSegments, nowNS int64) bool {
	at := n.trialNS.Load()
	if n.absent() || s.count <= quickAcks || nowNS < at {
		return false
	}
	const mostDoublings = 16
	return n.trialNS.CompareAndSwap(at, nowNS+soonestAckNS<<min(n.trials.Add(1), mostDoublings))
}
