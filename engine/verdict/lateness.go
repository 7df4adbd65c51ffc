package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const (
	// wrongShare of the requests must leave at other times, before the load as a whole is another one.
	wrongShare = 0.1
	// wrongSlots is the share of a closed loop's time that its slots may be empty: with a quarter, 8 in flight were 6.
	wrongSlots = 0.25
)

// DisplacedNS is how late a request may leave before it counts as displaced, by the mean gap between requests and the
// median E2E.
func DisplacedNS(gapNS, e2eNS int64) int64 {
	return max(metrics.ToleratedNS, gapNS, int64(metrics.ToleratedShare*float64(e2eNS)))
}

// LoadFault is what lateness of the client makes of the load.
type LoadFault int

// The faults of a load.
const (
	NoFault          LoadFault = iota
	DriftAboveMax              // drift p99 is above --max-drift
	TooManyDisplaced           // so many requests left at other times that it was another load
)

// JudgeLoad judges a load by --max-drift, or else, if maxDriftNS is 0, by how many of the sent requests were
// displaced. The verdict of a run and its live screen both ask it.
func JudgeLoad(maxDriftNS, driftP99NS, displaced, sent int64) LoadFault {
	switch {
	case maxDriftNS > 0 && driftP99NS > maxDriftNS:
		return DriftAboveMax
	case maxDriftNS == 0 && displaced > 1 && float64(displaced) > wrongShare*float64(sent):
		return TooManyDisplaced
	}
	return NoFault
}

// CauseShare is the share of the time above which a cause is named: what took less does not reach the 99th
// percentile. For stolen time and for the waits of all threads it is a share of all cores' time. For the waits of the
// sending threads it is a share of theirs. For throttling it is a share of one core's time, since the limit may be
// one core. For what held requests back it is a share of the requests.
const CauseShare = 0.01

// mostOfDrift is the share of drift p99 that a cap explains alone: what the machine took besides is not worth a word.
const mostOfDrift = 0.9

// cause is what kept the client from its work.
type cause struct{ happened, amount, remedy string }

// sending judges how late requests left. In a closed loop nothing is planned: there lateness is throughput that was
// lost. The longest wait is left out of that, so that one request decides nothing.
func sending(s *metrics.Summary) *metrics.Reason {
	d := s.DriftUS
	l := &s.Lateness
	most := s.Limits.MaxDriftNS
	if d == nil {
		return nil
	}
	r := &metrics.Reason{Code: metrics.LateSending, Grade: metrics.Invalid}
	lost := 0.0
	slots := float64(s.Run.Concurrency)
	if l.SlotsLostShare != nil {
		lost = *l.SlotsLostShare - d.Max/1e6/(s.Run.DurationS*slots)
	}
	fault := JudgeLoad(int64(most), int64(math.Round(d.P99*1e3)), l.Displaced, s.Requests.Sent)
	switch {
	case fault == DriftAboveMax:
		r.What = fmt.Sprintf("drift p99 is %s, above --max-drift %g ms", format.Duration(d.P99*1e3, 4), most.MS())
	case most > 0:
		return nil
	case lost > wrongSlots:
		r.What = fmt.Sprintf("the load was another one: on average %.3g of %g requests were in flight",
			slots*(1-lost), slots)
	case lost > metrics.ToleratedShare:
		r.Grade = metrics.Limited
		r.What = "throughput may be " + format.Percent(lost) + " too low, since the slots were empty for so long"
	case fault == TooManyDisplaced:
		r.What = fmt.Sprintf("the load was another one: %s of the requests left more than %s late",
			format.Percent(float64(l.Displaced)/float64(s.Requests.Sent)), format.Milliseconds(l.DisplacedMS))
	case len(l.Sending) > 0:
		r.Grade = metrics.Limited
		r.What = effects(l.Sending)
	default:
		return nil
	}
	late := fmt.Sprintf("requests left late (p50 %s, p99 %s, max %s)",
		format.Microseconds(d.P50), format.Microseconds(d.P99),
		format.Microseconds(d.Max))
	if l.Behind > 0 {
		late += " and " + format.Requests(l.Behind) +
			" may have waited behind them, since the server slows down with more in flight"
	}
	return explain(r, late, sendingCauses(s), moreCores(s), "--max-drift", d.P99/1e3)
}

