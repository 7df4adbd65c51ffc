package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/route"
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
	extra := func() (err error) {
		if o.Extra, err = api.ParseExtra(o.extraInputs); err != nil {
			err = fmt.Errorf("--extra-inputs: %w", err)
		}
		return err
	}
	for _, step := range []func() error{
		o.checkServer,
		o.splitTargets,
		o.completePacing,
		o.checkSessions,
		o.completeGoodput,
		o.completeLimits,
		extra,
		o.checkScrape,
		o.checkShard,
		o.checkStart,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	o.leaveOpen()
	return o.check()
}

// leaveOpen leaves to the setup what nobody has given.
func (o *options) leaveOpen() {
	if !o.isSet("too-long") {
		o.TooLong = ""
	}
	if !o.isSet("api") {
		o.API = ""
	}
	if !o.isSet("resend") {
		o.Resend = ""
	}
	if o.isSet("timeout") {
		o.ProbeTimeout = o.Timeout
	}
	if o.isSet("grace") && o.Pacing.Duration > 0 {
		o.CancelAfter = o.Pacing.Duration + o.Grace
	}
}

// checkServer refuses the name of a server that an unset variable of the shell has left empty, and objectives without a
// server: a run without one is a demo, and they would judge our own mock.
func (o *options) checkServer() error {
	for _, flag := range []string{"url", "targets", "endpoint"} { // the last may be the URL, as trace-replayer has it
		text := map[string]string{
			"url":      strings.Join(o.URLs, ","),
			"targets":  o.targetsFile,
			"endpoint": o.Endpoint,
		}[flag]
		if !o.isSet(flag) || flag == "endpoint" && len(o.URLs) > 0 {
			continue
		}
		if err := checkNotEmpty(flag, text); err != nil {
			return err
		}
	}
	if len(o.URLs) > 0 || o.targetsFile != "" || o.DryRun {
		return nil
	}
	for _, gate := range []string{"require", "max-error-rate", "goodput"} {
		if o.isSet(gate) {
			return fmt.Errorf(
				"--%s judges a server, and none is named: it would judge the embedded mock; name it, as in "+
					"`fastreplay FILE --url HOST:PORT`",
				gate,
			)
		}
	}
	return nil
}

// completeGoodput reads the bounds of goodput. It refuses an objective on goodput in a run that has none to count it
// by: it would be missed after the whole run.
func (o *options) completeGoodput() (err error) {
	if o.SLOs, err = o.goodput.parse(); err != nil || len(o.SLOs) > 0 {
		return err
	}
	for _, text := range o.require {
		if name, _, _, err := metrics.ParseRequirement(text); err == nil && name == "goodput" {
			return fmt.Errorf(
				"--require %q needs the bounds that goodput counts by; give them, as in --goodput \"ttft:500ms\"",
				text,
			)
		}
	}
	return nil
}

// splitTargets takes several servers with commas between them, as others do, but only one model.
func (o *options) splitTargets() error {
	if strings.Contains(o.Model, ",") {
		return fmt.Errorf("--model %q: several models; want one", o.Model)
	}
	var urls []string
	for _, text := range o.URLs {
		for url := range strings.SplitSeq(text, ",") {
			urls = append(urls, strings.TrimSpace(url))
		}
	}
	o.URLs = urls
	return o.readTargets()
}

// readTargets adds the servers that a file names to those of --url, with their weights.
func (o *options) readTargets() error {
	o.Weights = slices.Repeat([]float64{1}, len(o.URLs))
	if o.targetsFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.targetsFile)
	if err != nil {
		return fmt.Errorf("--targets: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		weight := 1.0
		if len(fields) > 1 {
			weight, err = strconv.ParseFloat(fields[1], 64)
		}
		if err != nil || len(fields) > 2 || !(weight > 0) || math.IsInf(weight, 0) {
			return fmt.Errorf(
				"--targets %s:%d: want a URL and perhaps a weight above 0 on each line",
				o.targetsFile, number,
			)
		}
		o.URLs, o.Weights = append(o.URLs, fields[0]), append(o.Weights, weight)
	}
	if len(o.URLs) == 0 {
		return fmt.Errorf("--targets %s: no server in it; want a URL on each line", o.targetsFile)
	}
	return nil
}

