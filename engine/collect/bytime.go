package collect

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// mostSteps is into how many steps of time a run is cut at most. mostRows is how many rows all targets have together:
// with more than 1,000 targets the steps are longer.
const mostSteps, mostRows = 120, 120_000

// mostInstances bounds the instances that have rows by time.
const mostInstances = 64

// stepNS is the length of the steps of a run that ends at endNS, for at most so many steps. It is a number that
// people read easily, and whole hours for a long run.
func stepNS(endNS, steps int64) int64 {
	for _, s := range []float64{1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60,
		120, 300, 600, 900, 1800, 3600} {
		if width := int64(s * 1e9); endNS < width*steps {
			return width
		}
	}
	const hour = int64(3600e9)
	return (endNS/(hour*steps) + 1) * hour
}

// Timeline is a run, cut into steps of equal length. It is made of the records alone, so it is the same whenever they
// are read. What it shows is valid until it shows the next.
type Timeline struct {
	c       *Collector
	widthNS int64
	steps   []metrics.Step
	stats   []metrics.LatencyStats // of each step
	whole   bool                   // steps are those of all requests
}

// Timeline returns the run by time, in at most 120 steps.
func (c *Collector) Timeline() *Timeline {
	end := int64(0) // the last instant of all
	c.timings.each(func(k *timing) { end = max(end, k.endNS) })
	width := stepNS(end, max(mostSteps/10, min(mostSteps, mostRows/int64(max(1, len(c.urls))))))
	n := end/width + 1
	return &Timeline{
		c:       c,
		widthNS: width,
		steps:   make([]metrics.Step, n),
		stats:   make([]metrics.LatencyStats, n),
	}
}

// All returns the steps of all requests together.
func (t *Timeline) All() []metrics.Step {
	return t.stepsOf(metrics.Step{}, t.c.timings.len(), t.c.timings.each)
}

// Targets shows the steps of each target, and at last those of requests that never had one, if there are any.
func (t *Timeline) Targets() iter.Seq[[]metrics.Step] {
	none := len(t.c.urls)
	labels := make([]metrics.Step, none+1)
	for i, url := range t.c.urls {
		labels[i].Target = url
	}
	return t.by(labels, func(k *timing) int {
		if k.target < 0 || int(k.target) > none {
			return none
		}
		return int(k.target)
	})
}

// HasInstances reports whether any answer names its instance.
func (t *Timeline) HasInstances() bool { return len(t.c.timings.instances.list) > 0 }

// Instances shows the steps of the instances that answers name, in order of their names; of more than 64 the first.
func (t *Timeline) Instances() iter.Seq[[]metrics.Step] {
	known := &t.c.timings.instances
	names := slices.SortedFunc(slices.Values(known.list), natural)
	labels := make([]metrics.Step, min(len(names), mostInstances))
	of := map[int32]int{} // places in labels, by an instance's number
	for i := range labels {
		labels[i].Instance = names[i]
		of[known.places[names[i]]] = i
	}
	return t.by(labels, func(k *timing) int {
		if i, shown := of[k.instance]; shown {
			return i
		}
		return -1
	})
}

// by shows the steps of the requests of each label: of is a request's place in labels, below 0 if it has none. One
// without a name is shown if it has requests.
func (t *Timeline) by(labels []metrics.Step, of func(*timing) int) iter.Seq[[]metrics.Step] {
	all := &t.c.timings
	requests := make([][]*timing, len(labels))
	known := make([]bool, len(labels))
	all.each(func(k *timing) {
		if i := of(k); i >= 0 {
			if known[i] = true; all.spilled == 0 {
				requests[i] = append(requests[i], k)
			}
		}
	})
	return func(yield func([]metrics.Step) bool) {
		for i, label := range labels {
			each := func(f func(*timing)) {
				for _, k := range requests[i] {
					f(k)
				}
				if all.spilled > 0 { // one pass for each label, in place of a list
					all.each(func(k *timing) {
						if of(k) == i {
							f(k)
						}
					})
				}
			}
			if (label.Target+label.Instance != "" || known[i]) &&
				!yield(t.stepsOf(label, len(requests[i]), each)) {
				return
			}
		}
	}
}

