package metrics

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Action is a command that was to run at an instant of the run, whether it took effect, and what came after it.
// Instants are since the start.
type Action struct {
	AtS float64  `json:"at_s"` // when it was to run
	Run string   `json:"run"`  // the command, without credentials
	Ran *Command `json:"ran"`  // what became of it; null: the run was over before
	// the command that was to succeed once it had taken effect; absent without one
	Expect string `json:"expect,omitempty"`
	// what expect did. passed; failed: until the time limit; early: it succeeded before, too, and proves nothing;
	// unfinished: the run ended before. Absent without expect
	Check  string   `json:"check,omitempty"`
	CheckS *float64 `json:"check_s,omitempty"` // when the check that passed began; absent if none did
	Undo   *Command `json:"undo,omitempty"`    // what undid it at the end; absent without any

	Landed  bool     `json:"landed"`   // there is proof that it took effect
	LandedS *float64 `json:"landed_s"` // when the first proof was seen; null without any
	// the proof in words, or why there is none
	Proof string      `json:"proof"`
	Cost  *ActionCost `json:"cost"` // what came after it; null if it did not run
}

// The values of Action.Check.
const (
	CheckPassed     = "passed"
	CheckFailed     = "failed"
	CheckedEarly    = "early"
	CheckUnfinished = "unfinished"
)

// Command is what became of a command.
type Command struct {
	StartedS float64 `json:"started_s"`        // when it began, since the start of the run
	TookS    float64 `json:"took_s"`           // how long it ran
	ExitCode *int    `json:"exit_code"`        // null: it was killed, or could not begin
	Error    string  `json:"error,omitempty"`  // why there is no exit code
	Output   string  `json:"output,omitempty"` // the end of what it wrote, without credentials
}

// ActionCost compares the requests after an action with those before. A request that failed counts as one without end.
type ActionCost struct {
	UntilS      float64 `json:"until_s"`             // when the next action began, or the run ended
	Requests    int64   `json:"requests"`            // sent from the proof on, or else from the action on
	Failed      int64   `json:"failed"`              // that ended since then, and failed
	FailedShare float64 `json:"failed_share_before"` // of the requests before
	// how many requests from the action on failed or missed a bound of --goodput, beyond the share that did before. One
	// that the run's end cut off counts if it had missed a bound by then. null without such bounds, and if no request
	// ended before or after
	SLODebt *float64 `json:"slo_debt"`
	// what caches had less than before of what an ideal one has; null if unknown. What was still in prefill does not
	// count, nor what a cache of the known size would have evicted
	HitsLost *float64 `json:"hit_tokens_lost"`

	// the most that TTFT p95 was before, and a quarter more; null: too few requests, or others failed
	BandMS *float64 `json:"ttft_p95_band_ms"`
	Left   *bool    `json:"left_band"` // TTFT p95 went beyond it; null: unknown, or too few requests followed to tell
	BackS  *float64 `json:"back_s"`    // when it was back within; null: it never left, or was not back
	Late   int64    `json:"late"`      // ok requests beyond the band until it was back
}

// OK reports whether the command succeeded.
func (c *Command) OK() bool { return c.ExitCode != nil && *c.ExitCode == 0 }

// Words says how a command ended.
func (c *Command) Words() string {
	text := c.Error
	if c.ExitCode != nil {
		text = fmt.Sprintf("exit code %d after %s", *c.ExitCode, format.Seconds(c.TookS))
	}
	if c.Output != "" && !c.OK() {
		lines := strings.Split(c.Output, "\n")
		text += ", " + format.Quote(lines[len(lines)-1])
	}
	return text
}

// Began reports whether the action ran.
func (a *Action) Began() bool { return a.Ran != nil }

// BeganS is when it began, or was to begin.
func (a *Action) BeganS() float64 {
	if a.Ran == nil {
		return a.AtS
	}
	return a.Ran.StartedS
}

// Compare orders actions by when they began, and those that never did at last.
func (a *Action) Compare(b *Action) int {
	switch {
	case a.Began() && !b.Began():
		return -1
	case !a.Began() && b.Began():
		return 1
	}
	return cmp.Compare(a.BeganS(), b.BeganS())
}

// Finding says whether the action took effect, and how that is known.
func (a *Action) Finding() string {
	if !a.Began() {
		return "not run: the run was over"
	}
	finding := "it did not land: "
	switch {
	case !a.Ran.OK():
		finding += a.Ran.Words() + ", "
	case a.Check != CheckFailed: // it may have made servers slower
		finding = "nothing shows that it landed (an expect that fails before would): "
	}
	finding += a.Proof
	if a.Landed {
		finding = "landed after " + format.Seconds(max(0, *a.LandedS-a.Ran.StartedS)) + ": " + a.Proof
	}
	if late := a.Ran.StartedS - a.AtS; late > toleratedLateS {
		finding += ", begun " + format.Seconds(late) + " late"
	}
	if a.Landed && !a.Ran.OK() {
		finding += ", " + a.Ran.Words()
	}
	return finding
}

// toleratedLateS is how late an action may begin without a word: a timer and a busy machine take some of it.
const toleratedLateS = 0.5

// CostWords says what came after an action that took effect, in parts.
func (a *Action) CostWords() []string {
	c := a.Cost
	if c == nil || !a.Landed {
		return nil
	}
	parts := []string{format.Some(c.Failed, "failed"), format.Some(c.Late, "late")}
	if c.FailedShare > 0 && c.Failed > 0 {
		parts[0] += " (" + format.Share(c.FailedShare) + " before)"
	}
	if c.HitsLost != nil && *c.HitsLost >= 1 {
		parts = append(parts, format.Many(int64(*c.HitsLost), "hit token")+" lost")
	}
	if c.SLODebt != nil && *c.SLODebt >= 1 {
		parts = append(parts, "SLO debt of "+format.Requests(int64(*c.SLODebt)))
	}
	switch {
	case c.BandMS == nil:
		parts = append(parts, "before it no calm time tells what TTFT p95 is usual")
	case c.Left == nil:
		parts = append(parts, "too few requests followed to tell whether TTFT p95 stayed within "+
			format.Milliseconds(*c.BandMS))
	case !*c.Left:
		parts = append(parts, "TTFT p95 stayed within "+format.Milliseconds(*c.BandMS))
	case c.BackS == nil:
		band := format.Milliseconds(*c.BandMS)
		parts = append(parts, "TTFT p95 not back within "+band+" by "+format.Seconds(c.UntilS))
	default:
		took := format.Seconds(max(0, *c.BackS-*a.LandedS))
		parts = append(parts, "TTFT p95 back within "+format.Milliseconds(*c.BandMS)+" after "+took)
	}
	return format.Present(parts...)
}
