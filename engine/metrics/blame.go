package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

const (
	// most of the late requests must a cause have met before it is named.
	most = 2.0 / 3
	// lift is how many times as often it must have met them as the punctual ones.
	lift = 2
	// tail of the time, taken from the client, may show at the 99th percentile.
	tail = 0.01
	// noticeableSecond is the share of a second that, stolen, is worth a note in a run that lost little in all.
	noticeableSecond = 0.1
)

// blame is a cause with the evidence for it and what people are told.
type blame struct {
	share   float64  // of the time that it could have taken
	overlap *Overlap // nil where unknown
	what    string   // happened
	amount  string
	remedy  string
}

// blames lists the causes in the order of Cause: one that stands before another may be the reason for that.
func blames(s *Summary) [Causes]blame {
	c, seconds := &s.Client, s.Run.DurationS
	late := c.Late
	if late == nil {
		late = &Late{}
	}
	waited := "all its threads waited " + inSeconds(c.RunQueueS) + " for a core"
	if c.LaneRunQueueS != nil {
		waited += ", the sending " + ones(c.Lanes) + " " + inSeconds(c.LaneRunQueueS)
	}
	cores := "give it more or idle cores"
	if !c.Realtime {
		cores += " and real-time priority"
	}
	return [Causes]blame{
		Stolen: {number(c.StolenShare), late.Stolen, "the host took CPU time away",
			inSeconds(c.StolenS) + " in " + inSeconds(&seconds) + onCores(s), "the machine, not the server; run on one whose CPUs are its own"},
		Throttled: {share(c.ThrottledS, seconds*float64(s.Run.Host.CPUs)), late.Throttled, "the container's CPU limit stopped the client",
			inSeconds(c.ThrottledS) + " in " + inSeconds(&seconds) + onCores(s), "the machine, not the server; raise the limit (resources.limits.cpu in Kubernetes) or remove it"},
		Waited: {share(c.LaneRunQueueS, seconds*float64(max(1, c.Lanes))), late.Waited, "the client ran short of CPU", waited, cores + ", or lower --scale"},
	}
}

// blamedForDrift lists what made requests late: the causes that met most of them and far fewer others. Where none did, it
// is those that met most of them, and them like the others, but took a share of the time that can make so many late: half
// of theirs, for late requests make those behind them late.
func blamedForDrift(s *Summary) (named []Cause) {
	late := s.Client.Late
	if late == nil || late.Requests == 0 {
		return nil
	}
	all := blames(s)
	var met []Cause
	for c, b := range all {
		if b.overlap != nil && float64(b.overlap.Requests) >= most*float64(late.Requests) {
			met = append(met, Cause(c))
		}
	}
	for _, c := range met {
		o := all[c].overlap
		if o.Others != nil && float64(o.Requests) >= lift**o.Others*float64(late.Requests) {
			named = append(named, c)
		}
	}
	if len(named) > 0 {
		return named
	}
	for _, c := range met {
		if all[c].share*float64(s.Requests.Sent) >= enough*float64(late.Requests) {
			named = append(named, c)
		}
	}
	return named
}

// blamedForReads lists what may have made one read of a hundred late. Single reads are not joined with what the machine did
// at their time, so it goes by amounts: a cause must have taken a hundredth of the time, and the threads' waits for a core
// must be about as long as all that reads were late.
func blamedForReads(s *Summary) (named []Cause) {
	for c, b := range blames(s) {
		short := b.share >= tail
		if Cause(c) == Waited {
			lag := lagS(s)
			short = lag > 0 && number(s.Client.RunQueueS) >= enough*lag
		}
		if short {
			named = append(named, Cause(c))
		}
	}
	return named
}

// lagS is how late all reads were together, in seconds; 0 where unknown.
func lagS(s *Summary) float64 {
	if s.Client.ReceiveLagUS == nil || s.Client.Stamps == nil {
		return 0
	}
	return s.Client.ReceiveLagUS.Mean / 1e6 * float64(s.Client.Stamps.Reads)
}

