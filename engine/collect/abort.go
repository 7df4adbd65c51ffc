package collect

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// A run is lost if most of its requests could still be below a limit and its percentile would be above all the same.
// That is certain whatever follows, so no test of chance is needed for it, however often one looks. A second condition
// keeps apart a server at its limit, whose runs are lost by chance: a bet on the sections of the run (J. Ville, 1939;
// I. Waudby-Smith and A. Ramdas, JRSS B 2024).

// abortSections is into how many sections a run is divided: of equally many requests or, if time ends it, of equally
// much time. Requests may depend on each other for as long as one of them.
const abortSections = 20

// mostChance is how likely a run of a server at its limit is ended at most, if no section depends on those before it.
// It is a fifth of what is promised: conversations may be as long as the run.
const mostChance = 0.01

// mostSpeedup is how much more than in the best section so far servers may still do in each that is to come.
const mostSpeedup = 2

// stakes are the shares of its money that a bet risks. Each has a fourth of the money.
var stakes = [...]float64{0.1, 0.2, 0.4, 0.8}

// Loss counts what tells that a run is lost. It belongs to one goroutine.
type Loss struct {
	Text    string // as given, such as ttft.p95>5s
	latency int    // -1: failures are counted
	limitNS int64
	allowed float64 // share of the requests that may be above the limit
	planned int64
	endNS   int64 // when the run ends, whatever is left of the plan; 0 = with the plan
	ended   [abortSections]int64
	above   [abortSections]int64 // of those
}

// ParseLoss reads what ends a run early, such as ttft.p95>5s or error_rate>20%. The run has so many requests at most.
// endNS is when the run ends if servers are too slow for all of them; 0 = all are sent, however slow servers are.
func ParseLoss(text string, planned, endNS int64) (*Loss, error) {
	name, op, limit, err := verdict.ParseRequirement(text)
	if err != nil {
		return nil, err
	}
	if field, _, _ := rows.CutOwner(text); field != "" {
		return nil, fmt.Errorf("%q: want a limit for all requests together", text)
	}
	l := &Loss{Text: text, latency: -1, allowed: limit, planned: planned, endNS: endNS}
	if name == verdict.ErrorRate && op[0] == '>' && limit > 0 && limit < 1 {
		return l, nil
	}
	key, perMille := metrics.PercentileOf(name)
	l.latency = metrics.FindLatency(key)
	l.limitNS = int64(limit * 1e6)
	l.allowed = 1 - float64(perMille)/1000
	if perMille == 0 || op[0] != '>' || latencies[l.latency].Of == nil {
		return nil, fmt.Errorf("%q: want a percentile of a latency above a limit, such as ttft.p95>5s, or "+
			"error_rate>20%%", text)
	}
	return l, nil
}

// Add counts a record. Failures have no latency, as in the results.
func (l *Loss) Add(r *record.Record) {
	switch {
	case r.LeftOut() || l.latency >= 0 && r.Outcome != record.OK && !latencies[l.latency].OfSent:
		return
	case l.latency < 0:
		l.count(r.DoneNS, r.Outcome != record.OK)
	default:
		if ns := latencies[l.latency].Of(r); ns != record.None {
			l.count(r.DoneNS, ns > l.limitNS)
		}
	}
}

func (l *Loss) count(doneNS int64, above bool) {
	now := l.section(doneNS)
	l.ended[now]++
	if above {
		l.above[now]++
	}
}

// section is the one in which a request ends that is the next to end.
func (l *Loss) section(nowNS int64) int64 {
	at := sum(l.ended) * abortSections / max(1, l.planned)
	if l.endNS > 0 {
		at = max(0, nowNS) * abortSections / l.endNS
	}
	return min(abortSections-1, at)
}

func sum(sections [abortSections]int64) (all int64) {
	for _, n := range sections {
		all += n
	}
	return all
}

