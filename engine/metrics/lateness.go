package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// What lateness of the client may change before a percentile counts as unsafe, and a load as another one. Two runs of
// the same load on the same server differ by some 5 % in their percentiles, so less than that cannot be seen. Below 1
// ms a request, and 0.1 ms a token, differ by the event loops and networks between two programs.
const (
	tolerated      = 0.05      // of a percentile's value, of the median E2E, and of the time of a closed loop's slots
	toleratedNS    = 1_000_000 // of TTFT and E2E
	toleratedTokNS = 100_000   // of TPOT and ITL
)

const (
	// wrongShare of the requests must leave at other times, before the load as a whole is another one.
	wrongShare = 0.1
	// wrongSlots is the share of a closed loop's time that its slots may be empty: with a quarter, 8 in flight were 6.
	wrongSlots = 0.25
)

// Lateness is how late the client was, and what that may have changed.
type Lateness struct {
	// from one planned instant to the next; null in a closed loop, and below two requests
	MeanGapMS *float64 `json:"mean_gap_ms" merge:"records"`
	// requests that left later than this count as displaced: the mean gap, 5 % of the median E2E or 1 ms, whichever is
	// most
	DisplacedMS float64 `json:"displaced_after_ms" merge:"records"`
	// requests; above a tenth of those sent the load was another one
	Displaced int64 `json:"displaced" merge:"records"`
	// requests that may have taken over 1 ms longer, since others left late and the servers took longer with more in
	// flight
	Behind int64 `json:"behind" merge:"records"`
	// of a closed loop: the share of its slots' time from the end of a request until the next one left; null otherwise
	SlotsLostShare *float64 `json:"slots_lost_share" merge:"records"`
	// percentiles that differ by more than 5 % (and 1 ms; of TPOT 0.1 ms), if they are counted from the planned
	// instants, or if nobody had waited behind late requests
	Sending []Unsafe `json:"sending" merge:"records"`
	// percentiles that late reads may have moved by more than 5 % (and 1 ms; of TPOT and ITL 0.1 ms)
	Reading []Unsafe `json:"reading" merge:"union"`
}

// lateness examines the run whose distributions are in s.
func (c *Collector) lateness(s *Summary, all *targetStats) Lateness {
	out := Lateness{Sending: []Unsafe{}, Reading: all.LateReads.unsafe(all)}
	if d := s.DriftUS; s.Run.Concurrency > 0 && d != nil {
		if whole := s.Run.DurationS * float64(s.Run.Concurrency); whole > 0 {
			out.SlotsLostShare = new(max(0, d.Mean) * float64(d.Count) / 1e6 / whole)
		}
		return out
	}
	gap := 0.0
	first := int64(math.MaxInt64)
	last := int64(math.MinInt64)
	n := 0
	c.timings.each(func(k *timing) {
		if k.plannedNS != record.None {
			first = min(first, k.plannedNS)
			last = max(last, k.plannedNS)
			n++
		}
	})
	if n > 1 {
		gap = float64(last-first) / float64(n-1)
		out.MeanGapMS = new(gap / 1e6)
	}
	drift := &all.Latencies[Drift]
	limit := DisplacedNS(int64(gap), all.Latencies[E2E].QuantileNS(500))
	out.DisplacedMS = float64(limit) / 1e6
	out.Displaced = drift.above(limit)
	for i := range latencies {
		if twin := FindLatency(latencies[i].planned); twin >= 0 {
			sent := &all.Latencies[i]
			planned := &all.Latencies[twin]
			effect := func(permille int64) int64 { return planned.QuantileNS(permille) - sent.QuantileNS(permille) }
			out.Sending = append(out.Sending, latencyUncertainty{i, sent, drift, effect}.unsafe()...)
		}
	}
	if drift.above(toleratedNS) > 1 {
		moved, behind := c.behindBursts(all)
		out.Sending = OnceEach(append(out.Sending, moved...))
		out.Behind = behind
	}
	return out
}

// latencyUncertainty is a latency that the client may have moved: each time by as much as is in by, and a percentile
// by effectNS.
type latencyUncertainty struct {
	latency  int
	all      *Distribution
	by       *Distribution
	effectNS func(permille int64) int64
}

// unsafe are the percentiles that the client may have moved by more than is tolerated, of those that need not hang on
// a single request. An effect does not count if the percentile has too few samples. Nor does it if the client was
// late less often than chance alone moves the percentile's rank, √(n·q·(1−q)).
func (u latencyUncertainty) unsafe() (out []Unsafe) {
	n := u.all.Count()
	l := &latencies[u.latency]
	for _, key := range stats.PercentileKeys() {
		permille := stats.PerMille(key)
		q := float64(permille) / 1000
		value := u.all.QuantileNS(permille)
		most := max(l.toleratedNS, int64(tolerated*float64(value)))
		if !stats.EnoughSamples(n, q) ||
			float64(u.by.above(most)) <= max(1, math.Sqrt(float64(n)*q*(1-q))) {
			continue
		}
		if effect := u.effectNS(permille); effect > most {
			out = append(out,
				Unsafe{
					Metric:     l.Key,
					Percentile: key,
					ValueMS:    float64(value) / 1e6,
					EffectMS:   float64(effect) / 1e6,
				})
		}
	}
	return out
}

