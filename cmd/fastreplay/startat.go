package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// startMoment is what --start-at says: when the first instant of a run is. The zero value is as soon as it is ready.
type startMoment struct {
	at    time.Time
	asked bool // standard input has the moment
}

func parseStart(text string) (s startMoment, err error) {
	if text == "-" {
		return startMoment{asked: true}, nil
	}
	if s.at, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(text)); err != nil {
		return s, errors.New("want a moment, such as 2026-01-02T15:04:05.5Z, or -")
	}
	return s, nil
}

// checkStart refuses a moment that is over, if no run may be late, and what does not say when shards begin.
func (o *options) checkStart() error {
	switch {
	case o.start.asked && slices.Contains(o.traces, "-"):
		return errors.New("--start-at - and a trace of -: standard input cannot have both; give the trace as a file")
	case o.barrier == "":
	case !o.isShard():
		return errors.New("--start-barrier: it is where shards begin together; say which one this is, with --shard")
	case o.given("start-at"):
		return errors.New("--start-barrier and --start-at: give one of them")
	}
	return o.checkLate(o.start.at)
}

// checkLate refuses a start that is over, if the run may not be late.
func (o *options) checkLate(start time.Time) error {
	late := time.Since(start)
	if start.IsZero() || late < 0 || o.late == shard.LateJoin {
		return nil
	}
	who := "the run"
	if o.isShard() {
		who = fmt.Sprintf("shard %d", o.shard.Index)
	}
	return fmt.Errorf("%s was ready %s after the agreed start at %s; nothing was sent; want a moment to come, or --late %s to send what is still to come",
		who, format.Duration(late, 3), start.Format(time.RFC3339Nano), shard.LateJoin)
}

// join waits for shard 0 at the barrier, if there is one. The context that it returns ends if another shard fails before the start.
func (o *options) join(ctx context.Context, ui *terminal) (*shard.Group, context.Context, error) {
	if o.barrier == "" || o.dryRun {
		return nil, ctx, nil
	}
	group, ctx, err := shard.Join(ctx, shard.Config{
		Part:    o.shard,
		Where:   o.barrier,
		Version: buildVersion(),
		Late:    o.late,
		Say:     func(text string) { ui.line("%s", text) },
	})
	if err == nil {
		o.meeting = group.Name()
	}
	return group, ctx, err
}

// about is what made the load, so that shards with different loads can say in what they differ. Its values do not leave the process.
func (b *built) about() map[string]string {
	about := map[string]string{}
	for name, value := range b.resolved() {
		if !slices.Contains([]string{"shard", "url", "trace"}, name) {
			text, _ := json.Marshal(value)
			about["--"+name] = string(text)
		}
	}
	about["trace"] = fmt.Sprintf("%s of %d rows", b.Trace.Name, b.Trace.FileRows)
	about["requests"] = fmt.Sprint(b.sharded.Size.Requests)
	return about
}

// aheadOf says how far a clock is ahead of another, or behind it.
func aheadOf(ahead time.Duration) string {
	if ahead < 0 {
		return format.Duration(-ahead, 3) + " behind"
	}
	return format.Duration(ahead, 3) + " ahead of"
}

// awaitStart sets the moment at which the run, which is ready, begins, and returns shortly before it. If standard input has the moment and
// ends before the run does, whoever drives the run has gone: that counts as an interrupt.
func (s *results) awaitStart(ctx context.Context, group *shard.Group, interrupts *interrupts) (err error) {
	at, file := s.o.start.at, cmp.Or(s.sharded, new(shard.File)) // the latter is not kept
	ready := time.Now()
	file.ClockErr = "without --start-barrier nobody was asked; " + host.ClockWords()
	switch {
	case group != nil:
		agreed, ahead, err := group.Ready(ctx, file.Load, s.about())
		if err != nil {
			return err
		}
		at, file.StartAt, file.StartNS, file.ClockErr = agreed.Add(ahead), agreed, int64(ahead), ""
		s.ui.line("all shards begin at %s; this clock is %s that of shard 0", agreed.Format(time.RFC3339Nano), aheadOf(ahead))
	case s.o.start.asked:
		if _, err := fmt.Fprintln(s.out, "ready"); err != nil {
			return err
		}
		in := bufio.NewReader(os.Stdin)
		text, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
		if err == nil {
			s.o.start, err = parseStart(text)
			at = s.o.start.at
		}
		if err != nil {
			return fmt.Errorf("--start-at -: standard input gave no moment: %w", err)
		}
		go func() {
			_, _ = io.Copy(io.Discard, in)
			interrupts.interrupt(false)
		}()
	}
	if at.IsZero() {
		return nil
	}
	if err := s.o.checkLate(at); err != nil {
		return err
	}
	file.ReadyNS = int64(ready.Sub(at))
	if file.LateNS = int64(max(0, time.Since(at))); file.LateNS > 0 {
		s.ui.note("ready %s after the agreed start: what was planned before is not sent", format.Duration(file.LateNS, 3))
	}
	if err := s.writeShard(s.dir); err != nil {
		return err
	}
	s.run.StartAt(at, s.o.late == shard.LateJoin)
	const early = time.Second // for what is done between here and the start: 200 ms were too few beside 15 busy threads on 2 cores
	connecting, cancel := context.WithDeadline(ctx, at.Add(-early))
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(at) - 2*early):
		s.servers.lookAgain(connecting, at)
		s.run.Connect(connecting) // servers may have closed connections meanwhile
	}
	<-connecting.Done()
	return ctx.Err()
}
