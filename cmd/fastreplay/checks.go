package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/actions"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/sched"
)

// usageHint is what to type, for who gave no trace.
const usageHint = `no trace; give one with: fastreplay FILE --url HOST:PORT
Or type one of these:
  fastreplay demo           a run in 6 s that needs no file and no server
  fastreplay inspect FILE   what is in a trace, without traffic
  fastreplay doctor         what this machine lacks for punctual runs
  fastreplay --help         the first flags; --version is the version
  fastreplay help           every command, and the manual`

// complete checks the flags against each other and fills in what depends on others.
func (o *options) complete(args []string) error {
	if len(args) > 0 {
		if len(o.Traces) > 0 || len(args) > 1 {
			return fmt.Errorf(
				"unexpected argument %q: one trace as `fastreplay FILE`, several as --trace FILE --trace FILE",
				args[len(args)-1],
			)
		}
		o.Traces = args
	}
	if len(o.Traces) == 0 {
		return errors.New(usageHint)
	}
	for _, step := range []func() error{
		o.checkNames, o.readTargets, o.completePacing, o.completeLimits, o.completeStart,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if o.isSet("timeout") {
		o.ProbeTimeout = o.Timeout
	}
	if o.isSet("grace") && o.Pacing.Duration > 0 {
		o.CancelAfter = o.Pacing.Duration + o.Grace
	}
	if !o.isSet("instance-header") {
		o.InstanceHeaders = nil
	}
	if o.isSet("instance-field") {
		o.InstanceField = strings.Split(o.instanceField, ".")
	}
	if err := o.Validate(); err != nil {
		return suggestName(err)
	}
	return o.checkIdle()
}

// checkNames refuses the name of a server, or an end of a run, that an unset variable of the shell has left empty.
func (o *options) checkNames() error {
	for _, name := range []struct{ flag, text string }{
		{"url", strings.Join(o.URLs, ",")}, {"targets", o.targetsFile},
		{"endpoint", o.Endpoint}, // which may be the URL, as trace-replayer has it
		{"until", o.Limits.Until}, {"abort-if", o.Limits.AbortIf},
	} {
		if !o.isSet(name.flag) || name.flag == "endpoint" && len(o.URLs) > 0 {
			continue
		}
		if err := checkNotEmpty(name.flag, name.text); err != nil {
			return err
		}
	}
	return nil
}

// checkIdle refuses flags that would have no effect beside the others.
func (o *options) checkIdle() error {
	s := &o.Sessions
	for _, idle := range []struct {
		flag   string
		effect bool
		why    string
	}{
		{"assume-latency", s.Thinks() || s.Idle.Most > 0 || o.Route == setup.RoutePrefix,
			" is about --sessions think and lanes, --idle-cap and --route prefix"},
		{"scrape-interval", o.Scrape.Mode != setup.ScrapeOff, ": --scrape is off"},
		{"verify-prompts", o.Tokenizer != "", ": give the model's own tokenizer with --tokenizer"},
		{"load-bound", o.Route == setup.RoutePrefix, " is about --route prefix"},
		{"arrival", o.Pacing.Arrivals != nil, " spaces requests at a rate; give one with --rate R or --ramp"},
	} {
		if o.isSet(idle.flag) && !idle.effect {
			return fmt.Errorf("--%s%s", idle.flag, idle.why)
		}
	}
	return nil
}

// readTargets adds the servers that a file names to those of --url, with their weights.
func (o *options) readTargets() error {
	if len(o.URLs) > 0 { // each may be several with commas between them, as others have it
		o.URLs = each(strings.Split(strings.Join(o.URLs, ","), ","), strings.TrimSpace)
	}
	o.Weights = slices.Repeat([]float64{1}, len(o.URLs))
	if o.targetsFile == "" {
		return nil
	}
	source, watched := strings.CutPrefix(o.targetsFile, setup.WatchPrefix)
	if watched = watched || strings.HasPrefix(source, setup.DNSPrefix); watched {
		o.WatchTargets = source
	}
	if watched && len(o.URLs) > 0 {
		return errors.New("--targets " + o.targetsFile + " names all servers; put those of --url there")
	}
	urls, weights, err := setup.ReadTargets(context.Background(), source, watched)
	if err != nil {
		return fmt.Errorf("--targets: %w", err)
	}
	o.URLs, o.Weights = append(o.URLs, urls...), append(o.Weights, weights...)
	return nil
}

// completePacing reads when requests leave.
func (o *options) completePacing() (err error) {
	if err = o.checkPacing(); err != nil {
		return err
	}
	p := &o.pace
	load := &o.Pacing
	if load.Concurrency == load.Lanes { // two names of one thing
		load.Concurrency = 0
	}
	load.KeepTimes = p.fixed || o.isSet("scale") && load.Lanes == 0
	load.AtOnce = p.rate == rateMax
	a := sched.Arrivals{Seed: o.Seed}
	switch {
	case p.ramp != "":
		a.Rate, err = parseRamp(p.ramp)
	case p.rate == "" || load.AtOnce:
		return nil
	default:
		a.Rate, err = parseRate(p.rate)
	}
	load.Arrivals = &a
	return cmp.Or(err, setProcess(&a, p.arrival, sched.Constant))
}

// checkPacing refuses flags that contradict each other.
func (o *options) checkPacing() error {
	p := &o.pace
	rated := p.rate != "" || p.ramp != ""
	switch {
	case p.fixed && p.notFixed:
		return errors.New("--fixed-schedule and --no-fixed-schedule exclude each other")
	case p.rate != "" && p.ramp != "":
		return errors.New("--rate and --ramp exclude each other")
	case p.fixed && rated:
		return errors.New("--fixed-schedule sends at trace times, which --rate and --ramp ignore")
	case o.isSet("scale") && (rated || p.notFixed):
		return errors.New("--scale is about trace times, which --rate, --ramp and --no-fixed-schedule ignore")
	case p.notFixed && !rated && o.Pacing.Concurrency == 0:
		return errors.New(
			"--no-fixed-schedule ignores trace times; say when requests leave, with --rate R, --rate max, --ramp or " +
				"--concurrency N",
		)
	}
	return nil
}

// completeLimits reads what the user accepts and demands of a run, and how its requests count.
func (o *options) completeLimits() (err error) {
	if o.Actions, err = actions.Parse(o.actions); err != nil {
		return err
	}
	if o.SLOs, err = o.goodput.parse(); err != nil {
		return err
	}
	if o.Extra, err = api.ParseExtra(o.extraInputs); err != nil {
		return fmt.Errorf("--extra-inputs: %w", err)
	}
	const byEffect = "leave it out to have lateness judged by what it changes"
	for _, limit := range []struct {
		flag    string
		most    time.Duration
		without string
	}{
		{"max-drift", time.Duration(o.Limits.MaxDriftNS), byEffect},
		{"max-receive-lag", time.Duration(o.Limits.MaxReceiveLagNS), byEffect},
		{"duration", o.Pacing.Duration, "leave it out to send all"},
	} {
		if o.isSet(limit.flag) && limit.most <= 0 {
			return fmt.Errorf("--%s %v: want a time above 0; %s", limit.flag, limit.most, limit.without)
		}
	}
	if o.isSet("max-error-rate") {
		o.Limits.MaxErrorRate = &o.maxErrorRate
	}
	o.Limits.ForcedOutput = !o.NoForceOutput
	o.Limits.Require = o.require
	return o.requirements.check()
}

// completeStart reads when the run begins.
func (o *options) completeStart() error {
	if o.start.asked && slices.Contains(o.Traces, "-") {
		return errors.New("--start-at - and a trace of -: standard input cannot have both; give the trace as a file")
	}
	o.StartAt = o.start.at
	return nil
}
