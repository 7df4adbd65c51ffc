package collect

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

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
func (c *Collector) outages(run *sequence) []metrics.Outage {
	of := map[failingPlace][]*timing{}
	endpoints := map[int32]int{}
	for _, k := range run.all {
		if stopped(k.outcome) || k.target < 0 || int(k.target) >= len(c.urls) {
			continue
		}
		at := failingPlace{k.target, k.endpoint}
		if of[at] == nil {
			endpoints[k.target]++
		}
		of[at] = append(of[at], k)
	}
	type placed struct {
		metrics.Outage
		at failingPlace
	}
	var found []placed
	for at, list := range of {
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
	var out []metrics.Outage
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
func (c *Collector) outage(list []*timing, from, to int) metrics.Outage {
	o := metrics.Outage{}
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
	most := slices.MaxFunc(slices.Sorted(maps.Keys(outcomes)), func(a, b record.Outcome) int {
		return cmp.Compare(outcomes[a], outcomes[b])
	})
	if most == record.Timeout { // it was silent since its last answer, and not only when the first limit was over
		over := begin
		begin = list[from].atNS
		for _, k := range list[:to] {
			if k.outcome == record.OK && k.endNS < over {
				begin = max(begin, k.endNS)
			}
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
	o.Outcome = most.String()
	o.Alike = outcomes[most]
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
func countEndings(o *metrics.Outage, list, outage []*timing) {
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

// others compares the TTFT of all other places before and during an outage at one place.
func (c *Collector) others(o *metrics.Outage, at failingPlace) {
	var before, during stats.Distribution
	c.timings.each(func(k *timing) {
		ttft := k.latency(metrics.TTFT)
		if k.outcome != record.OK || ttft == record.None || (failingPlace{k.target, k.endpoint}) == at {
			return
		}
		switch sent := seconds(k.atNS); {
		case sent < o.FromS:
			before.Add(ttft)
		case o.ToS == nil || sent < *o.ToS:
			during.Add(ttft)
		}
	})
	o.OthersBeforeMS = before.At(990, 1e6)
	o.OthersDuringMS = during.At(990, 1e6)
}

// outageNotes has a note for each target that failed for a time, with what that did to the others.
func outageNotes(s *metrics.Summary) (out metrics.Notes) {
	for i, o := range s.Outages {
		if i == mostOutages {
			out.Add(true, "more_outages", "%s more failed for a time: outages in summary.json",
				format.Count(len(s.Outages)-i))
			break
		}
		out.Add(true, "outage", "%s", o.Words())
	}
	return out
}
