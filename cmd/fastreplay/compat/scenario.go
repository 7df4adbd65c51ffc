package compat

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// The scenarios of AIPerf that are known here (docs/tutorials/agentx-mvp.md of ai-dynamo/aiperf 0.13, and the package
// agentx-harness 1.0.12). Their --concurrency counts jobs that run at a time.
const (
	agentXMVP = "inferencex-agentx-mvp"
	agentX    = "agentx"
)

// scenario sets what a scenario locks or sets by default.
func (l *Line) scenario() error {
	if !l.Given("scenario") {
		return nil
	}
	name := l.last("scenario")
	lanes := l.text("concurrency")
	switch {
	case name != agentXMVP && name != agentX:
		return fmt.Errorf("--scenario %q: there is no such scenario here; there are %s and %s", name, agentX, agentXMVP)
	case lanes == "" && !l.Flags.Changed("sessions"):
		return errors.New("--scenario " + name + ": give --concurrency N, how many jobs run at a time")
	case name == agentX:
		return l.agentX(lanes)
	}
	return l.agentXMVP(lanes)
}

func (l *Line) agentXMVP(lanes string) error {
	given := l.Flags.Changed
	idle := "system=10s"
	if given("idle-cap") && l.typed["idle-cap"] == "--trace-idle-gap-cap-seconds" {
		idle = "system=" + l.text("idle-cap")
		delete(l.typed, "idle-cap")
	} else if given("idle-cap") {
		idle = l.text("idle-cap")
	}
	l.note(
		"--scenario %s: no marker is put into prompts, since no job is sent twice; --cold says how the servers' "+
			"caches begin", agentXMVP)
	return l.preset("the scenario "+agentXMVP, []preset{
		{"sessions", "lanes=" + lanes,
			"each of " + lanes + " lanes takes the next whole job (--sessions lanes=" + lanes + ")",
			!given("sessions")},
		{"idle-cap", idle, "--idle-cap " + idle, true},
		{"no-stream", "false", "", true},
		{"duration", "30m", "--benchmark-duration 1800", !given("duration")},
	})
}

// What agentx has of all runs.
const (
	agentXIdle     = "tree=300s,system=10s"
	agentXDuration = 15 * time.Minute // at least
	agentXCoverage = "coverage>=95%"
	agentXJobs     = 393
)

// agentX sets flags that are there for every run, and refuses what the scenario locks.
func (l *Line) agentX(lanes string) error {
	given := l.Flags.Changed
	if given("idle-cap") && l.typed["idle-cap"] == "--trace-idle-gap-cap-seconds" {
		own := strings.Replace(agentXIdle, "300s", l.text("idle-cap"), 1)
		if err := l.Flags.Set("idle-cap", own); err != nil {
			return err
		}
	}
	if mode := l.text("sessions"); given("sessions") && !strings.HasPrefix(mode, "lanes=") {
		return fmt.Errorf("--scenario %s: its lanes wait for answers, so it has no --sessions %s; "+
			"the same jobs whatever servers do: "+
			"fastreplay FILE --url URL --sessions strict --idle-cap 300s --duration 1h", agentX, mode)
	}
	if err := l.checkAgentX(); err != nil {
		return err
	}
	from := cmp.Or(l.last("trajectory-start-min-ratio"), "25%")
	to := cmp.Or(l.last("trajectory-start-max-ratio"), "75%")
	wanted := func(flag, text string) preset {
		return preset{flag, text, "--" + flag + " " + text, !given(flag)}
	}
	return l.preset("the scenario "+agentX, []preset{
		wanted("sessions", "lanes="+lanes),
		wanted("snapshot", from+":"+to),
		{"recycle", "true", "--recycle", !given("recycle")},
		wanted("warmup", "10"),
		wanted("idle-cap", agentXIdle),
		wanted("duration", "1h"),
		wanted("seed", "42"),
		wanted("max-error-rate", "0.1"),
		{"require", agentXCoverage, "--require " + agentXCoverage, true},
		wanted("too-long", "send"),
		wanted("api", "chat"),
		{"no-stream", "false", "", true},
	})
}

// checkAgentX refuses flags that the scenario locks otherwise, or notes them with --unsafe-override.
func (l *Line) checkAgentX() error {
	given := l.Flags.Changed
	var broken []string
	forbid := func(is bool, rule string) {
		if is {
			broken = append(broken, rule)
		}
	}
	lasts, _ := time.ParseDuration(l.text("duration"))
	bust := cmp.Or(l.last("cache-bust"), "first_turn_prefix")
	forbid(given("duration") && lasts < agentXDuration, fmt.Sprintf("it lasts at least %v", agentXDuration))
	forbid(l.rated() || l.on("fixed-schedule"), "lanes alone decide when requests leave")
	forbid(l.typed["idle-cap"] == "--inter-turn-delay-cap-seconds", "delays between turns have no cap")
	forbid(given("idle-cap") && l.text("idle-cap") != agentXIdle, "idle times are cut by --idle-cap "+agentXIdle)
	forbid(given("no-stream") && l.on("no-stream"), "answers are streams")
	forbid(l.on("no-force-output") || l.endsEarly(), "answers have their recorded length (ignore_eos)")
	forbid(l.text("too-long") == "clip", "no prompt is cut")
	forbid(bust != "first_turn_prefix" || given("recycle") && !l.on("recycle"), "a marker stands before each prompt")
	switch {
	case broken == nil:
		return nil
	case l.Given("unsafe-override"):
		l.note("--scenario %s: the run breaks its rules: %s", agentX, strings.Join(broken, "; "))
		return nil
	}
	return fmt.Errorf("--scenario %s: its rules are: %s; --unsafe-override breaks them", agentX,
		strings.Join(broken, "; "))
}

// otherJobs notes that a trace is not the scenario's own, by its number of jobs.
func (l *Line) otherJobs(t *trace.Trace) []string {
	if l.last("scenario") != agentX {
		return nil
	}
	_, jobs := t.JobNumbers()
	if jobs == agentXJobs {
		return nil
	}
	return []string{fmt.Sprintf("--scenario %s: its data set has %d jobs, this trace %d: "+
		"the harness takes no other, and numbers compare only with those of the same trace", agentX, agentXJobs, jobs)}
}

// endsEarly reports whether extra inputs let answers end before their length.
func (l *Line) endsEarly() bool {
	for _, text := range list(l.Flags.Lookup("extra-inputs")) {
		text = strings.ReplaceAll(strings.ToLower(text), " ", "")
		if strings.Contains(text, "ignore_eos:false") || strings.Contains(text, `"ignore_eos":false`) {
			return true
		}
	}
	return false
}