// stepsOf counts n requests in steps that are labelled alike. Steps of all requests are counted once: as a rule they
// are those of the only target, too.
func (t *Timeline) stepsOf(label metrics.Step, n int, each func(func(*timing))) []metrics.Step {
	again := t.whole
	t.whole = n == t.c.timings.len()
	if again && t.whole {
		for i := range t.steps {
			t.steps[i].Target = label.Target
			t.steps[i].Instance = label.Instance
		}
		return t.steps
	}
	for i := range t.steps {
		label.FromS = seconds(int64(i) * t.widthNS)
		label.ToS = seconds(int64(i+1) * t.widthNS)
		t.steps[i] = label
		for k := range t.stats[i] {
			t.stats[i][k] = t.stats[i][k].Emptied()
		}
	}
	each(t.add)
	for i := range t.steps {
		t.stats[i].Fill(&t.steps[i].StepLatencies)
	}
	return t.steps
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// add counts a request.
func (t *Timeline) add(k *timing) {
	if i := k.plannedNS / t.widthNS; k.plannedNS >= 0 && i < int64(len(t.steps)) {
		t.steps[i].Planned++
	}
	at := max(0, k.atNS) / t.widthNS
	s := &t.steps[at]
	stats := &t.stats[at]
	s.Requests++
	// the share of each step for which the request was in flight
	for from := max(0, k.atNS); k.sent && from < k.endNS; {
		i := from / t.widthNS
		to := min(k.endNS, (i+1)*t.widthNS)
		t.steps[i].InFlight += float64(to-from) / float64(t.widthNS)
		from = to
	}
	if k.sent {
		addKnown(&stats[metrics.Drift], k.driftNS())
	}
	if k.outcome != record.OK {
		s.Failed++
		return
	}
	s.OK++
	for i, l := range timedLatencies {
		addKnown(&stats[l], k.latencies[i])
	}
	s.PromptTokens += int64(k.prompt)
	if k.cached >= 0 {
		if s.CachedTokens == nil {
			s.CachedTokens = new(int64)
		}
		*s.CachedTokens += int64(k.cached)
	}
	// tokens count in the steps in which they came: the first with the first chunk, the last with the last
	first, _ := k.chunksNS()
	for i, came := max(0, first)/t.widthNS, int64(0); came < int64(k.output); i++ {
		until := k.cameBefore((i + 1) * t.widthNS)
		t.steps[i].OutputTokens += until - came
		came = until
	}
}

// chunksNS is when the first and the last token chunk came, or the end of an answer without any.
func (k *timing) chunksNS() (first, last int64) {
	ttft := k.latency(metrics.TTFT)
	e2e := k.latency(metrics.E2E)
	if ttft == record.None || e2e < ttft {
		return k.endNS, k.endNS
	}
	return k.atNS + ttft, k.atNS + e2e
}

// cameBefore is how many of the answer's tokens came before ns, if they came evenly.
func (k *timing) cameBefore(ns int64) int64 {
	first, last := k.chunksNS()
	if ns <= first || k.output == 0 {
		return 0
	} else if ns > last {
		return int64(k.output)
	}
	high, low := bits.Mul64(uint64(k.output-1), uint64(ns-1-first)) // beyond an int64 in long answers
	share, _ := bits.Div64(high, low, uint64(last-first))
	return 1 + int64(share)
}

// numTimed is how many latencies of ok requests steps have: two percentiles of each, beside one of drift.
const numTimed = unsafe.Sizeof(metrics.StepLatencies{}) / unsafe.Sizeof([2]*float64{})

// timedLatencies are those latencies, of which a timing keeps its own.
var timedLatencies = slices.DeleteFunc(metrics.LatenciesIn[metrics.StepLatencies](), func(l int) bool {
	return latencies[l].OfSent
})

// timing is what results by time keep of a request: 96 bytes, beside the hundreds of its record.
type timing struct {
	atNS, plannedNS, endNS     int64           // sent, or planned where it was not; planned; the last instant known
	session                    int64           // as in a record
	latencies                  [numTimed]int64 // of an OK one, and TTFT of one cut off; record.None = none
	target, endpoint, instance int32           // below 0: none
	failure                    int32           // place of its message; below 0: none
	prompt, output, cached     int32           // tokens of an OK one; cached below 0: not reported
	outcome                    record.Outcome
	// its first byte; its response's head had come; the server ended it with the reason "abort"
	sent, begun, gaveUp bool
}

// driftNS is as that of a record.
func (k *timing) driftNS() int64 {
	if k.plannedNS == record.None {
		return record.None
	}
	return k.atNS - k.plannedNS
}

// latency is one of those of timedLatencies.
func (k *timing) latency(of int) int64 { return k.latencies[slices.Index(timedLatencies, of)] }

// timingsAtOnce is how many timings memory is taken for at a time.
const timingsAtOnce = 8192

// mostPieces is how many pieces of timings a Collector keeps in memory if it may spill: 4,194,304 requests, 403 MB.
const mostPieces = 512

// timings keeps one of each request. It belongs to the recorder.
type timings struct {
	pieces                         [][]timing
	file                           *os.File // takes whole pieces; nil = all are in memory
	spilled                        int      // pieces in file, before those in memory
	err                            error    // of writing or reading it
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
		if t.file != nil && len(t.pieces) == mostPieces {
			for i, piece := range t.pieces { // which are full
				_, err := t.file.WriteAt(bytesOf(piece), int64(t.spilled+i)*int64(len(bytesOf(piece))))
				t.err = cmp.Or(t.err, err)
			}
			t.spilled += len(t.pieces)
			t.pieces = t.pieces[:0]
		}
		t.pieces = append(t.pieces, make([]timing, 0, timingsAtOnce))
		last = len(t.pieces) - 1
	}
	k := timing{
		atNS:      at,
		plannedNS: r.PlannedNS,
		endNS:     max(at, r.EndNS()),
		session:   r.Session,
		target:    int32(target),
		endpoint:  t.endpoints.place(r.Endpoint),
		instance:  t.instances.place(r.Instance),
		failure:   -1,
		outcome:   r.Outcome,
		sent:      r.SentNS != record.None,
		begun:     r.HeadersNS != record.None,
		gaveUp:    r.FinishReason == "abort",
	}
	for i, l := range timedLatencies {
		if k.latencies[i] = record.None; r.Outcome == record.OK || stopped(r.Outcome) && l == metrics.TTFT {
			k.latencies[i] = latencies[l].Of(r)
		}
	}
	if r.Outcome == record.OK {
		k.prompt = tokens32(known(metrics.PromptTokens(r)))
		k.output = tokens32(known(r.CompletionTokens))
		k.cached = tokens32(max(-1, r.CachedTokens))
	} else {
		k.failure = t.failures.place(r.Error)
	}
	t.pieces[last] = append(t.pieces[last], k)
}

