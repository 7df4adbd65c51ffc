package metrics

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Late joins the requests that left later than --max-drift with what the machine did at that time.
type Late struct {
	Requests  int64    `json:"requests"` // later than --max-drift
	Stolen    *Overlap `json:"stolen"`   // null where unknown
	Throttled *Overlap `json:"throttled"`
	Waited    *Overlap `json:"lane_run_queue"`
}

// Overlap is how many late requests one cause could have made late: it took at least half of their lateness in the
// intervals from their instant to their leaving. Others is the share of the punctual requests, 0..1, at whose instants it
// took as much: what chance alone would give. Null without a punctual request.
type Overlap struct {
	Requests int64    `json:"requests"`
	Others   *float64 `json:"others_share"`
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
