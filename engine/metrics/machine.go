package metrics

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// causeShare is the share of the time above which a cause is named: what took less does not reach the 99th percentile.
// For stolen time and for the waits of all threads it is a share of all cores' time. For the waits of the sending
// threads it is a share of theirs. For throttling it is a share of one core's time, since the limit may be one core. For
// what held requests back it is a share of the requests.
const causeShare = 0.01

// cause is what kept the client from its work.
type cause struct{ happened, amount, remedy string }

// whyDrift returns what made requests late, and the remedies.
func whyDrift(s *Summary) string {
	var causes []cause
	most := causeShare * float64(s.Requests.Sent)
	if c := s.Cap; c != nil && c.HeldMS != nil && float64(c.Held) > most && c.HeldMS.Max > s.Limits.MaxDriftMS {
		causes = append(causes, cause{
			fmt.Sprintf("the cap of %s in flight held back %s", format.Count(c.InFlight), requests(c.Held)),
			fmt.Sprintf("p50 %s, max %s", format.Duration(c.HeldMS.P50*1e6, 3), format.Duration(c.HeldMS.Max*1e6, 3)),
			"the server did not meet the load as planned; raise --concurrency, or lower the rate",
		})
	}
	if b := s.BuildAhead; b != nil && float64(b.Late) > most {
		causes = append(causes, cause{
			requests(b.Late) + " not built in time",
			fmt.Sprintf("%s at a time, least lead %s", format.Bytes(b.WindowBytes), format.Duration(orZero(b.LeastLeadMS)*1e6, 3)),
			"raise --max-memory, give the client more cores, or lower the rate",
		})
	}
	causes = append(causes, machineCauses(s)...)
	causes = append(causes, waitCause(s, "the sending threads", s.Client.SenderRunQueueS, s.Client.Senders, "their")...)
	if len(causes) == 0 {
		return "give the client more or idle cores and real-time priority, or lower --scale"
	}
	return describe(causes)
}

// whyReadLate returns what kept the client from reading meanwhile, and the remedies.
func whyReadLate(s *Summary) string {
	threads := waitCause(s, "the client's threads", s.Client.RunQueueS, s.Run.Host.CPUs, "all cores'")
	causes := append(machineCauses(s), threads...)
	if len(causes) == 0 {
		return "give it more cores"
	}
	return "meanwhile " + describe(causes)
}

func describe(causes []cause) string {
	var happened, remedies []string
	for _, c := range causes {
		happened = append(happened, c.happened+" ("+c.amount+")")
		remedies = append(remedies, c.remedy)
	}
	return strings.Join(happened, " and ") + ": " + strings.Join(remedies, "; ")
}

const hostTook = "the host took CPU time away"

// machineCauses returns what others took from the client.
func machineCauses(s *Summary) []cause {
	c := &s.Client
	ofCores := "all cores' time; " + percent(orZero(c.StolenWorst)) + " in the worst second"
	return append(
		causeOf(hostTook, c.StolenS, orZero(c.StolenShare), ofCores,
			"the machine, not the server; run on one whose CPUs are its own"),
		causeOf("the container's CPU limit stopped the client", c.ThrottledS, shareOf(c.ThrottledS, s.Run.DurationS),
			"one core's time", "the machine, not the server; raise the limit (resources.limits.cpu in Kubernetes) or remove it")...)
}

// waitCause is that threads waited for a core, by the time of that many cores or threads.
func waitCause(s *Summary, who string, seconds *float64, n int, whose string) []cause {
	remedy := "give the client more or idle cores and real-time priority, or lower --scale"
	if s.Client.Realtime {
		remedy = "give the client more or idle cores, or lower --scale"
	}
	share := shareOf(seconds, s.Run.DurationS*float64(max(1, n)))
	return causeOf(who+" waited for a core", seconds, share, whose+" time", remedy)
}

// causeOf is a cause that took so many seconds, if that is enough to be named.
func causeOf(happened string, seconds *float64, share float64, of, remedy string) []cause {
	if share <= causeShare {
		return nil
	}
	return []cause{{happened, format.Seconds(*seconds) + ", " + percent(share) + " of " + of, remedy}}
}

// machineNotes has a note on what others took from the client, unless a reason of the verdict names it.
func machineNotes(s *Summary) (out []string) {
	if drift(s) != "" || receiveLag(s) != "" {
		return nil
	}
	for _, c := range machineCauses(s) {
		tails := "the tail of drift" // the kernel stamps even while we do not run, but late on a stolen core
		switch k := s.Client.Stamps; {
		case k == nil || !k.Received:
			tails = "the tails of drift and of latencies, which are measured by our reads,"
		case c.happened == hostTook:
			tails = "the tail of drift and, less, those of latencies"
		}
		out = append(out, fmt.Sprintf("%s (%s): %s may be the machine's, not the server's", c.happened, c.amount, tails))
	}
	return out
}

// percent prints a share with as many digits as a sampled one deserves.
func percent(share float64) string { return format.Number(100*share, 3) + " %" }

func shareOf(part *float64, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return orZero(part) / whole
}

// orZero is *v, or 0 where there is none.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
