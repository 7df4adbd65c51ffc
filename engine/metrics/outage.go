package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Outage is a time in which nearly all requests of a target, or of one of its addresses, failed. Instants are since
// the start.
type Outage struct {
	Target  string `json:"target"`            // URL
	Address string `json:"address,omitempty"` // the address that failed; absent if the target has one
	// 0: from its first request on; in a window the window's begin, if it failed from there on
	FromS    float64  `json:"from_s"`
	ToS      *float64 `json:"to_s"`     // when the first request that succeeded again was sent; null: none did
	Requests int64    `json:"requests"` // sent to it in that time
	Failed   int64    `json:"failed"`   // of requests
	Outcome  string   `json:"outcome"`  // the most frequent one
	Error    string   `json:"error"`    // the first message with that outcome

	// What became of requests in flight when the first one was refused. They distinguish a server that was shut down
	// from one that died, which cuts all of them; all are 0 if none was refused.

	// answers that ended well a while after the target had refused the first request
	FinishedAfter int64 `json:"finished_after"`
	// answers that the server ended with the finish reason abort or never, as vLLM 0.32 does on SIGTERM without
	// --shutdown-timeout
	GivenUp int64 `json:"given_up"`
	CutOff  int64 `json:"cut_off"` // answers that had begun and were cut off
	// answers that the server ended with an error of its own; these four distinguish a server that was shut down from
	// one that died
	ErrorEnded int64 `json:"ended_by_error"`

	// of requests to all others that were sent before; null but of the first 16 outages
	OthersBeforeMS *float64 `json:"others_ttft_p99_before_ms"`
	// of requests to all others that were sent meanwhile; likewise
	OthersDuringMS *float64 `json:"others_ttft_p99_during_ms"`
}

// An outage is a stretch of a target's requests, in order of sending. It is the one in which failures outweigh
// successes by the most. Each success takes okWeight failures back, so more than four of five failed. It needs
// leastOutage failures more than that, and at least half of all failures of the target.
const (
	okWeight    = 4
	leastOutage = 5
	mostOutages = 4     // notes; the summary has them all
	mostOthers  = 16    // outages for which all other requests are looked at
	lateReadNS  = 100e6 // by how much we may read late what a server had sent before it died
)

// failingPlace is what may fail on its own.
type failingPlace struct{ target, endpoint int32 }

// outages lists at most one for each address of each target, in order of beginning.
func (c *Collector) outages() []Outage {
	if c.timings.spilled > 0 {
		return nil
	}
	of := map[failingPlace][]*timing{}
	endpoints := map[int32]int{}
	c.timings.each(func(k *timing) {
		if stopped(k.outcome) || k.target < 0 || int(k.target) >= len(c.urls) {
			return
		}
		at := failingPlace{k.target, k.endpoint}
		if of[at] == nil {
			endpoints[k.target]++
		}
		of[at] = append(of[at], k)
	})
	type placed struct {
		Outage
		at failingPlace
	}
	var found []placed
	for at, list := range of {
		slices.SortStableFunc(list, func(a, b *timing) int {
			return cmp.Compare(a.atNS, b.atNS)
		})
		from, to, ok := worstStretch(list)
		if !ok {
			continue
		}
		o := c.outage(list, from, to)
		o.Target = c.urls[at.target]
		if endpoints[at.target] > 1 {
			o.Address = c.timings.endpoints.of(at.endpoint)
		}
		countEndings(&o, list, list[from:to])
		found = append(found, placed{o, at})
	}
	slices.SortFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.FromS, b.FromS), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Address, b.Address))
	})
	var out []Outage
	for i, o := range found {
		if i < mostOthers {
			c.others(&o.Outage, o.at)
		}
		out = append(out, o.Outage)
	}
	return out
}

// worstStretch is list[from:to], and whether that is an outage.
func worstStretch(list []*timing) (from, to int, ok bool) {
	sum, begin, best, failed, all, before := 0, 0, 0, 0, 0, 0 // before: failures before begin
	for i, k := range list {
		if k.outcome == record.OK {
			sum -= okWeight
		} else {
			sum++
			all++
		}
		if sum <= 0 {
			sum = 0
			begin = i + 1
			before = all
		}
		if sum > best {
			best = sum
			from = begin
			to = i + 1
			failed = all - before
		}
	}
	return from, to, best >= leastOutage && 2*failed >= all
}