// reading judges how late answers were read.
func reading(s *metrics.Summary) *metrics.Reason {
	lag := s.Client.ReceiveLagUS
	most := s.Limits.MaxReceiveLagNS
	r := &metrics.Reason{Code: metrics.LateReading, Grade: metrics.Limited, What: effects(s.Lateness.Reading)}
	switch {
	case lag != nil && most > 0 && lag.P99*1e3 > float64(most):
		r.Grade = metrics.Invalid
		r.What = fmt.Sprintf("receive lag p99 is %s, above --max-receive-lag %g ms",
			format.Duration(lag.P99*1e3, 4), most.MS())
	case lag == nil || most > 0 || len(s.Lateness.Reading) == 0:
		return nil
	}
	var causes []cause
	if share := s.Client.AnswerWaitS / s.Run.DurationS; share > CauseShare {
		causes = append(causes,
			cause{"connections waited for memory for large answers", format.Seconds(s.Client.AnswerWaitS) +
				", " + percent(share) + " of the run's time",
				"free memory for the client, or have fewer large answers in flight: " + lessLoad(s)})
	}
	causes = append(causes, machineCauses(s, "the client's threads", "all cores'", s.Client.RunQueueS,
		s.Run.Host.CPUs)...)
	late := fmt.Sprintf(
		"answers were read late (p99 %s), so token chunks that came apart were found together, or the server "+
			"waited for room in a full buffer",
		format.Microseconds(lag.P99),
	)
	return explain(r, late, causes, "give the client more cores", "--max-receive-lag", lag.P99/1e3)
}

// explain sets why something happened and what to do about it: otherwise, if no cause was seen. What limits a run is
// accepted by a flag, with so many ms or, so that it does the next time too, some more.
func explain(r *metrics.Reason, what string, causes []cause, otherwise, flag string, ms float64) *metrics.Reason {
	var happened, remedies []string
	for _, c := range causes {
		happened = append(happened, c.happened+" ("+c.amount+")")
		if !slices.Contains(remedies, c.remedy) {
			remedies = append(remedies, c.remedy)
		}
	}
	r.Why = what + ": " + strings.Join(happened, "; ")
	r.Do = strings.Join(remedies, "; ")
	if len(causes) == 0 {
		r.Why = what + "; no cause was seen on this machine"
		r.Do = otherwise
	}
	if r.Grade == metrics.Limited {
		unit := math.Pow(10, math.Floor(math.Log10(max(ms, 0.1))))
		steps := []float64{1, 2, 5, 10, 20}
		r.Do += fmt.Sprintf("; or accept it with %s %gms",
			flag,
			unit*steps[slices.IndexFunc(steps, func(step float64) bool { return step*unit >= 1.2*ms })])
	}
	return r
}

// effects says which percentiles are not safe, and by how much. It leaves out those that are as their twin's.
func effects(all []metrics.Unsafe) string {
	asTwin := func(u metrics.Unsafe) bool {
		twin := u
		twin.Metric = metrics.Latencies()[max(0, metrics.FindLatency(u.Metric))].Twin
		return slices.Contains(all, twin)
	}
	all = slices.DeleteFunc(slices.Clone(all), asTwin)
	var parts []string
	for len(all) > 0 {
		metric := all[0].Metric
		worst := 0.0
		names := []string(nil)
		for ; len(all) > 0 && all[0].Metric == metric; all = all[1:] {
			names = append(names, strings.Replace(all[0].Percentile, "p999", "p99.9", 1))
			worst = max(worst, all[0].EffectMS)
		}
		by := " may be off by "
		if len(names) > 1 {
			by += "up to "
		}
		parts = append(parts, strings.ToUpper(metric)+" "+strings.Join(names, ", ")+by+format.Milliseconds(worst))
	}
	return strings.Join(parts, "; ")
}

