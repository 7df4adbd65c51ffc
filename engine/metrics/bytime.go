package metrics

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// mostSteps is into how many steps of time a run is cut at most.
const mostSteps = 60

// mostLines bounds the instances that have a line by time.
const mostLines = 64

// Step is a line of timeline.jsonl. It has what became of the requests to one target, or of one instance, that were sent
// within a step of time. A request that was not sent counts at its planned time.
type Step struct {
	FromS    float64          `json:"from_s"`             // begin of the step, since the start of the run
	ToS      float64          `json:"to_s"`               // end of the step
	Target   string           `json:"target,omitempty"`   // URL; absent in the line of an instance
	Instance string           `json:"instance,omitempty"` // as answers name it; absent in the line of a target
	Requests int64            `json:"requests"`           // sent in the step, or, if unsent, planned in it
	OK       int64            `json:"ok"`                 // of these, those that ended ok
	Failed   map[string]int64 `json:"failed"`             // of these, those that did not, by outcome
	InFlight float64          `json:"in_flight"`          // mean over the step
	TTFTP50  *float64         `json:"ttft_p50_ms"`        // of the step's requests, by nearest rank; null without any
	TTFTP99  *float64         `json:"ttft_p99_ms"`        // likewise

	ttft []int64
}

// stepNS is the length of the steps of a run that ends at endNS. It is a number that people read easily, and whole hours
// for a long run.
func stepNS(endNS int64) int64 {
	const second, hour = int64(1e9), int64(3600e9)
	for _, w := range []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600} {
		if endNS < w*second*mostSteps {
			return w * second
		}
	}
	return (endNS/(hour*mostSteps) + 1) * hour
}

// ByTime returns the requests by time: all steps of the first target, then those of the next. The instances that answers
// name follow, in order of their names. It is made of the records alone, so it is the same whenever they are read.
func (c *Collector) ByTime() []Step {
	end := c.timings.endNS()
	width := stepNS(end)
	steps := int(end/width) + 1
	instances := slices.SortedFunc(slices.Values(c.timings.instances.list), natural)
	instances = instances[:min(len(instances), mostLines)]
	out := make([]Step, 0, (len(c.urls)+len(instances))*steps)
	line := func(target, instance string) {
		for i := range steps {
			out = append(out, Step{FromS: seconds(int64(i) * width), ToS: seconds(int64(i+1) * width), Target: target, Instance: instance, Failed: map[string]int64{}})
		}
	}
	for _, url := range c.urls {
		line(url, "")
	}
	at := make([]int, len(c.timings.instances.list)) // where an instance's steps begin; 0 = nowhere
	for _, name := range instances {
		at[c.timings.instances.places[name]] = len(out)
		line("", name)
	}
	c.timings.each(func(k *timing) {
		if k.target >= 0 && int(k.target) < len(c.urls) {
			k.addTo(out[int(k.target)*steps:][:steps], width)
		}
		if k.instance >= 0 && at[k.instance] > 0 {
			k.addTo(out[at[k.instance]:][:steps], width)
		}
	})
	for i := range out {
		out[i].end()
	}
	return out
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// addTo counts a request among the steps of one line.
func (k *timing) addTo(steps []Step, width int64) {
	s := &steps[max(0, k.atNS)/width]
	s.Requests++
	if k.outcome == record.OK {
		s.OK++
	} else {
		s.Failed[k.outcome.String()]++
	}
	if k.ttftNS != record.None {
		s.ttft = append(s.ttft, k.ttftNS)
	}
	if !k.sent {
		return
	}
	for from := max(0, k.atNS); from < k.endNS; {
		i := from / width
		to := min(k.endNS, (i+1)*width)
		steps[i].InFlight += float64(to-from) / float64(width)
		from = to
	}
}

// end turns what was gathered into percentiles.
func (s *Step) end() {
	s.TTFTP50, s.TTFTP99 = nearestMS(s.ttft, 500), nearestMS(s.ttft, 990)
	s.ttft = nil
}

// nearestMS is the percentile by nearest rank in ms, exact; nil of nothing. It sorts ns.
func nearestMS(ns []int64, permille int64) *float64 {
	if len(ns) == 0 {
		return nil
	}
	slices.Sort(ns)
	return new(float64(ns[stats.Rank(int64(len(ns)), permille)-1]) / 1e6)
}

// timing is what results by time keep of a request: 48 bytes, beside the hundreds of its record.
type timing struct {
	atNS, endNS                int64 // sent, or planned where it was not; the last instant known
	ttftNS                     int64 // of an OK one; record.None = none
	target, endpoint, instance int32 // below 0: none
	failure                    int32 // place of its message; below 0: none
	outcome                    record.Outcome
	sent, begun, gaveUp        bool // its first byte; its response's head had come; the server ended it with the reason "abort"
}

// timingsAtOnce is how many timings memory is taken for at a time.
const timingsAtOnce = 8192

// timings keeps one of each request. It belongs to the recorder.
type timings struct {
	pieces                         [][]timing
	endpoints, instances, failures names
}

// maxNames bounds how many names are distinguished.
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
		target: int32(target), endpoint: t.endpoints.place(r.Endpoint), instance: t.instances.place(r.Instance), failure: -1,
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
	sum := int64(0)
	c.timings.each(func(k *timing) {
		if k.sent {
			sum += k.endNS - k.atNS
		}
	})
	return new(seconds(sum) / durationS)
}