// DisplacedNS is how late a request may leave before it counts as displaced, by the mean gap between requests and the
// median E2E.
func DisplacedNS(gapNS, e2eNS int64) int64 {
	return max(toleratedNS, gapNS, int64(tolerated*float64(e2eNS)))
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

// lateReadBounds are the values of a latency that the client may have changed, and what they can have been.
type lateReadBounds struct {
	From  Distribution `merge:"union"`
	Least Distribution `merge:"union"`
	Most  Distribution `merge:"union"`
	By    Distribution `merge:"union"`
}

// add adds a latency of ns, if there is one, that can have been so much less or more.
func (m *lateReadBounds) add(ns, less, more int64) {
	if ns == record.None || less <= 0 && more <= 0 {
		return
	}
	m.From.Add(ns)
	m.Least.Add(max(0, ns-less))
	m.Most.Add(ns + more)
	m.By.Add(max(less, more))
}

// uncertainty is that of a latency of which these are some values. A percentile can be as far from the true one,
// within 0.1 % of its value.
func (m *lateReadBounds) uncertainty(latency int, all *Distribution) latencyUncertainty {
	measured := all.with(nil, nil)
	least := all.with(&m.From, &m.Least)
	most := all.with(&m.From, &m.Most)
	return latencyUncertainty{latency, all, &m.By, func(permille int64) int64 {
		at := measured.QuantileNS(permille)
		return max(at-least.QuantileNS(permille), most.QuantileNS(permille)-at)
	}}
}

// latencyBounds are the values of each latency that the client may have changed.
type latencyBounds [NumLatencies]lateReadBounds

// add counts an ok request.
func (m *latencyBounds) add(r *record.Record) {
	for i := range latencies {
		if l := &latencies[i]; l.lateRead != nil {
			if less, more := l.lateRead(r); less > 0 || more > 0 {
				m[i].add(l.Of(r), less, more)
			}
		}
	}
}

// unsafe are the percentiles of all that are so far from the true ones.
func (m *latencyBounds) unsafe(all *targetStats) []Unsafe {
	out := []Unsafe{}
	for i := range latencies {
		if d := &all.Latencies[i]; m[i].From.Count() > 0 && d.Count() > 0 {
			out = append(out, m[i].uncertainty(i, d).unsafe()...)
		}
	}
	return out
}

// causeShare is the share of the time above which a cause is named: what took less does not reach the 99th
// percentile. For stolen time and for the waits of all threads it is a share of all cores' time. For the waits of the
// sending threads it is a share of theirs. For throttling it is a share of one core's time, since the limit may be
// one core. For what held requests back it is a share of the requests.
const causeShare = 0.01

// mostOfDrift is the share of drift p99 that a cap explains alone: what the machine took besides is not worth a word.
const mostOfDrift = 0.9

// cause is what kept the client from its work.
type cause struct{ happened, amount, remedy string }

// sending judges how late requests left. In a closed loop nothing is planned: there lateness is throughput that was
// lost. The longest wait is left out of that, so that one request decides nothing.
func sending(s *Summary) *Reason {
	d := s.DriftUS
	l := &s.Lateness
	most := s.Limits.MaxDriftNS
	if d == nil {
		return nil
	}
	r := &Reason{Code: LateSending, Grade: Invalid}
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
	case lost > tolerated:
		r.Grade = Limited
		r.What = "throughput may be " + format.Percent(lost) + " too low, since the slots were empty for so long"
	case fault == TooManyDisplaced:
		r.What = fmt.Sprintf("the load was another one: %s of the requests left more than %s late",
			format.Percent(float64(l.Displaced)/float64(s.Requests.Sent)), format.Duration(l.DisplacedMS*1e6, 3))
	case len(l.Sending) > 0:
		r.Grade = Limited
		r.What = effects(l.Sending)
	default:
		return nil
	}
	late := fmt.Sprintf("requests left late (p50 %s, p99 %s, max %s)",
		format.Duration(d.P50*1e3, 3), format.Duration(d.P99*1e3, 3),
		format.Duration(d.Max*1e3, 3))
	if l.Behind > 0 {
		late += " and " + format.Requests(l.Behind) +
			" may have waited behind them, since the server slows down with more in flight"
	}
	return explain(r, late, sendingCauses(s), moreCores(s), "--max-drift", d.P99/1e3)
}

