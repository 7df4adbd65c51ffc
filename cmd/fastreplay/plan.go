package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// pacing is what decides when requests leave: the trace's own times, a rate in their place, or requests that end.
type pacing struct {
	scale       float64
	duration    time.Duration
	fixed       bool
	notFixed    bool
	rate        string
	ramp        string
	arrival     string
	concurrency int
	lanes       int // of --sessions; 0 = none

	given    func(flag string) bool
	arrivals *sched.Arrivals // from complete on; nil without --rate R and --ramp
}

// rateMax is the --rate that releases everything at once.
const rateMax = "max"

// complete checks the flags against each other and reads what --rate and --ramp say; seed is that of the gaps.
func (p *pacing) complete(seed uint64) (err error) {
	if err = p.check(); err != nil || p.ramp == "" && (p.rate == "" || p.rate == rateMax) {
		return err
	}
	a, flag := sched.Arrivals{Seed: seed}, "rate"
	if p.ramp != "" {
		flag = "ramp"
		a.Rate, err = parseRamp(p.ramp)
	} else {
		a.Rate, err = parseRate(p.rate)
	}
	if err = cmp.Or(err, setProcess(&a, p.arrival, sched.Constant)); err != nil {
		return err
	}
	if err = a.Validate(); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	p.arrivals = &a
	return nil
}

// setProcess reads --arrival: constant, poisson, gamma or gamma:B. Without a word the process is the usual one.
func setProcess(a *sched.Arrivals, text string, usual sched.Process) (err error) {
	name, shape, shaped := strings.Cut(text, ":")
	a.Process, a.Burstiness = cmp.Or(sched.Process(name), usual), 1
	if shaped {
		a.Burstiness, err = strconv.ParseFloat(shape, 64)
	}
	if err != nil || shaped && a.Process != sched.Gamma || !slices.Contains(sched.Processes(), a.Process) || !(a.Burstiness > 0) {
		return fmt.Errorf("--arrival %q: want constant, poisson, gamma or gamma:B with a number B above 0, such as gamma:0.5", text)
	}
	return nil
}

// check refuses what contradicts itself.
func (p *pacing) check() error {
	rated := p.rate != "" || p.ramp != ""
	switch {
	case p.fixed && p.notFixed:
		return errors.New("--fixed-schedule and --no-fixed-schedule exclude each other")
	case p.rate != "" && p.ramp != "":
		return errors.New("--rate and --ramp exclude each other")
	case p.fixed && rated:
		return errors.New("--fixed-schedule sends at trace times, which --rate and --ramp ignore")
	case p.given("scale") && (rated || p.notFixed):
		return errors.New("--scale is about trace times, which --rate, --ramp and --no-fixed-schedule ignore")
	case p.notFixed && !rated && p.concurrency == 0:
		return errors.New("--no-fixed-schedule ignores trace times; say when requests leave, with --rate R, --rate max, --ramp or --concurrency N")
	case p.given("arrival") && (!rated || p.rate == rateMax):
		return errors.New("--arrival spaces requests at a rate; give one with --rate R or --ramp")
	}
	return nil
}

// parseRate reads requests per second.
func parseRate(text string) (sched.Rate, error) {
	perSecond, err := strconv.ParseFloat(text, 64)
	if err != nil {
		err = fmt.Errorf("--rate %q: want requests per second, or max", text)
	} else if math.IsInf(perSecond, 1) {
		err = fmt.Errorf("--rate %s: to send everything at once, say --rate %s", text, rateMax)
	}
	return sched.Steady(perSecond), err
}

// parseRamp reads FROM:TO:TIME.
func parseRamp(text string) (rate sched.Rate, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		from, errFrom := strconv.ParseFloat(parts[0], 64)
		to, errTo := strconv.ParseFloat(parts[1], 64)
		over, errOver := time.ParseDuration(parts[2])
		if errors.Join(errFrom, errTo, errOver) == nil && over > 0 {
			return sched.Rate{From: from, To: to, Over: over}, nil
		}
	}
	return rate, fmt.Errorf("--ramp %q: want FROM:TO:TIME in requests per second, such as 10:500:60s", text)
}

