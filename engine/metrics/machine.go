package metrics

import "github.com/fastreplay/fastreplay/codec/record"

// Machine is what the machine took from the client during a replay.
type Machine struct {
	Loss           *MachineLoss
	OthersWaitedNS int64 // how long all threads but the sending ones were ready and had no core; record.None = unknown
}

// describe fills in the keys of summary.json. Of a nil Machine nothing is known.
func (m *Machine) describe(c *Client) {
	if m == nil {
		return
	}
	all := m.Loss.total()
	for cause, to := range [Causes]**float64{&c.StolenS, &c.ThrottledS, &c.LaneRunQueueS} {
		if m.Loss.Known[cause] {
			*to = inS(all.LostNS[cause])
		}
	}
	if m.OthersWaitedNS != record.None {
		c.RunQueueS = inS(m.OthersWaitedNS + all.LostNS[Waited])
	}
	if c.StolenS != nil && all.CapacityNS > 0 {
		c.StolenShare = ratio(all.LostNS[Stolen], all.CapacityNS)
		worst := m.Loss.worstStolen()
		c.StolenWorst = &worst
	}
}

func inS(ns int64) *float64 {
	s := float64(ns) / 1e9
	return &s
}
