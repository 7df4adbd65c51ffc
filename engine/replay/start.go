package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/merge"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// join waits for shard 0 at the barrier, if there is one. The context that it returns ends if another shard fails
// before the start.
func (r *runner) join(ctx context.Context) (*shard.Group, context.Context, error) {
	if r.cfg.Barrier == "" || r.cfg.DryRun {
		return nil, ctx, nil
	}
	group, ctx, err := shard.Join(ctx, shard.Config{
		Part:    r.cfg.Shard,
		Where:   r.cfg.Barrier,
		Version: r.cfg.Version,
		Late:    r.cfg.LateStart,
		Say:     func(text string) { r.line("%s", text) },
	})
	if err == nil {
		r.cfg.Meeting = group.Name()
	}
	return group, ctx, err
}

// CheckLate refuses a start that is over, if the run may not be late.
func (c *Config) CheckLate(start time.Time) error {
	late := time.Since(start)
	if start.IsZero() || late < 0 || c.LateStart == shard.LateJoin {
		return nil
	}
	who := "the run"
	if c.IsShard() {
		who = fmt.Sprintf("shard %d", c.Shard.Index)
	}
	return fmt.Errorf(
		"%s was ready %s after the agreed start at %s; nothing was sent; want a moment to come, or --late-start "+
			"%s to send what is still to come",
		who, format.Duration(late, 3), start.Format(time.RFC3339Nano), shard.LateJoin)
}

// about is what made the load, so that shards with different loads can say in what they differ. Its values do not leave
// the process.
func (r *runner) about() map[string]string {
	about := map[string]string{}
	for name, value := range r.load.Flags() {
		if !slices.Contains([]string{"shard", "url", "trace"}, name) {
			text, _ := json.Marshal(value)
			about["--"+name] = string(text)
		}
	}
	about["trace"] = fmt.Sprintf("%s of %d rows", r.load.Trace.Name, r.load.Trace.FileRows)
	about["requests"] = fmt.Sprint(r.load.Shard.Load.Requests)
	return about
}

// aheadOf says how far a clock is ahead of another, or behind it.
func aheadOf(ahead time.Duration) string {
	if ahead < 0 {
		return format.Duration(-ahead, 3) + " behind"
	}
	return format.Duration(ahead, 3) + " ahead of"
}

// awaitStart sets the moment at which the run, which is ready, begins, and returns shortly before it.
func (r *runner) awaitStart(ctx context.Context, group *shard.Group) (err error) {
	at, file := r.cfg.StartAt, cmp.Or(r.load.Shard, new(merge.File)) // the latter is not kept
	ready := time.Now()
	file.ClockErr = "without --start-barrier nobody was asked; " + host.ClockWords()
	switch {
	case group != nil:
		agreed, ahead, err := group.Ready(ctx, file.Identity, r.about())
		if err != nil {
			return err
		}
		at = agreed.Add(ahead)
		file.StartAt = agreed
		file.StartNS = int64(ahead)
		file.ClockErr = ""
		r.line(
			"all shards begin at %s; this clock is %s that of shard 0",
			agreed.Format(time.RFC3339Nano), aheadOf(ahead),
		)
	case r.cfg.AskStart != nil:
		if at, err = setup.Await(ctx, r.cfg.AskStart); err != nil {
			return err
		}
	}
	if at.IsZero() {
		return nil
	}
	if err := r.cfg.CheckLate(at); err != nil {
		return err
	}
	file.ReadyNS = int64(ready.Sub(at))
	if file.LateNS = int64(max(0, time.Since(at))); file.LateNS > 0 {
		r.note("started_late", "ready %s after the agreed start: what was planned before is not sent",
			format.Duration(file.LateNS, 3))
	}
	if err := r.writeShard(); err != nil {
		return err
	}
	r.run.StartAt(at, r.cfg.LateStart == shard.LateJoin)
	// for what is done between here and the start: 200 ms were too few beside 15 busy threads on 2 cores
	const early = time.Second
	connecting, cancel := context.WithDeadline(ctx, at.Add(-early))
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(at) - 2*early):
		r.servers.lookAgain(connecting, at)
		r.run.Connect(connecting) // servers may have closed connections meanwhile
	}
	<-connecting.Done()
	return ctx.Err()
}

// writeShard writes what a shard leaves behind for the merge, as far as it is known. It is called before the start,
// when the start is known, and after the run. With a ring the digests are known at last.
func (r *runner) writeShard() error {
	if r.load.Shard == nil {
		return nil
	}
	err := report.WriteJSON(filepath.Join(r.Dir, merge.FileName), r.load.Shard)
	work := r.load.Work
	digests := filepath.Join(r.Dir, merge.DigestsName)
	if !report.Exists(digests) && work.Prebuilt.Fingerprint() != "" {
		write := func(w io.Writer) error { return work.Prebuilt.WriteDigests(w) }
		err = errors.Join(err, report.WriteWhole(digests, write))
	}
	if r.load.Next != nil {
		err = errors.Join(err, report.WriteWhole(filepath.Join(r.Dir, merge.PlannedNextName), r.writeNext))
		r.load.Next = nil // and its memory
	}
	return errors.Join(err, merge.Seal(r.Dir))
}

func (r *runner) writeNext(w io.Writer) error {
	out, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	var line []byte
	for i := range r.load.Next {
		line = r.load.Next[i].AppendJSON(line[:0])
		if _, err := out.Write(line); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return out.Close()
}