// closed reports whether only requests or jobs that end release others. With all requests due at once, a cap is the same.
func (p *pacing) closed() bool {
	return p.lanes > 0 || p.concurrency > 0 && p.arrivals == nil && !p.fixed && !p.given("scale")
}

// capped reports whether no more than so many requests may be in flight of those that leave by the clock.
func (p *pacing) capped() bool { return p.concurrency > 0 && !p.closed() }

// timed reports whether requests leave at trace times.
func (p *pacing) timed() bool { return !p.closed() && p.arrivals == nil && p.rate != rateMax }

// plan returns when each request of a trace leaves.
func (p *pacing) plan(t *trace.Trace) (plan sched.Plan, err error) {
	switch {
	case p.closed():
		return sched.Closed(t.Len(), max(p.lanes, p.concurrency), p.duration)
	case p.rate == rateMax:
		return sched.AtOnce(t.Len(), p.duration), nil
	case p.arrivals != nil:
		plan, err = sched.FromArrivals(t.Len(), *p.arrivals, p.duration)
	default:
		plan, err = sched.FromTrace(t.ArrivalNS, p.scale, p.duration)
	}
	if err != nil || p.concurrency == 0 {
		return plan, err
	}
	return plan.Capped(p.concurrency)
}

// words describes what decides when requests are sent.
func (p *pacing) words() string {
	a := p.arrivals
	switch {
	case p.lanes > 0:
		return format.Many(p.lanes, "lane")
	case p.closed():
		return fmt.Sprintf("closed loop of %d", p.concurrency)
	case p.rate == rateMax:
		return "all at once"
	case a == nil:
		return metrics.TraceTime
	}
	rate := format.Rate(a.Rate.To) + " requests/s"
	if a.Rate.Over > 0 {
		rate = fmt.Sprintf("%s to %s over %v", format.Rate(a.Rate.From), rate, a.Rate.Over)
	}
	switch a.Process {
	case sched.Poisson:
		rate += ", Poisson"
	case sched.Gamma:
		rate += fmt.Sprintf(", gamma of burstiness %g", a.Burstiness)
	}
	return rate
}

// summary returns the rate as the results have it; nil without one.
func (p *pacing) summary() *metrics.Arrival {
	a := p.arrivals
	if a == nil {
		return nil
	}
	s := &metrics.Arrival{Process: string(a.Process), FromPerS: a.Rate.From, PerS: a.Rate.To, RampS: a.Rate.Over.Seconds()}
	if a.Process == sched.Gamma {
		s.Burstiness = &a.Burstiness
	}
	if a.Process != sched.Constant {
		s.Seed = &a.Seed
	}
	return s
}

// load is a trace with the times at which its requests are sent. The steps that follow fill in the rest of the work.
type load struct {
	*workload.Work
	verbatims verbatims
	selected  int              // rows of the file that are replayed, before --amplify and --repeat
	amplify   *metrics.Amplify // nil if the load is as recorded
	seconds   float64          // that reading took
}

// readTrace reads the trace, decides when its requests are sent and which API they use, and prints that.
func readTrace(ctx context.Context, o *options, ui *terminal) (*load, error) {
	l := &load{Work: new(workload.Work)}
	if err := l.read(ctx, o, ui); err != nil {
		return l, err
	}
	if err := l.plan(o, ui); err != nil {
		return l, err
	}
	if o.route == routeSession && l.Trace.Session == nil {
		return l, errors.New("--route session: the trace has no conversations")
	}
	if err := l.chooseAPI(o, ui); err != nil {
		return l, err
	}
	l.announce(o, ui)
	return l, nil
}

// free gives the memory of the requests back, if they were built.
func (l *load) free() {
	if l.Prebuilt != nil {
		_ = l.Prebuilt.Free()
	}
}