// tokens32 is a number of tokens in 4 bytes; no prompt has more than 2 billion.
func tokens32(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// bytesOf is the memory of timings, which have no pointers.
func bytesOf(piece []timing) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(piece))), len(piece)*int(unsafe.Sizeof(timing{})))
}

// Spill lets c keep what it needs by time in an unnamed file in dir, beyond the first 4,194,304 requests. Then it
// looks for no outages. Call it before Add, and EndSpill in the end.
func (c *Collector) Spill(dir string) (err error) {
	if c.timings.file, err = os.CreateTemp(dir, ".by-time-*"); err != nil {
		return err
	}
	return os.Remove(c.timings.file.Name())
}

// EndSpill closes the file of Spill, and returns what failed with it. Nothing by time may be asked for after it.
func (c *Collector) EndSpill() error { return cmp.Or(c.timings.err, c.timings.file.Close()) }

// len is how many requests are kept.
func (t *timings) len() int {
	if len(t.pieces) == 0 {
		return 0
	}
	return (t.spilled+len(t.pieces)-1)*timingsAtOnce + len(t.pieces[len(t.pieces)-1])
}

// each calls f for every request, in order of completion. What it gets is valid until f returns, if pieces were
// spilled.
func (t *timings) each(f func(*timing)) {
	if t.spilled > 0 {
		piece := make([]timing, timingsAtOnce)
		for k := range t.spilled {
			_, err := t.file.ReadAt(bytesOf(piece), int64(k)*int64(len(bytesOf(piece))))
			t.err = cmp.Or(t.err, err)
			for i := range piece {
				f(&piece[i])
			}
		}
	}
	for _, piece := range t.pieces {
		for i := range piece {
			f(&piece[i])
		}
	}
}
