package collect

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// A run is lost if most of its requests could still be below a limit and its percentile would be above all the same.
// That is certain whatever follows, so no test of chance is needed for it, however often one looks. A second condition
// keeps apart a server at its limit, whose runs are lost by chance: a bet on the sections of the run (J. Ville, 1939;
// I. Waudby-Smith and A. Ramdas, JRSS B 2024).

// abortSections is into how many sections of equally many requests a run is divided. Requests may depend on each other
// for as long as one of them.
const abortSections = 20

// mostChance is how likely a run of a server at its limit is ended at most, if no section depends on those before it.
// It is a fifth of what is promised: conversations may be as long as the run.
const mostChance = 0.01

// stakes are the shares of its money that a bet risks. Each has a fourth of the money.
var stakes = [...]float64{0.1, 0.2, 0.4, 0.8}

// Loss counts what tells that a run is lost. It belongs to one goroutine.
type Loss struct {
	Text    string // as given, such as ttft.p95>5s
	latency int    // -1: failures are counted
	limitNS int64
	allowed float64 // share of the requests that may be above the limit
	planned int64
	ended   int64 // that count
	above   [abortSections]int64
}

// ParseLoss reads what ends a run early, such as ttft.p95>5s or error_rate>20%. The run has so many requests at most.
func ParseLoss(text string, planned int64) (*Loss, error) {
	name, op, limit, err := verdict.ParseRequirement(text)
	if err != nil {
		return nil, err
	}
	l := &Loss{Text: text, latency: -1, allowed: limit, planned: planned}
	if name == verdict.ErrorRate && op[0] == '>' && limit > 0 && limit < 1 {
		return l, nil
	}
	key, perMille := metrics.PercentileOf(name)
	l.latency, l.limitNS, l.allowed = metrics.FindLatency(key), int64(limit*1e6), 1-float64(perMille)/1000
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
		l.count(r.Outcome != record.OK)
	default:
		if ns := latencies[l.latency].Of(r); ns != record.None {
			l.count(ns > l.limitNS)
		}
	}
}

func (l *Loss) count(above bool) {
	if above {
		l.above[min(abortSections-1, l.ended*abortSections/max(1, l.planned))]++
	}
	l.ended++
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
func (l *Loss) Lost(inFlight int64) bool {
	return l.certain(inFlight) && l.wealth(inFlight) >= 1/mostChance
}

// aboveWith is how many requests are above the limit, with those in flight.
func (l *Loss) aboveWith(inFlight int64) int64 {
	for _, n := range l.above {
		inFlight += n
	}
	return inFlight
}

// certain reports whether the percentile of the whole run is above the limit even if all that is to come is below, and
// by two standard deviations of what independent requests at the limit would have.
func (l *Loss) certain(inFlight int64) bool {
	n := float64(l.planned)
	return float64(l.aboveWith(inFlight)) > l.allowed*n+2*math.Sqrt(n*l.allowed*(1-l.allowed))
}

// wealth is the most that a bet against the server has had after any section: how much it has made of 1 by staking on
// each section that more than the allowed share is above the limit. If the mean share of each section is at most the
// allowed one, whatever came before it, the bet is fair, and 1 run in 100 ever has 100. Requests in flight are put into
// the sections in which they will end at the soonest.
func (l *Loss) wealth(inFlight int64) (most float64) {
	size := float64(l.planned) / abortSections
	money := stakes
	for i := range money {
		money[i] = 1 / float64(len(stakes))
	}
	now := int(min(abortSections-1, l.ended*abortSections/max(1, l.planned)))
	for i, n := range l.above {
		above := float64(n)
		if i >= now {
			more := min(float64(inFlight), max(0, size-above))
			above += more
			inFlight -= int64(more)
		}
		sum := 0.0
		for k, stake := range stakes {
			money[k] *= 1 + stake*(min(1, above/size)/l.allowed-1)
			sum += money[k]
		}
		most = max(most, sum)
	}
	return most
}

// Words says why the run was ended.
func (l *Loss) Words(atNS, inFlight int64) string {
	above := l.aboveWith(inFlight)
	what := "above " + format.Duration(l.limitNS, 3)
	if l.latency < 0 {
		what = "failed"
	}
	words := fmt.Sprintf("ended early at %s: %s of %s were %s", format.Duration(atNS, 3), format.Count(above),
		format.Many(l.planned, "planned request"), what)
	if inFlight > 0 {
		words += ", " + format.Count(inFlight) + " of them still in flight"
	}
	return words + ", so " + l.Text + " of this run is certain, even if the server recovers"
}
