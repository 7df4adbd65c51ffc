package metrics

import (
	"fmt"
	"strings"

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
	Alike    int64    `json:"alike"`    // of failed, those with that outcome; 0 if an earlier version wrote it
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
		what := "was shut down, not killed"
		if strings.Contains(o.Error, "timeout") { // as of a server that is too slow to accept
			what = "was shut down, or too busy for new connections"
		}
		return fmt.Sprintf(
			"; it %s: after it refused the first request %d of its answers ended well, it gave %d up, and %d were cut "+
				"off",
			what, o.FinishedAfter, o.GivenUp, o.CutOff,
		)
	case o.CutOff > 0:
		return fmt.Sprintf("; it died or was killed: %d of its answers were cut off", o.CutOff)
	}
	return ""
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
	f := s.Requests.Failures
	switch {
	case out != nil || len(f) == 0:
		return strings.Join(out, "; ")
	case len(f) == 1:
		return "all by " + f[0].Words()
	case 2*f[0].Count > s.Requests.Failed:
		return fmt.Sprintf("most by %s (%s of %s)",
			f[0].Words(), format.Count(f[0].Count), format.Count(s.Requests.Failed))
	}
	const shown = 3
	for i := range f[:min(shown, len(f))] {
		out = append(out, format.Count(f[i].Count)+" by "+f[i].Words())
	}
	return strings.Join(append(out, format.Present(format.Some(len(f)-len(out), "further ways"))...), ", ")
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
	most := "most"
	if o.Alike == o.Failed {
		most = "all"
	}
	text := fmt.Sprintf("%s failed %s (%s of %s, %s by %s",
		who, when, format.Count(o.Failed), format.Requests(o.Requests), most, o.Outcome)
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