// outage describes list[from:to].
func (c *Collector) outage(list []*timing, from, to int) Outage {
	o := Outage{}
	begin := int64(-1)
	outcomes := map[record.Outcome]int64{}
	for _, k := range list[from:to] {
		o.Requests++
		if k.outcome == record.OK {
			continue
		}
		o.Failed++
		outcomes[k.outcome]++
		if begin < 0 || k.endNS < begin {
			begin = k.endNS // one sent before may have been cut off later
		}
	}
	if from > 0 {
		o.FromS = seconds(begin)
	} else if c.window != nil {
		o.FromS = c.window.FromS
	}
	if to < len(list) {
		o.ToS = new(seconds(list[to].atNS))
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(outcomes)), func(a, b record.Outcome) int {
		return cmp.Compare(outcomes[a], outcomes[b])
	})
	o.Outcome = most.String()
	for _, k := range list[from:to] {
		if k.outcome == most && k.failure >= 0 {
			o.Error = c.timings.failures.of(k.failure)
			break
		}
	}
	return o
}

// countEndings counts what became of the requests that were in flight at the first refusal of the outage; list is of
// the whole run. An answer without tokens may be a refusal, too: vLLM 0.32 sends such ones while it drains, and takes
// connections until its end.
func countEndings(o *Outage, list, outage []*timing) {
	first := slices.IndexFunc(outage, func(k *timing) bool { return k.outcome == record.ConnectError })
	if first < 0 {
		return
	}
	refusedNS := outage[first].atNS
	for i := first - 1; i >= 0 && outage[i].outcome != record.OK; i-- {
		if o := outage[i].outcome; o == record.BadResponse || o == record.StreamError || o == record.HTTPError {
			refusedNS = min(refusedNS, outage[i].endNS)
		}
	}
	for _, k := range list {
		inFlight := k.begun && k.atNS <= refusedNS
		switch {
		// of a process that died the kernel ends the connections
		case k.gaveUp || inFlight && k.outcome == record.Timeout:
			o.GivenUp++
		case inFlight && k.outcome == record.OK && k.endNS > refusedNS+lateReadNS:
			o.FinishedAfter++
		case inFlight && k.outcome == record.StreamError:
			o.ErrorEnded++
		case inFlight && (k.outcome == record.Truncated || k.outcome == record.Reset):
			o.CutOff++
		}
	}
}

// describeEnding prints whether the server was shut down or died; "" if that is unknown. If a server still sends
// errors, it prints neither. vLLM 0.32 sends the same ones when its engine has crashed and, now and then, on SIGTERM.
func (o *Outage) describeEnding() string {
	switch {
	case o.ErrorEnded > 0 && o.ErrorEnded >= o.GivenUp+o.FinishedAfter:
		return fmt.Sprintf(
			"; its engine failed or it was shut down: it ended %d of its answers with an error of its own, and %d "+
				"were cut off",
			o.ErrorEnded, o.CutOff,
		)
	case o.GivenUp+o.FinishedAfter > o.CutOff:
		return fmt.Sprintf(
			"; it was shut down, not killed: after it refused the first request %d of its answers ended well, it "+
				"gave %d up, and %d were cut off",
			o.FinishedAfter, o.GivenUp, o.CutOff,
		)
	case o.CutOff > 0:
		return fmt.Sprintf("; it died or was killed: %d of its answers were cut off", o.CutOff)
	}
	return ""
}

// others compares the TTFT of all other places before and during an outage at one place.
func (c *Collector) others(o *Outage, at failingPlace) {
	var before, during Distribution
	c.timings.each(func(k *timing) {
		ttft := k.latency(TTFT)
		if ttft == record.None || (failingPlace{k.target, k.endpoint}) == at {
			return
		}
		switch sent := seconds(k.atNS); {
		case sent < o.FromS:
			before.Add(ttft)
		case o.ToS == nil || sent < *o.ToS:
			during.Add(ttft)
		}
	})
	o.OthersBeforeMS = before.at(990, 1e6)
	o.OthersDuringMS = during.at(990, 1e6)
}

// Failed says how many requests failed; "" if none did.
func (s *Summary) Failed() string {
	if s.Requests.Failed == 0 {
		return ""
	}
	return format.Count(s.Requests.Failed) + " of " + format.Count(s.Requests.Planned-s.Requests.Stopped) + " failed"
}