// reading judges how late answers were read.
func reading(s *Summary) *Reason {
	lag := s.Client.ReceiveLagUS
	most := s.Limits.MaxReceiveLagNS
	r := &Reason{Code: LateReading, Grade: Limited, What: effects(s.Lateness.Reading)}
	switch {
	case lag != nil && most > 0 && lag.P99*1e3 > float64(most):
		r.Grade = Invalid
		r.What = fmt.Sprintf("receive lag p99 is %s, above --max-receive-lag %g ms",
			format.Duration(lag.P99*1e3, 4), most.MS())
	case lag == nil || most > 0 || len(s.Lateness.Reading) == 0:
		return nil
	}
	var causes []cause
	if share := s.Client.AnswerWaitS / s.Run.DurationS; share > causeShare {
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
		format.Duration(lag.P99*1e3, 3),
	)
	return explain(r, late, causes, "give the client more cores", "--max-receive-lag", lag.P99/1e3)
}

// explain sets why something happened and what to do about it: otherwise, if no cause was seen. What limits a run is
// accepted by a flag, with so many ms or, so that it does the next time too, some more.
func explain(r *Reason, what string, causes []cause, otherwise, flag string, ms float64) *Reason {
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
	if r.Grade == Limited {
		unit := math.Pow(10, math.Floor(math.Log10(max(ms, 0.1))))
		steps := []float64{1, 2, 5, 10, 20}
		r.Do += fmt.Sprintf("; or accept it with %s %gms",
			flag,
			unit*steps[slices.IndexFunc(steps, func(step float64) bool { return step*unit >= 1.2*ms })])
	}
	return r
}

// effects says which percentiles are not safe, and by how much. It leaves out those that are as their twin's.
func effects(all []Unsafe) string {
	asTwin := func(u Unsafe) bool {
		twin := u
		twin.Metric = latencies[max(0, FindLatency(u.Metric))].Twin
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
		parts = append(parts, strings.ToUpper(metric)+" "+strings.Join(names, ", ")+by+format.Duration(worst*1e6, 3))
	}
	return strings.Join(parts, "; ")
}

// lessLoad is how this run is made to send less.
func lessLoad(s *Summary) string {
	switch a := s.Run.Arrival; {
	case s.Run.Concurrency > 0:
		return "lower --concurrency"
	case a != nil && a.RampS > 0:
		return "lower --ramp"
	case a != nil:
		return "lower --rate"
	case s.Run.Pace != "" && s.Run.Pace != TraceTime:
		return "send less at a time"
	}
	return "lower --scale"
}

// moreCores is what helps a client that lacks processors.
func moreCores(s *Summary) string {
	if s.Client.Realtime {
		return "give the client more or idle cores, or " + lessLoad(s)
	}
	return "give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or " + lessLoad(s)
}

// sendingCauses are what made requests late.
func sendingCauses(s *Summary) (causes []cause) {
	most := causeShare * float64(s.Requests.Sent)
	if c := s.Cap; c != nil && c.HeldMS != nil && float64(c.Held) > most &&
		c.HeldMS.Max > cmp.Or(s.Limits.MaxDriftNS, toleratedNS).MS() {
		causes = append(causes, cause{
			fmt.Sprintf("the cap of %s in flight held back %s", format.Count(c.InFlight), format.Requests(c.Held)),
			fmt.Sprintf("p50 %s, max %s", format.Duration(c.HeldMS.P50*1e6, 3), format.Duration(c.HeldMS.Max*1e6, 3)),
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
				format.Bytes(b.WindowBytes), format.Duration(stats.OrZero(b.LeastLeadMS)*1e6, 3)),
			"raise --max-memory, give the client more cores, or " + lessLoad(s),
		})
	}
	if c := &s.Connections; float64(c.NotReady) > most {
		causes = append(causes, cause{
			format.Requests(c.NotReady) + " found no open connection", "longest wait " + format.Duration(c.MaxWaitMS*1e6, 3),
			"check whether the server accepts slowly, or the descriptor limit is low (ulimit -n)",
		})
	}
	return append(causes, machineCauses(s, "the sending threads", "their", s.Client.SenderRunQueueS,
		s.Client.Senders)...)
}

// machineCauses are what took the time of the client's cores, or that of so many threads who waited for one.
func machineCauses(s *Summary, who, whose string, waited *float64, threads int) (causes []cause) {
	c := &s.Client
	whole := s.Run.DurationS
	oneCore := "one core's time"
	if n := s.clients(); n > 1 {
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
		if whole > 0 && m.share > causeShare {
			causes = append(causes,
				cause{m.happened, format.Seconds(*m.seconds) + ", " + percent(m.share) + " of " + m.of, m.remedy})
		}
	}
	return causes
}

// clients is how many clients the facts of s.Client are of: shards whose runs came to their end, or one.
func (s *Summary) clients() (n int64) {
	for i := range s.Shards {
		if s.Shards[i].State == ShardWhole {
			n++
		}
	}
	return max(1, n)
}

// ThrottledShare is the share of the run's time for which a CPU limit stopped the client, of several the mean; 0 if
// that is unknown.
func (s *Summary) ThrottledShare() float64 {
	whole := s.Run.DurationS * float64(s.clients())
	if whole <= 0 {
		return 0
	}
	return stats.OrZero(s.Client.ThrottledS) / whole
}

// percent prints a share with as many digits as a sampled one deserves.
func percent(share float64) string { return format.Number(100*share, 3) + " %" }
