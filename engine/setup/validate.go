package setup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/route"
)

// leastScrapeInterval keeps a server from being asked more than it can bear.
const leastScrapeInterval = 100 * time.Millisecond

// Validate refuses what no load can mean. An error names the flag of the value, and says what to do.
func (o *Options) Validate() error {
	if len(o.Traces) == 0 && o.Open == nil {
		return errors.New("no trace; give one with --trace")
	}
	for _, check := range []func() error{
		o.checkWords, o.checkTarget, o.checkPacing, o.checkPlays,
		o.checkScrape, o.checkShard, o.checkRoute, o.checkNumbers,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// OneOf refuses the value of a flag that is none of its words.
func OneOf[T ~string](flag string, value T, words ...T) error {
	if slices.Contains(words, value) {
		return nil
	}
	var all []string
	for _, word := range words {
		if word != "" {
			all = append(all, string(word))
		}
	}
	return fmt.Errorf("--%s %q: want one of %s", flag, string(value), strings.Join(all, ", "))
}

func (o *Options) checkWords() error {
	return errors.Join(
		OneOf("too-long", o.TooLong, "", TooLongRefuse, TooLongDrop, TooLongClip, TooLongSend),
		OneOf("sessions", o.Sessions.Mode, "", SessionsStrict, SessionsGated, SessionsThink, SessionsLanes),
		OneOf("history", o.Sessions.History, HistoryRecorded, HistoryLive),
		OneOf("route", o.Route, Routes()...),
		OneOf("resend", o.Resend, "", engine.ResendNever, engine.ResendUnread, engine.ResendSafe),
		OneOf("prompt", o.Prompt, "", PromptTokenIDs, PromptText),
		OneOf("cold", o.Cold, probe.ColdAuto, probe.ColdFlush, probe.ColdSalt, probe.ColdOff),
		OneOf("scrape", o.Scrape.Mode, ScrapeAuto, ScrapeOn, ScrapeOff),
		OneOf("sender", o.Sender, SenderAuto, SenderProcess, SenderThread),
	)
}

// checkTarget refuses what no server can be asked with.
func (o *Options) checkTarget() error {
	field, value, _ := strings.Cut(o.Owning.Without, "=")
	switch {
	case o.Owning.Without != "" && (value == "" || !slices.Contains(rows.OwnerFields(), field)):
		return fmt.Errorf("--without %q: want FIELD=VALUE, such as class=free, of %s",
			o.Owning.Without, strings.Join(rows.OwnerFields(), " "))
	case strings.Contains(o.Model, ","):
		return fmt.Errorf("--model %q: several models; want one", o.Model)
	case slices.ContainsFunc(o.Headers, func(h string) bool { return !strings.Contains(h, ":") }):
		return errors.New("--header: one has no colon; want NAME: VALUE")
	case o.Key != "" && o.APIKeyFile != "":
		return errors.New("--api-key and --api-key-file exclude each other")
	}
	if o.Extra == nil {
		return nil
	}
	if _, err := api.ParseExtra([]string{string(o.Extra)}); err != nil {
		return fmt.Errorf("--extra-inputs: %w", err)
	}
	return nil
}

// checkPacing refuses what contradicts itself of when requests leave.
func (o *Options) checkPacing() error {
	s := &o.Sessions
	p := &o.Pacing
	if a := p.Arrivals; a != nil {
		flag := "rate"
		if a.Rate.Over > 0 {
			flag = "ramp"
		}
		if err := a.Validate(); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	switch {
	case p.Lanes > 0 && (p.Concurrency > 0 || p.Arrivals != nil || p.AtOnce || p.KeepTimes):
		return fmt.Errorf(
			"--sessions %s: a job starts when another one has ended; leave out --concurrency, --rate, --ramp and "+
				"--fixed-schedule",
			SessionsLanes,
		)
	case s.Mode == SessionsLanes != (p.Lanes > 0):
		return fmt.Errorf("--sessions %s: want a number of lanes, at least 1", SessionsLanes)
	case s.Waits() && p.Capped():
		return fmt.Errorf(
			"--sessions %s: a cap holds requests back in their order, so none can wait for another; leave out "+
				"--concurrency, or what it is beside",
			s.Mode,
		)
	case p.Duration < 0:
		return fmt.Errorf("--duration %v: want a time above 0; leave it out to send all", p.Duration)
	}
	return o.Assumed.Validate()
}

func (o *Options) checkScrape() error {
	f := &o.Scrape
	switch {
	case f.Interval < leastScrapeInterval:
		return fmt.Errorf("--scrape-interval is %v; want at least %v", f.Interval, leastScrapeInterval)
	case f.Mode == ScrapeOff && len(f.URLs) > 0:
		return errors.New("--scrape-url, --scrape-interval: --scrape is off")
	}
	for _, url := range f.URLs {
		if _, err := probe.ParseScrapeTarget(url); err != nil {
			return err
		}
	}
	return nil
}

// checkShard refuses what shards cannot do together.
func (o *Options) checkShard() error {
	if !o.IsShard() {
		return nil
	}
	switch inFlight := max(o.Pacing.Concurrency, o.Pacing.Lanes); {
	case len(o.URLs) == 0:
		return errors.New("--shard: shards need a server that all of them reach; give it with --url")
	case o.Sessions.Idle.System && o.Sessions.Thinks():
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
	return nil
}

// checkRoute refuses what no router can mean.
func (o *Options) checkRoute() error {
	switch {
	case o.LoadBound != 0 && !(o.LoadBound >= 1) || math.IsInf(o.LoadBound, 0):
		return fmt.Errorf(
			"--load-bound %v: want at least 1, such as %v, or 0 for none",
			o.LoadBound, route.DefaultBound,
		)
	case o.routesLate() && o.Sessions.History == HistoryLive:
		return fmt.Errorf(
			"--history %s: a body that is made of answers is made for the server that it goes to; use another router "+
				"than %s, and no targets that come and go",
			HistoryLive, RouteLeastInFlight,
		)
	}
	return nil
}

// checkNumbers refuses numbers and times that are out of bounds.
func (o *Options) checkNumbers() error {
	rate := o.Limits.MaxErrorRate
	switch {
	case o.Repeat < 1:
		return fmt.Errorf("--repeat is %d; want at least 1", o.Repeat)
	case o.Warmup < 0:
		return fmt.Errorf("--warmup is %d; want a number of requests", o.Warmup)
	case o.Timeout <= 0:
		return errors.New("--timeout must be above 0")
	case o.ConnectTimeout <= 0:
		return errors.New("--idle-timeout and --connect-timeout must be above 0")
	case o.EngineBlockTokens < 0:
		return fmt.Errorf("--engine-block-tokens %d: want at least 1", o.EngineBlockTokens)
	case rate != nil && !(*rate >= 0 && *rate <= 1):
		return fmt.Errorf("--max-error-rate %v: want a share of 0..1", *rate)
	}
	return nil
}
