package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// charge is what people are told of a cause.
type charge struct{ happened, amount, remedy string }

// chargeOf words a cause.
func chargeOf(s *Summary, cause Cause) charge {
	c := &s.Client
	switch cause {
	case Stolen:
		return charge{"the host took CPU time away", ofRun(s, c.StolenS), "the machine, not the server; run on one whose CPUs are its own"}
	case Throttled:
		return charge{"the container's CPU limit stopped the client", ofRun(s, c.ThrottledS),
			"the machine, not the server; raise the limit (resources.limits.cpu in Kubernetes) or remove it"}
	}
	waited := "its threads waited " + inSeconds(c.RunQueueS) + " in all for a core"
	if c.LaneRunQueueS != nil {
		waited += ", the sending threads " + inSeconds(c.LaneRunQueueS)
	}
	cores := "give it more or idle cores"
	if !c.Realtime {
		cores += " and real-time priority"
	}
	return charge{"the client ran short of CPU", waited, cores + ", or lower --scale"}
}

// driftBlame ends the reason about drift.
func driftBlame(s *Summary) string {
	switch {
	case capped(s):
		return capBlame(s)
	case builtLate(s):
		return buildBlame(s)
	}
	named := blamedForDrift(s)
	if len(named) == 0 {
		return "give the client more or idle cores and real-time priority, or lower --scale"
	}
	all := evidenceOf(s)
	return accuse(s, named, func(c Cause) string { return explains(all[c].overlap, s.Client.Late.Requests) })
}

// capBlame words what the cap did.
func capBlame(s *Summary) string {
	c := s.Cap
	return fmt.Sprintf("the cap of %s in flight held back %s (p50 %s, max %s): the server did not meet the load as planned; raise --concurrency, or lower the rate",
		human.Count(c.InFlight), requests(c.Held), human.Duration(c.HeldMS.P50*1e6, 3), human.Duration(c.HeldMS.Max*1e6, 3))
}

// buildBlame words that requests were not built in time.
func buildBlame(s *Summary) string {
	b := s.BuildAhead
	return fmt.Sprintf("%s not built in time (%s at a time, least lead %s): raise --max-memory, give the client more cores, or lower the rate",
		requests(b.Late), human.Bytes(b.WindowBytes), human.Duration(orZero(b.LeastLeadMS)*1e6, 3))
}

// explains words how many late requests a cause can explain.
func explains(o *Overlap, late int64) string {
	text := fmt.Sprintf("; it can explain %s of the %s", human.Count(o.Requests), human.Many(late, "late request"))
	switch {
	case o.Others == nil:
		return text
	case *o.Others == 0:
		return text + "; none of the punctual ones met as much"
	}
	return text + "; " + blamePercent(*o.Others) + " of the punctual ones met as much"
}

// readsBlame ends the reason about the receive side.
func readsBlame(s *Summary) string {
	named := blamedForReads(s)
	if len(named) == 0 {
		return "give it more cores"
	}
	return "meanwhile " + accuse(s, named, func(Cause) string { return "" })
}

// accuse says what the named causes did, each with its proof, and the remedy of the first: it may be the reason for the
// others.
func accuse(s *Summary, named []Cause, proof func(Cause) string) string {
	var happened []string
	for _, c := range named {
		charge := chargeOf(s, c)
		happened = append(happened, charge.happened+" ("+charge.amount+proof(c)+")")
	}
	return strings.Join(happened, " and ") + ": " + chargeOf(s, named[0]).remedy
}

// machineNotes says what the machine took, where no reason has said so.
func machineNotes(s *Summary) (out []string) {
	var named []Cause
	if drift(s) != "" && !capped(s) && !builtLate(s) {
		named = blamedForDrift(s)
	}
	if receiveLag(s) != "" {
		named = append(named, blamedForReads(s)...)
	}
	for _, c := range noted(s) {
		if slices.Contains(named, c) {
			continue
		}
		charge := chargeOf(s, c)
		if c == Stolen {
			charge.amount += "; " + blamePercent(orZero(s.Client.StolenWorst)) + " in the worst second"
		}
		out = append(out, fmt.Sprintf("%s (%s): %s may be the machine's, not the server's", charge.happened, charge.amount, tailsTouched(s, c)))
	}
	return out
}

// tailsTouched names what a cause may have moved. The kernel stamps even while we do not run, but late on a stolen core.
func tailsTouched(s *Summary, c Cause) string {
	switch k := s.Client.Stamps; {
	case k == nil || !k.Received:
		return "the tails of drift and of latencies, which go by our reads,"
	case c == Stolen:
		return "the tail of drift and, less, those of latencies"
	}
	return "the tail of drift"
}

// ofRun words how long a cause lasted, as processor time of a run.
func ofRun(s *Summary, lost *float64) string {
	text := inSeconds(lost) + " in " + inSeconds(&s.Run.DurationS)
	if s.Run.Host.CPUs > 0 {
		text += " on " + human.Many(int64(s.Run.Host.CPUs), "core")
	}
	return text
}

func inSeconds(s *float64) string { return human.Duration(orZero(s)*1e9, 3) }

// blamePercent prints a share with as many digits as a sampled one deserves.
func blamePercent(share float64) string { return human.Number(100*share, 2) + " %" }
