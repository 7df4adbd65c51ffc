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

// Step is what became of the requests of one target, or of one instance, that were sent within a step of time: a line of
// timeline.jsonl. One that was not sent counts at its planned instant.
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

// stepWidths are lengths of a step that people read easily, s. A longer run has steps of whole multiples of the last.
func stepWidths() []int64 {
	return []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600}
}

// stepNS is the length of the steps of a run that ends at endNS.
func stepNS(endNS int64) int64 {
	const second = 1e9
	widths := stepWidths()
	for _, w := range widths {
		if endNS < w*second*mostSteps {
			return w * second
		}
	}
	hour := widths[len(widths)-1] * second
	return (endNS/(hour*mostSteps) + 1) * hour
}

// ByTime returns the requests by time: all steps of the first target, those of the next, and then those of the instances
// that answers name, in order of their names. It is made of the records alone, so it is the same whenever they are read.
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
	ms := float64(ns[stats.Rank(int64(len(ns)), permille)-1]) / 1e6
	return &ms
}