// most is how many requests the run will have at most.
func (l *Loss) most(nowNS int64) int64 {
	now := l.section(nowNS)
	if l.endNS == 0 || now == 0 {
		return l.planned
	}
	left := float64(l.endNS-nowNS) / float64(l.endNS) * abortSections
	best := slices.Max(l.ended[:now])
	return min(l.planned, sum(l.ended)+int64(math.Ceil(mostSpeedup*left*float64(best))))
}

// Exceeds reports whether a request in flight is above the limit already. Instants are in ns; record.None = not yet.
func (l *Loss) Exceeds(nowNS, plannedNS, sentNS, firstNS int64) bool {
	from := sentNS
	switch l.latency {
	case metrics.TTFTPlanned, metrics.E2EPlanned:
		from = plannedNS
	case metrics.TTFT, metrics.E2E:
	default:
		return false
	}
	if firstNS != record.None && l.latency <= metrics.TTFTPlanned {
		nowNS = firstNS
	}
	return from != record.None && nowNS-from > l.limitNS
}

// Lost reports whether the run is lost, if so many requests in flight are above the limit already.
func (l *Loss) Lost(nowNS, inFlight int64) bool {
	return l.certain(nowNS, inFlight) && l.wealth(nowNS, inFlight) >= 1/mostChance
}

// certain reports whether the percentile of the whole run is above the limit even if all that is to come is below. It
// must be so by two standard deviations of independent requests at the limit.
func (l *Loss) certain(nowNS, inFlight int64) bool {
	n := float64(l.most(nowNS))
	above := float64(sum(l.above) + inFlight)
	return above > l.allowed*n+2*math.Sqrt(n*l.allowed*(1-l.allowed))
}

// wealth is the most that a bet against the server has had after any section. It begins with 1, and stakes on each
// section that more than the allowed share is above the limit. If the mean share of each section is at most the allowed
// one, whatever came before it, the bet is fair. Then 1 run in 100 ever has 100. Requests in flight are put into the
// sections in which they will end at the soonest. Of sections of time, it is not known how many these will have, so
// only those that are over count.
func (l *Loss) wealth(nowNS, inFlight int64) (most float64) {
	size := float64(l.planned) / abortSections
	money := stakes
	for i := range money {
		money[i] = 1 / float64(len(stakes))
	}
	now := int(l.section(nowNS))
	for i, n := range l.above {
		above := float64(n)
		switch {
		case l.endNS > 0 && i >= now:
			return most
		case l.endNS > 0:
			size = float64(max(1, l.ended[i]))
		case i >= now:
			more := min(float64(inFlight), max(0, size-above))
			above += more
			inFlight -= int64(more)
		}
		all := 0.0
		for k, stake := range stakes {
			money[k] *= 1 + stake*(min(1, above/size)/l.allowed-1)
			all += money[k]
		}
		most = max(most, all)
	}
	return most
}

// CanLose reports whether the run could ever be lost: whether it would be if all of its requests were above the limit.
func (l *Loss) CanLose() bool {
	const enough = 1000 // as well as any more
	all := &Loss{allowed: l.allowed, planned: min(l.planned, enough)}
	for range all.planned {
		all.count(0, true)
	}
	return all.Lost(0, 0)
}

// Judged reports whether any request had the number that has a limit.
func (l *Loss) Judged() bool { return sum(l.ended) > 0 }

// Words says why the run was ended.
func (l *Loss) Words(atNS, inFlight int64) string {
	above := sum(l.above) + inFlight
	what := "above " + format.Duration(l.limitNS, 3)
	if l.latency < 0 {
		what = "failed"
	}
	most := l.most(atNS)
	all := format.Many(most, "planned request")
	even := "the server recovers"
	if most < l.planned {
		all = "at most " + format.Requests(most)
		even = "servers do twice as much as at their best so far"
	}
	words := fmt.Sprintf("ended early at %s: %s of %s were %s",
		format.Duration(atNS, 3), format.Count(above), all, what)
	if inFlight > 0 {
		words += ", " + format.Count(inFlight) + " of them still in flight"
	}
	return words + ", so " + l.Text + " of this run is certain, even if " + even
}