// read reads the trace and makes as much of it as was asked for.
func (l *load) read(ctx context.Context, o *options, ui *terminal) error {
	began := time.Now()
	var counted string
	t, err := await(ctx, func() (*trace.Trace, error) {
		t, err := o.openTraces()
		if err == nil {
			t, counted, err = countAnswers(t, o.tokenizer)
		}
		return t, err
	})
	if err != nil {
		return err
	}
	if err := checkLengths(o.line, t); err != nil {
		return err
	}
	l.selected = t.Len()
	if o.maxBytes > 0 {
		if err := o.amplify.checkHeld(t, allowance{o.maxBytes, "--max-memory"}); err != nil {
			return err
		}
	}
	if t, l.amplify, err = o.amplify.apply(t, o.seed); err != nil {
		return err
	}
	requests := float64(o.repeat) * float64(t.Len())
	if free, err := freeAllowance(0); err == nil && o.repeat > 1 {
		if err := free.refuse("--repeat", o.repeat, requests, requests*peakPerRequest); err != nil {
			return err
		}
	}
	if l.Trace, err = t.Repeat(o.repeat); err != nil {
		return fmt.Errorf("--repeat: %w", err)
	}
	l.seconds = time.Since(began).Seconds()
	for _, note := range l.Trace.Lint.Notes() {
		ui.note("trace: %s", note)
	}
	if doubt := l.Trace.Lint.UnitDoubt; doubt != "" && ui.quiet { // what is said of this load may be true of no other
		ui.alert("trace: %s", doubt)
	}
	if counted != "" {
		if o.tokenizer == "" {
			counted += "; name the model's own with --tokenizer"
		}
		ui.note("trace: %s", counted)
	}
	if n := o.read.Limit; n > l.selected {
		ui.note("--limit is %d, and the selection has %s; --repeat N replays it N times", n, format.Many(l.selected, "request"))
	}
	return nil
}

// checkLengths refuses AIPerf's names of a length for answers if the trace leaves any open: none is made up here.
func checkLengths(line *compat.Line, t *trace.Trace) error {
	for _, name := range []string{"osl", "output-tokens-mean", "prompt-output-tokens-mean"} {
		for i := range t.Len() {
			if line.Given(name) && t.OutputTokens[i] == 0 && t.Verbatim(i).Kind != trace.VerbatimPayload {
				return fmt.Errorf("--%s: row %d says no length of its answer, and none is made up here; give all the same with --no-force-output --extra-inputs max_tokens:N", name, t.Row[i])
			}
		}
	}
	return nil
}

// plan decides when each request leaves.
func (l *load) plan(o *options, ui *terminal) error {
	t := l.Trace
	if o.line.Profile {
		for _, note := range append(paceLikeAIPerf(o, t), talkLikeAIPerf(o, t)...) {
			ui.note("%s", note)
		}
	}
	ordered := o.sessions.mode == sessionsThink && t.HasDependencies() // also without times
	if t.Untimed && o.pacing.timed() && !ordered {
		return fmt.Errorf("%s: no row says when it arrived; say when requests leave, with --rate R, --rate max, --ramp or --concurrency N", t.Name)
	}
	if o.sessions.idle.most > 0 && !o.pacing.timed() && !o.sessions.thinks() {
		return errors.New("--idle-cap shortens the trace's times, which --rate, --ramp and --concurrency ignore; leave it out, or give --sessions think")
	}
	t, cuts := o.capIdle(t)
	l.Trace = t
	plan, err := o.pacing.plan(t)
	if err != nil {
		return err
	}
	if plan, err = o.follow(plan, t, &cuts); err != nil {
		return fmt.Errorf("--sessions %s: %w", o.sessions.mode, err)
	}
	if cuts != nil {
		ui.note("--idle-cap: %s", strings.Join(cuts, "; "))
	}
	if plan.Requests == 0 {
		return errors.New("the selection is empty: no request lies within --duration")
	}
	if t.HasDependencies() && o.sessions.mode == sessionsStrict && !o.given("sessions") {
		ui.note("requests of this trace depend on others, and none waits for them here (--sessions strict): gated waits, think keeps the recorded delays, lanes=N runs N whole jobs at a time")
	}
	if t.DelayNS != nil && !o.pacing.timed() && !o.sessions.thinks() {
		ui.note("the trace's delays are ignored, as its times are; --sessions %s keeps them", sessionsThink)
	}
	l.Plan = plan
	if o.sender == senderProcess { // refused before anything is built
		if err := engine.CheckSenderProcess(&plan, o.route == routeLeastInFlight, o.sessions.past == historyLive); err != nil {
			return fmt.Errorf("--sender %s: %w", senderProcess, err)
		}
	}
	return nil
}