// lessLoad is how this run is made to send less.
func lessLoad(s *metrics.Summary) string {
	switch a := s.Run.Arrival; {
	case s.Run.Concurrency > 0:
		return "lower --concurrency"
	case a != nil && a.RampS > 0:
		return "lower --ramp"
	case a != nil:
		return "lower --rate"
	case s.Run.Pace != "" && s.Run.Pace != metrics.TraceTime:
		return "send less at a time"
	}
	return "lower --scale"
}

// moreCores is what helps a client that lacks processors.
func moreCores(s *metrics.Summary) string {
	if s.Client.Realtime {
		return "give the client more or idle cores, or " + lessLoad(s)
	}
	return "give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or " + lessLoad(s)
}

// sendingCauses are what made requests late.
func sendingCauses(s *metrics.Summary) (causes []cause) {
	most := CauseShare * float64(s.Requests.Sent)
	if c := s.Cap; c != nil && c.HeldMS != nil && float64(c.Held) > most &&
		c.HeldMS.Max > cmp.Or(s.Limits.MaxDriftNS, metrics.ToleratedNS).MS() {
		causes = append(causes, cause{
			fmt.Sprintf("the cap of %s in flight held back %s", format.Count(c.InFlight), format.Requests(c.Held)),
			fmt.Sprintf("p50 %s, max %s", format.Milliseconds(c.HeldMS.P50), format.Milliseconds(c.HeldMS.Max)),
			"the server did not meet the load as planned: raise --concurrency, or " + lessLoad(s),
		})
		if c.HeldMS.P99*1e3 >= mostOfDrift*s.DriftUS.P99 {
			return causes
		}
	}
	if b := s.BuildAhead; b != nil && float64(b.Late) > most {
		causes = append(causes, cause{
			format.Requests(b.Late) + " not built in time",
			fmt.Sprintf("%s at a time, least lead %s",
				format.Bytes(b.WindowBytes), format.Milliseconds(stats.OrZero(b.LeastLeadMS))),
			"raise --max-memory, give the client more cores, or " + lessLoad(s),
		})
	}
	c := &s.Connections
	unopened := float64(c.NotReady) > most && 10*c.MaxWaitMS*1e3 > s.DriftUS.P99
	if unopened {
		causes = append(causes, cause{
			format.Requests(c.NotReady) + " found no open connection",
			"longest wait " + format.Milliseconds(c.MaxWaitMS),
			"check whether the server accepts slowly, or the descriptor limit is low (ulimit -n)",
		})
	}
	// in a closed loop readers send, too, and others open connections
	if s.Client.SenderRunQueueS == nil || unopened {
		return append(causes, machineCauses(s, "the client's threads", "all cores'", s.Client.RunQueueS,
			s.Run.Host.CPUs)...)
	}
	return append(causes, machineCauses(s, "the sending threads", "their", s.Client.SenderRunQueueS,
		s.Client.Senders)...)
}

// machineCauses are what took the time of the client's cores, or that of so many threads who waited for one.
func machineCauses(s *metrics.Summary, who, whose string, waited *float64, threads int) (causes []cause) {
	c := &s.Client
	whole := s.Run.DurationS
	oneCore := "one core's time"
	if n := s.Clients(); n > 1 {
		oneCore += " on each of " + format.Many(n, "machine")
	}
	for _, m := range []struct {
		happened   string
		seconds    *float64
		share      float64
		of, remedy string
	}{
		{"the host took CPU time away", c.StolenS, stats.OrZero(c.StolenShare),
			"all cores' time; " + percent(stats.OrZero(c.StolenWorst)) + " in the worst second",
			"run on a machine whose CPUs are its own"},
		{"the container's CPU limit stopped the client", c.ThrottledS, s.ThrottledShare(),
			oneCore, "raise the CPU limit (resources.limits.cpu in Kubernetes) or remove it"},
		{who + " waited for a core", waited, stats.OrZero(waited) / (whole * float64(max(1, threads))),
			whose + " time", moreCores(s)},
	} {
		if whole > 0 && m.share > CauseShare {
			causes = append(causes,
				cause{m.happened, format.Seconds(*m.seconds) + ", " + percent(m.share) + " of " + m.of, m.remedy})
		}
	}
	return causes
}

// percent prints a share with as many digits as a sampled one deserves.
func percent(share float64) string { return format.Number(100*share, 3) + " %" }
