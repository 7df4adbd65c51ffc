package metrics

import "github.com/fastreplay/fastreplay/codec/record"

// timing is what results by time keep of a request: 48 bytes, beside the hundreds of its record.
type timing struct {
	atNS, endNS            int64 // sent, or planned where it was not; the last instant known
	ttftNS                 int64 // of an OK one; record.None = none
	target, peer, instance int32 // below 0: none
	failure                int32 // place of its words; below 0: none
	outcome                record.Outcome
	sent, begun, gaveUp    bool // its first byte; its response's head had come; the server ended it with the reason "abort"
}

// timingsAtOnce is how many timings memory is taken for at a time.
const timingsAtOnce = 8192

// timings keeps one of each request. It belongs to the recorder.
type timings struct {
	pieces                     [][]timing
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
func (t *timings) add(r *record.Record, target int) {
	at := r.SentNS
	if at == record.None {
		at = r.PlannedNS
	}
	if at == record.None {
		return
	}
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last]) == timingsAtOnce {
		t.pieces = append(t.pieces, make([]timing, 0, timingsAtOnce))
		last++
	}
	k := timing{
		atNS: at, endNS: max(at, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS), ttftNS: record.None,
		target: int32(target), peer: t.peers.place(r.Peer), instance: t.instances.place(r.Instance), failure: -1,
		outcome: r.Outcome, sent: r.SentNS != record.None, begun: r.HeadersNS != record.None, gaveUp: r.FinishReason == "abort",
	}
	if r.Outcome == record.OK {
		k.ttftNS = r.TTFTNS()
	} else {
		k.failure = t.failures.place(r.Error)
	}
	t.pieces[last] = append(t.pieces[last], k)
}

// each calls f for every request, in order of completion.
func (t *timings) each(f func(*timing)) {
	for _, piece := range t.pieces {
		for i := range piece {
			f(&piece[i])
		}
	}
}

// endNS is the last instant of all.
func (t *timings) endNS() (end int64) {
	t.each(func(k *timing) { end = max(end, k.endNS) })
	return end
}

// inFlight is how many requests were in flight on average over a run of so many seconds.
func (c *Collector) inFlight(durationS float64) *float64 {
	if durationS <= 0 {
		return nil
	}
	mean := seconds(c.timings.flightNS()) / durationS
	return &mean
}

// flightNS is how long all requests were in flight, together.
func (t *timings) flightNS() (sum int64) {
	t.each(func(k *timing) {
		if k.sent {
			sum += k.endNS - k.atNS
		}
	})
	return sum
}
