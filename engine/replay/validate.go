package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/verdict"
	"github.com/fastreplay/fastreplay/sched"
)

// Validate refuses what no run can mean; Run and Plan call it first. An error names the flag of the value, and says
// what to do.
func (c *Config) Validate() error {
	for _, check := range []func() error{
		c.checkObjectives, c.checkEnd, c.Options.Validate, c.checkStart, c.checkSending, c.checkInstance,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := export.Check(c.Exports); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// checkObjectives refuses objectives without a server: a run without one is a demo, and they would judge our own mock.
// It refuses an objective on goodput in a run that has none to count it by: it would be missed after the whole run.
func (c *Config) checkObjectives() error {
	gate := ""
	switch {
	case len(c.Limits.Require) > 0:
		gate = "require"
	case c.Limits.MaxErrorRate != nil:
		gate = "max-error-rate"
	case c.Limits.AbortIf != "":
		gate = "abort-if"
	case len(c.SLOs) > 0:
		gate = "goodput"
	}
	if gate != "" && len(c.URLs) == 0 && !c.DryRun {
		return fmt.Errorf(
			"--%s judges a server, and none is named: it would judge the embedded mock; name it, as in "+
				"`fastreplay FILE --url HOST:PORT`",
			gate,
		)
	}
	for _, text := range c.Limits.Require {
		name, _, _, err := verdict.ParseRequirement(text)
		if err != nil {
			return fmt.Errorf("--require %w", err)
		}
		if _, _, name = rows.CutOwner(name); name == "goodput" && len(c.SLOs) == 0 {
			return fmt.Errorf(
				"--require %q needs the bounds that goodput counts by; give them, as in --goodput \"ttft:500ms\"",
				text,
			)
		}
	}
	return nil
}

// checkEnd refuses what cannot end a run early.
func (c *Config) checkEnd() error {
	early := ""
	if text := c.Limits.Until; text != "" {
		early = "--until"
		if _, err := collect.ParseUntil(text); err != nil {
			return fmt.Errorf("--until %w", err)
		}
	}
	if text := c.Limits.AbortIf; text != "" {
		early = "--abort-if"
		if _, err := collect.ParseLoss(text, 1, 0); err != nil {
			return fmt.Errorf("--abort-if %w", err)
		}
	}
	if early != "" && c.IsShard() {
		return fmt.Errorf("%s: no shard knows what the others measure; leave it out, or leave out --shard", early)
	}
	return nil
}

// checkStart refuses what does not say when shards begin, and a moment that is over if no run may be late.
func (c *Config) checkStart() error {
	switch {
	case c.IsShard() && c.StartAt.IsZero() && c.Barrier == "" && c.Shard.Count > 1 && !c.DryRun:
		return errors.New(
			"--shard: say when all shards begin: with --start-barrier, or with --start-at, the same moment for all",
		)
	case c.Barrier != "" && !c.IsShard():
		return errors.New("--start-barrier: it is where shards begin together; say which one this is, with --shard")
	case c.Barrier != "" && (!c.StartAt.IsZero() || c.AskStart != nil):
		return errors.New("--start-barrier and --start-at: give one of them")
	}
	if err := setup.OneOf("late-start", c.LateStart, "", shard.LateFail, shard.LateJoin); err != nil {
		return err
	}
	return c.CheckLate(c.StartAt)
}

// checkSending refuses what no sender can do.
func (c *Config) checkSending() error {
	switch {
	case c.IdleTimeout <= 0:
		return errors.New("--idle-timeout and --connect-timeout must be above 0")
	case c.Senders < 1 || c.Senders > engine.MaxSenders:
		return fmt.Errorf("--senders is %d; want 1 to %d", c.Senders, engine.MaxSenders)
	case c.Senders > 1 && c.Pacing.Concurrency > 0:
		return errors.New("--senders: with --concurrency there is one")
	}
	return errors.Join(
		setup.OneOf("realtime", c.Realtime, sched.RealtimeAuto, sched.RealtimeOn, sched.RealtimeOff),
		setup.OneOf("kernel-timestamps", c.Stamps, StampsAuto, StampsOn, StampsOff, StampsSent, StampsRing),
	)
}

// checkInstance refuses headers and fields that cannot exist.
func (c *Config) checkInstance() error {
	for _, name := range c.InstanceHeaders {
		if err := (&http1.Header{Name: name}).Validate(); err != nil {
			return fmt.Errorf("--instance-header %q: %w", name, err)
		}
	}
	if slices.Contains(c.InstanceField, "") {
		return fmt.Errorf(
			"--instance-field %q: want keys with dots between them, such as meta_info.worker",
			strings.Join(c.InstanceField, "."),
		)
	}
	return nil
}