// FailedWhere says what failed, where and since when, or how most requests failed if there was no outage; "" if none
// did.
func (s *Summary) FailedWhere() string {
	var out []string
	for i := range s.Outages {
		out = append(out, s.Outages[i].Words())
	}
	if f := s.Requests.Failures; out == nil && len(f) > 0 {
		return fmt.Sprintf("most by %s (%s of %s)",
			f[0].Words(), format.Count(f[0].Count), format.Count(s.Requests.Failed))
	}
	return strings.Join(out, "; ")
}

// outageNotes has a note for each target that failed for a time, with what that did to the others.
func outageNotes(s *Summary) []string {
	var out []string
	for i, o := range s.Outages {
		if i == mostOutages {
			return append(out,
				fmt.Sprintf("%s more failed for a time: outages in summary.json", format.Count(len(s.Outages)-i)))
		}
		out = append(out, o.Words())
	}
	return out
}

// Words says where and when what failed, and how the server ended, as far as that is known.
func (o *Outage) Words() string {
	who := o.Target
	if o.Address != "" {
		who += " at " + o.Address
	}
	when := "from the start"
	if o.FromS > 0 {
		when = "from " + format.Seconds(o.FromS)
	}
	if o.ToS == nil {
		when += " on"
	} else {
		when += " to " + format.Seconds(*o.ToS)
	}
	text := fmt.Sprintf("%s failed %s (%s of %s, most by %s",
		who, when, format.Count(o.Failed), format.Requests(o.Requests), o.Outcome)
	if o.Error != "" {
		text += ", " + format.Quote(o.Error)
	}
	return text + ")" + o.describeEnding() + o.describeOthers()
}

func (o *Outage) describeOthers() string {
	ms := func(v *float64) string { return format.Duration(*v*1e6, 3) }
	switch before, during := o.OthersBeforeMS, o.OthersDuringMS; {
	case during == nil:
		return ""
	case before == nil:
		return fmt.Sprintf("; the others' TTFT p99 was %s meanwhile", ms(during))
	default:
		return fmt.Sprintf("; the others' TTFT p99 was %s before and %s meanwhile", ms(before), ms(during))
	}
}

// Words says what a failure was, without how many there were.
func (f *Failure) Words() string {
	text := f.Outcome
	if f.Outcome == record.HTTPError.String() {
		text = fmt.Sprintf("HTTP %d", f.Status)
	}
	if f.Example != "" {
		text += " " + format.Quote(f.Example)
	}
	return text
}

// The phases in which a request can fail.
const (
	PhaseConnect = "connect" // not a byte of it was sent
	PhaseHeaders = "headers" // sent, until the head of an answer that was refused, or that never came
	PhaseStream  = "stream"  // after the head of an answer with status 200
)

// kindOf is what a request that is not ok has in common with those that are counted with it.
func kindOf(r *record.Record) Failure {
	k := Failure{
		Outcome: r.Outcome.String(),
		Phase:   PhaseStream,
		Status:  int(max(0, r.Status)),
	}
	switch {
	case r.SentNS == record.None:
		k.Phase = PhaseConnect
	case r.HeadersNS == record.None || r.Outcome == record.HTTPError:
		k.Phase = PhaseHeaders
	}
	return k
}

// failureKinds counts failures by kind. A server can send 500 statuses at most, so it is bounded.
type failureKinds map[Failure]*Failure

// add counts a request that is not ok.
func (f failureKinds) add(r *record.Record) { f.count(kindOf(r), 1, r.Error) }

func (f failureKinds) count(k Failure, n int64, text string) {
	of := f[k]
	if of == nil {
		of = new(k)
		f[k] = of
	}
	of.Count += n
	of.Example = cmp.Or(of.Example, text)
}

// list has them, the most frequent first. If the run was over before its requests, those that it ended did not fail.
func (f failureKinds) list(over bool) []Failure {
	out := []Failure{}
	for _, of := range f {
		if !over ||
			of.Outcome != record.Cancelled.String() &&
				of.Outcome != record.NotSent.String() {
			out = append(out, *of)
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Status, b.Status))
	})
	return out
}

// merge adds all that is in o.
func (f failureKinds) merge(o failureKinds) {
	for kind, of := range o {
		f.count(kind, of.Count, of.Example)
	}
}