// completePacing checks when requests leave, and reads what --rate and --ramp say.
func (o *options) completePacing() (err error) {
	if err = o.checkPacing(); err != nil {
		return err
	}
	p := &o.pace
	o.Pacing.KeepTimes, o.Pacing.AtOnce = p.fixed || o.isSet("scale"), p.rate == rateMax
	if p.ramp == "" && (p.rate == "" || p.rate == rateMax) {
		return nil
	}
	a, flag := sched.Arrivals{Seed: o.Seed}, "rate"
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
	o.Pacing.Arrivals = &a
	return nil
}

// checkPacing refuses what contradicts itself.
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
	case o.isSet("arrival") && (!rated || p.rate == rateMax):
		return errors.New("--arrival spaces requests at a rate; give one with --rate R or --ramp")
	}
	return nil
}

// checkSessions refuses what cannot be meant.
func (o *options) checkSessions() error {
	s, p, pace := &o.Sessions, &o.Pacing, &o.pace
	if p.Concurrency == p.Lanes { // two names of one thing
		p.Concurrency = 0
	}
	switch {
	case o.isSet("assume-latency") && !s.Thinks() && s.Idle.Most == 0 && o.Route != setup.RoutePrefix:
		return fmt.Errorf(
			"--assume-latency is about --sessions %s and %s, --idle-cap and --route %s",
			setup.SessionsThink, setup.SessionsLanes, setup.RoutePrefix,
		)
	case p.Lanes > 0 && (p.Concurrency > 0 || pace.rate != "" || pace.ramp != "" || pace.fixed):
		return fmt.Errorf(
			"--sessions %s: a job starts when another one has ended; leave out --concurrency, --rate, --ramp and "+
				"--fixed-schedule",
			setup.SessionsLanes,
		)
	case s.Waits() && p.Capped():
		return fmt.Errorf(
			"--sessions %s: a cap holds requests back in their order, so none can wait for another; leave out "+
				"--concurrency, or what it is beside",
			s.Mode,
		)
	}
	return o.Assumed.Validate()
}

// completeLimits checks what the user accepts and demands of a run.
func (o *options) completeLimits() error {
	for _, limit := range []struct {
		flag string
		most time.Duration
	}{{"max-drift", o.maxDrift}, {"max-receive-lag", o.maxLag}} {
		if o.isSet(limit.flag) && limit.most <= 0 {
			return fmt.Errorf(
				"--%s %v: want a time above 0; leave it out to have lateness judged by what it changes",
				limit.flag, limit.most,
			)
		}
	}
	if o.isSet("duration") && o.Pacing.Duration <= 0 {
		return fmt.Errorf("--duration %v: want a time above 0; leave it out to send all", o.Pacing.Duration)
	}
	if o.isSet("max-error-rate") {
		if !(o.maxErrorRate >= 0 && o.maxErrorRate <= 1) {
			return fmt.Errorf("--max-error-rate %v: want a share of 0..1", o.maxErrorRate)
		}
		o.Limits.MaxErrorRate = &o.maxErrorRate
	}
	o.Limits.MaxDriftNS, o.Limits.MaxReceiveLagNS = metrics.AsMS(o.maxDrift), metrics.AsMS(o.maxLag)
	o.Limits.ForcedOutput, o.Limits.Require = !o.NoForceOutput, o.require
	return o.requirements.check()
}

func (o *options) checkScrape() error {
	f := &o.Scrape
	switch {
	case f.Interval < leastScrapeInterval:
		return fmt.Errorf("--scrape-interval is %v; want at least %v", f.Interval, leastScrapeInterval)
	case f.Mode == setup.ScrapeOff && (len(f.URLs) > 0 || o.isSet("scrape-interval")):
		return errors.New("--scrape-url, --scrape-interval: --scrape is off")
	}
	for _, url := range f.URLs {
		if _, err := probe.ParseScrapeTarget(url); err != nil {
			return err
		}
	}
	return nil
}

// leastScrapeInterval keeps a server from being asked more than it can bear.
const leastScrapeInterval = 100 * time.Millisecond

