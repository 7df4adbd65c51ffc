package metrics

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Late is the requests that left later than --max-drift, joined with what the machine did at that time.
type Late struct {
	Requests  int64    `json:"requests"`       // later than --max-drift
	Stolen    *Overlap `json:"stolen"`         // those that stolen processor time can explain; null where unknown, and without a late request
	Throttled *Overlap `json:"throttled"`      // those that a CPU limit can explain; likewise
	Waited    *Overlap `json:"lane_run_queue"` // those that a wait of the sending threads for a core can explain; likewise
}

// Overlap is how many late requests one cause could have made late: it took at least half of their lateness in the
// intervals from their instant to their leaving. others_share is what chance alone would give.
type Overlap struct {
	Requests int64    `json:"requests"`     // late requests that it can explain: it took at least half of their lateness
	Others   *float64 `json:"others_share"` // share of the punctual requests that met as much of it; null without any
}

// accountedNS is how late the kernel may book stolen and waited time: a tick of a kernel with HZ=100.
const accountedNS = 10_000_000

// Late looks at all requests that were sent, as late if they left more than limitNS after their instants.
func (m *MachineLoss) Late(limitNS int64, records []record.Record) *Late {
	var late []int64 // by how much
	for i := range records {
		if d := records[i].DriftNS(); d > limitNS {
			late = append(late, d)
		}
	}
	result := &Late{Requests: int64(len(late))}
	if len(late) == 0 {
		return result
	}
	slices.Sort(late)
	typical := late[len(late)/2]
	s := newSums(m)
	var among, others [Causes]int64
	var punctual int64
	for i := range records {
		planned, d, counts := records[i].PlannedNS, records[i].DriftNS(), &among
		if d == record.None {
			continue
		}
		if d <= limitNS {
			d, counts = typical, &others
			punctual++
		}
		for c, ns := range s.lost(planned, planned+d+accountedNS) {
			if float64(ns) >= blameHalf*float64(d) {
				counts[c]++
			}
		}
	}
	for c, o := range [Causes]**Overlap{&result.Stolen, &result.Throttled, &result.Waited} {
		if m.Known[c] {
			*o = &Overlap{among[c], ratio(others[c], punctual)}
		}
	}
	return result
}