// announce prints what was read.
func (l *load) announce(o *options, ui *terminal) {
	t, sent := l.Trace, min(l.Plan.Requests, l.selected)
	units := "no timestamps"
	if !t.Untimed {
		units = "timestamps in " + trace.UnitName(t.TimeUnit)
	}
	if t.BlockRefs() > 0 {
		units += fmt.Sprintf(", %d tokens a block", t.BlockTokens)
	}
	ui.detail("trace: %s, read as %s (%s): %s of %s rows in %s",
		t.Name, t.Format, units, format.Count(sent), format.Count(t.FileRows), format.Seconds(l.seconds))
	if ui.verbose {
		ui.amplified(l.amplify)
	}
	if n := o.repeat; n > 1 {
		ui.detail("      %d times in a row: from the second time on the servers' caches may hold all of it", n)
	}
}

// countAnswers counts the tokens of recorded answers where the file does not, with the named tokenizer, or
// the built-in one for "". It returns what it did as a note, "" if there was nothing to count.
func countAnswers(t *trace.Trace, name string) (counted *trace.Trace, said string, err error) {
	answers := int64(t.Uncounted())
	if answers == 0 {
		return t, "", nil
	}
	name = cmp.Or(name, tokenizer.CL100K)
	began := time.Now()
	tok, err := tokenizer.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("--tokenizer %s: %w", name, err)
	}
	counted, err = t.CountAnswers(func(text []byte) (int, error) { return tok.Count(string(text), false) })
	if err != nil {
		return nil, "", err
	}
	return counted, fmt.Sprintf("the tokens of %s were counted with %s in %s",
		format.Many(answers, "recorded answer"), name, format.Duration(time.Since(began), 2)), nil
}

// sessionMode says when requests that depend on others leave, such as the turns of a conversation.
type sessionMode string

const (
	sessionsStrict sessionMode = "strict" // each at its own instant
	sessionsGated  sessionMode = "gated"  // not before those that it depends on have ended
	sessionsThink  sessionMode = "think"  // the recorded time after those have ended
	sessionsLanes  sessionMode = "lanes"  // likewise, in jobs of which so many run at a time
)

// sessionFlags are about conversations and jobs.
type sessionFlags struct {
	mode  sessionMode
	lanes int    // with sessionsLanes
	past  string // recorded or live
	idle  idleCap
	told  string // free or exact answers
}

// idleCap is the longest idle time, at the speed of the replay; 0 = any.
type idleCap struct {
	most   time.Duration
	system bool // of all jobs together, not of each
}

// parseIdleCap reads TIME or system=TIME; a number without a unit is seconds.
func parseIdleCap(text string) (c idleCap, err error) {
	if rest, system := strings.CutPrefix(text, "system="); system {
		text, c.system = rest, true
	}
	if err = (seconds{&c.most}).Set(text); err != nil || c.most <= 0 {
		return c, errors.New("want a time above 0 or system=TIME, such as 10s or system=10s")
	}
	return c, nil
}

// atRun reports whether idle times are cut as they come: when nothing is in flight is known only during the run.
func (s *sessionFlags) atRun() bool { return s.idle.system && s.thinks() }

// parseSessions reads strict, gated, think or lanes=N.
func (o *options) parseSessions(text string) (sessionMode, error) {
	word, number, counted := strings.Cut(text, "=")
	mode, lanes := sessionMode(word), 0
	switch {
	case mode == sessionsLanes:
		n, err := strconv.Atoi(number)
		if lanes = n; err != nil || n < 1 {
			return "", errors.New("want lanes=N with a whole number of at least 1, such as lanes=8")
		}
	case counted || !slices.Contains([]sessionMode{sessionsStrict, sessionsGated, sessionsThink}, mode):
		return "", suggest(errors.New("want strict, gated, think or lanes=N"), word, sessionWords())
	}
	o.sessions.lanes, o.pacing.lanes = lanes, lanes
	return mode, nil
}

// sessionWords are how values of --sessions begin.
func sessionWords() []string {
	return []string{string(sessionsStrict), string(sessionsGated), string(sessionsThink), string(sessionsLanes) + "="}
}