// driftBlame ends the reason about drift.
func driftBlame(s *Summary) string {
	return accuse(s, blamedForDrift(s), func(b *blame) string {
		fell := fmt.Sprintf("; it fell on %s of the %s", human.Count(b.overlap.Requests), human.Many(s.Client.Late.Requests, "late request"))
		switch others := b.overlap.Others; {
		case others == nil:
		case *others == 0:
			fell += ", and on none of the others"
		default:
			fell += ", and on " + percent(*others) + " of the others"
		}
		return fell
	}, "give the client more or idle cores and real-time priority, or lower --scale")
}

// readsBlame ends the reason about the receive side.
func readsBlame(s *Summary) string {
	named := blamedForReads(s)
	text := accuse(s, named, func(*blame) string { return "" }, "give it more cores")
	if named != nil {
		text = "meanwhile " + text
	}
	return text
}

// accuse says what the named causes did, and the remedy of the first; otherwise where there is none.
func accuse(s *Summary, named []Cause, evidence func(*blame) string, otherwise string) string {
	if len(named) == 0 {
		return otherwise
	}
	all := blames(s)
	var happened []string
	for _, c := range named {
		happened = append(happened, all[c].what+" ("+all[c].amount+evidence(&all[c])+")")
	}
	return strings.Join(happened, " and ") + ": " + all[named[0]].remedy
}

// Disturbances says in a few words each what the machine took from the client, where that is worth a line.
func Disturbances(s *Summary) (parts []string) {
	c, all := &s.Client, blames(s)
	if tookNotice(s) {
		parts = append(parts, "host took "+inSeconds(c.StolenS)+" of CPU ("+percent(number(c.StolenWorst))+" in the worst second)")
	}
	if all[Throttled].share >= tail {
		parts = append(parts, "throttled for "+inSeconds(c.ThrottledS))
	}
	if all[Waited].share >= tail {
		parts = append(parts, "sending waited "+inSeconds(c.LaneRunQueueS)+" for a core")
	}
	return parts
}

// tookNotice tells whether the host took a noticeable share.
func tookNotice(s *Summary) bool {
	return number(s.Client.StolenShare) > tail || number(s.Client.StolenWorst) > noticeableSecond
}

// machineNotes says what the machine took, where no reason has said so.
func machineNotes(s *Summary) (out []string) {
	var named []Cause
	if drift(s) != "" {
		named = blamedForDrift(s)
	}
	if receiveLag(s) != "" {
		named = append(named, blamedForReads(s)...)
	}
	all := blames(s)
	touched := [...]string{Stolen: "the tail of drift and, less, those of latencies", Throttled: "the tail of drift"} // the kernel stamps on, but late on a stolen core
	if k := s.Client.Stamps; k == nil || !k.Received {
		touched[Stolen] = "the tails of drift and of latencies, which go by our reads,"
		touched[Throttled] = touched[Stolen]
	}
	if tookNotice(s) && !slices.Contains(named, Stolen) {
		out = append(out, fmt.Sprintf("%s (%s; %s in the worst second): %s may be the machine's, not the server's",
			all[Stolen].what, all[Stolen].amount, percent(number(s.Client.StolenWorst)), touched[Stolen]))
	}
	if all[Throttled].share >= tail && !slices.Contains(named, Throttled) {
		out = append(out, fmt.Sprintf("%s (%s): %s may be the machine's, not the server's", all[Throttled].what, all[Throttled].amount, touched[Throttled]))
	}
	return out
}

func ones(lanes int) string {
	if lanes > 1 {
		return "ones"
	}
	return "one"
}

func onCores(s *Summary) string {
	if s.Run.Host.CPUs == 0 {
		return ""
	}
	return " on " + human.Many(int64(s.Run.Host.CPUs), "core")
}

func inSeconds(s *float64) string { return human.Duration(number(s)*1e9, 3) }

// percent prints a share with as many digits as a sampled one deserves.
func percent(share float64) string { return human.Number(100*share, 2) + " %" }

func share(part *float64, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return number(part) / whole
}

// number is *v, or 0 where there is none.
func number(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