// checkShard refuses what shards cannot do together, and leaves warm-up and the servers' metrics to shard 0.
func (o *options) checkShard() error {
	if !o.IsShard() {
		return nil
	}
	switch inFlight := max(o.Pacing.Concurrency, o.Pacing.Lanes); {
	case len(o.URLs) == 0:
		return errors.New("--shard: shards need a server that all of them reach; give it with --url")
	case o.start.at.IsZero() && o.Barrier == "" && o.Shard.Count > 1 && !o.DryRun:
		return errors.New(
			"--shard: say when all shards begin: with --start-barrier, or with --start-at, the same moment for all",
		)
	case o.Sessions.AtRun():
		return errors.New(
			"--idle-cap system: no shard knows what others have in flight; cut the idle times of jobs with " +
				"--idle-cap TIME",
		)
	case inFlight > 0 && inFlight < o.Shard.Count:
		return fmt.Errorf(
			"--shard: %d in flight cannot be divided among %d shards; want at least %d",
			inFlight, o.Shard.Count, o.Shard.Count,
		)
	}
	if o.Follows() {
		o.Warmup = 0
		o.Scrape.Mode, o.Scrape.URLs = setup.ScrapeOff, nil
	}
	return nil
}

// checkStart refuses a moment that is over, if no run may be late, and what does not say when shards begin.
func (o *options) checkStart() error {
	switch {
	case o.start.asked && slices.Contains(o.Traces, "-"):
		return errors.New("--start-at - and a trace of -: standard input cannot have both; give the trace as a file")
	case o.Barrier == "":
	case !o.IsShard():
		return errors.New("--start-barrier: it is where shards begin together; say which one this is, with --shard")
	case o.isSet("start-at"):
		return errors.New("--start-barrier and --start-at: give one of them")
	}
	o.StartAt = o.start.at
	return o.CheckLate(o.StartAt)
}

// check refuses what no replay can mean; the options of reading are the trace's own business.
func (o *options) check() error {
	switch {
	case o.Warmup < 0:
		return fmt.Errorf("--warmup is %d; want a number of requests", o.Warmup)
	case o.Timeout <= 0:
		return errors.New("--timeout must be above 0")
	case o.IdleTimeout <= 0 || o.ConnectTimeout <= 0:
		return errors.New("--idle-timeout and --connect-timeout must be above 0")
	case slices.ContainsFunc(o.Headers, func(h string) bool { return !strings.Contains(h, ":") }):
		return errors.New("--header: one has no colon; want NAME: VALUE")
	case o.Key != "" && o.APIKeyFile != "":
		return errors.New("--api-key and --api-key-file exclude each other")
	case o.Senders < 1 || o.Senders > engine.MaxSenders:
		return fmt.Errorf("--senders is %d; want 1 to %d", o.Senders, engine.MaxSenders)
	case o.Senders > 1 && o.Pacing.Concurrency > 0:
		return errors.New("--senders: with --concurrency there is one")
	case o.isSet("verify-prompts") && o.Tokenizer == "":
		return errors.New("--verify-prompts: give the model's own tokenizer with --tokenizer")
	case o.EngineBlockTokens < 0:
		return fmt.Errorf("--engine-block-tokens %d: want at least 1", o.EngineBlockTokens)
	}
	return errors.Join(o.checkInstance(), o.checkRoute(), checkExports(o.Exports))
}

// checkRoute refuses what no router can mean.
func (o *options) checkRoute() error {
	switch {
	case o.LoadBound != 0 && !(o.LoadBound >= 1) || math.IsInf(o.LoadBound, 0):
		return fmt.Errorf(
			"--load-bound %v: want at least 1, such as %v, or 0 for none",
			o.LoadBound, route.DefaultBound,
		)
	case o.isSet("load-bound") && o.Route != setup.RoutePrefix:
		return fmt.Errorf("--load-bound is about --route %s", setup.RoutePrefix)
	case o.Route == setup.RouteLeastInFlight && o.Sessions.History == setup.HistoryLive:
		return fmt.Errorf(
			"--route %s with --history %s: a body that is made of answers is made for the server that it goes to; "+
				"use another router",
			o.Route, setup.HistoryLive,
		)
	}
	return nil
}

// checkInstance refuses headers and fields that cannot exist.
func (o *options) checkInstance() error {
	if !o.isSet("instance-header") {
		o.InstanceHeaders = nil
	}
	for _, name := range o.InstanceHeaders {
		if err := (&http1.Header{Name: name}).Validate(); err != nil {
			return fmt.Errorf("--instance-header %q: %w", name, err)
		}
	}
	if !o.isSet("instance-field") {
		return nil
	}
	if o.InstanceField = strings.Split(o.instanceField, "."); slices.Contains(o.InstanceField, "") {
		return fmt.Errorf(
			"--instance-field %q: want keys with dots between them, such as meta_info.worker",
			o.instanceField,
		)
	}
	return nil
}
