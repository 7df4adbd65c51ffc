package metrics

import "github.com/fastreplay/fastreplay/codec/record"

// moment is what results by time keep of a request: 48 bytes, beside the hundreds of its record.
type moment struct {
	atNS, endNS            int64 // sent, or planned where it was not; the last instant known
	ttftNS                 int64 // of an OK one; record.None = none
	target, peer, instance int32 // below 0: none
	failure                int32 // place of its words; below 0: none
	outcome                record.Outcome
	sent                   bool
}

// momentsAtOnce is how many moments memory is taken for at a time.
const momentsAtOnce = 8192

// moments keeps one of each request. It belongs to the recorder.
type moments struct {
	pieces                     [][]moment
	peers, instances, failures names
}

// maxNames bounds what is told apart by name.
const maxNames = maxParts

// names numbers different texts in order of first mention.
type names struct {
	list   []string
	places map[string]int32
}

// place is the number of a text; below 0 for "", and for what comes beyond maxNames.
func (n *names) place(text string) int32 {
	if text == "" {
		return -1
	}
	if at, ok := n.places[text]; ok {
		return at
	}
	if len(n.list) == maxNames {
		return -1
	}
	if n.places == nil {
		n.places = map[string]int32{}
	}
	at := int32(len(n.list))
	n.places[text] = at
	n.list = append(n.list, text)
	return at
}

// of is the text of a place.
func (n *names) of(place int32) string {
	if place < 0 {
		return ""
	}
	return n.list[place]
}

// add keeps a request; one that was neither sent nor planned has no time.
func (m *moments) add(r *record.Record, target int) {
	at := r.SentNS
	if at == record.None {
		at = r.PlannedNS
	}
	if at == record.None {
		return
	}
	last := len(m.pieces) - 1
	if last < 0 || len(m.pieces[last]) == momentsAtOnce {
		m.pieces = append(m.pieces, make([]moment, 0, momentsAtOnce))
		last++
	}
	k := moment{
		atNS: at, endNS: max(at, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS), ttftNS: record.None,
		target: int32(target), peer: m.peers.place(r.Peer), instance: m.instances.place(r.Instance), failure: -1,
		outcome: r.Outcome, sent: r.SentNS != record.None,
	}
	if r.Outcome == record.OK {
		k.ttftNS = r.TTFTNS()
	} else {
		k.failure = m.failures.place(r.Error)
	}
	m.pieces[last] = append(m.pieces[last], k)
}

// each calls f for every request, in order of completion.
func (m *moments) each(f func(*moment)) {
	for _, piece := range m.pieces {
		for i := range piece {
			f(&piece[i])
		}
	}
}

// endNS is the last instant of all.
func (m *moments) endNS() (end int64) {
	m.each(func(k *moment) { end = max(end, k.endNS) })
	return end
}

// inFlight is how many requests were in flight on average over a run of so many seconds.
func (c *Collector) inFlight(durationS float64) *float64 {
	if durationS <= 0 {
		return nil
	}
	mean := seconds(c.moments.flightNS()) / durationS
	return &mean
}

// flightNS is how long all requests were in flight, together.
func (m *moments) flightNS() (sum int64) {
	m.each(func(k *moment) {
		if k.sent {
			sum += k.endNS - k.atNS
		}
	})
	return sum
}