// checkSessions refuses what cannot be meant.
func (o *options) checkSessions() error {
	s, p := &o.sessions, &o.pacing
	if p.concurrency == p.lanes { // two names of one thing
		p.concurrency = 0
	}
	switch {
	case o.given("assume") && !s.thinks() && s.idle.most == 0 && o.route != routePrefix:
		return fmt.Errorf("--assume is about --sessions %s and %s, --idle-cap and --route %s", sessionsThink, sessionsLanes, routePrefix)
	case p.lanes > 0 && (p.concurrency > 0 || p.rate != "" || p.ramp != "" || p.fixed):
		return fmt.Errorf("--sessions %s: a job starts when another one has ended; leave out --concurrency, --rate, --ramp and --fixed-schedule", sessionsLanes)
	case s.mode != sessionsStrict && p.capped():
		return fmt.Errorf("--sessions %s: a cap holds requests back in their order, so none can wait for another; leave out --concurrency, or what it is beside", s.mode)
	}
	return o.assumed.Validate()
}

// thinks reports whether requests leave some time after what they depend on.
func (s *sessionFlags) thinks() bool { return s.mode == sessionsThink || s.mode == sessionsLanes }

// capIdle moves the trace's instants so that its idle times are no longer than --idle-cap, and says what that cut.
func (o *options) capIdle(t *trace.Trace) (*trace.Trace, []string) {
	idle := o.sessions.idle
	if idle.most == 0 || o.sessions.atRun() || !o.pacing.timed() && o.sessions.lanes == 0 {
		return t, nil
	}
	t, cut := workload.CapIdle(t, int64(float64(idle.most)*o.pacing.scale), idle.system, o.assumed)
	if cut.Gaps == 0 {
		return t, []string{fmt.Sprintf("no idle time is longer than %v: nothing is cut", idle.most)}
	}
	of := map[bool]string{true: "the whole trace", false: "single jobs"}[idle.system]
	return t, []string{fmt.Sprintf("%s of %s of more than %v cut, by %s in all at recorded speed; the trace's span is %s, was %s", format.Many(cut.Gaps, "idle time"), of,
		idle.most, format.Span(float64(cut.CutNS)/1e9), format.Span(float64(cut.SpanNS)/1e9), format.Span(float64(cut.FromNS)/1e9))}
}

// follow makes requests of the plan wait for each other, as far as the mode has it. It adds to cuts what it cut of delays.
func (o *options) follow(plan sched.Plan, t *trace.Trace, cuts *[]string) (sched.Plan, error) {
	if o.sessions.mode == sessionsStrict {
		return plan, nil
	}
	pause := workload.FollowPolicy{Think: o.sessions.thinks(), Bounded: o.pacing.timed(), Jobs: o.pacing.lanes > 0, Speed: o.pacing.scale, Assumed: o.assumed}
	turns := pause.Dependencies(t, plan.Requests)
	if most := o.sessions.idle.most; o.sessions.atRun() {
		turns.IdleNS = int64(most)
		*cuts = append(*cuts, fmt.Sprintf("whenever nothing is in flight for %v, all that is still to come comes earlier; the summary says by how much", most))
	} else if n, cut := workload.CapDelays(turns, cmp.Or(int64(most), math.MaxInt64)); n > 0 {
		*cuts = append(*cuts, fmt.Sprintf("%s of more than %v that the trace has between requests shortened, by %s in all at replay speed",
			format.Many(n, "delay"), most, format.Span(float64(cut)/1e9)))
	}
	if len(turns.List) == 0 && turns.Job == nil {
		return plan, errors.New("no request of the selection depends on another; leave it out")
	}
	plan.Concurrency = min(plan.Concurrency, cmp.Or(turns.Jobs(), plan.Concurrency))
	return plan.Following(turns)
}

// String is the mode as it is given.
func (s *sessionFlags) String() string {
	if s.lanes > 0 {
		return fmt.Sprintf("%s=%d", s.mode, s.lanes)
	}
	return string(s.mode)
}

// words describes when requests that depend on others leave.
func (s *sessionFlags) words() string {
	switch s.mode {
	case sessionsThink:
		return "requests leave the recorded time after the end of those that they depend on"
	case sessionsLanes:
		return "each lane runs a whole job, and then takes the next; within jobs requests leave the recorded time after the end of those that they depend on"
	}
	return "requests wait for the end of those that they depend on"
}
