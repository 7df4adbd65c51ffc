package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// isShard reports whether the run sends a part of the load.
func (o *options) isShard() bool { return o.shard.Count > 0 }

// follows reports whether the run is a shard that leaves to shard 0 what only one may do.
func (o *options) follows() bool { return o.isShard() && !o.shard.Leads() }

// checkShard refuses what shards cannot do together, and leaves warm-up and the servers' metrics to shard 0.
func (o *options) checkShard() error {
	if !o.isShard() {
		return nil
	}
	switch inFlight := max(o.pacing.concurrency, o.pacing.lanes); {
	case len(o.urls) == 0:
		return errors.New("--shard: shards need a server that all of them reach; give it with --url")
	case o.start.at.IsZero() && o.barrier == "" && o.shard.Count > 1 && !o.dryRun:
		return errors.New("--shard: say when all shards begin: with --start-barrier, or with --start-at, the same moment for all")
	case o.sessions.atRun():
		return errors.New("--idle-cap system: no shard knows what others have in flight; cut the idle times of jobs with --idle-cap TIME")
	case inFlight > 0 && inFlight < o.shard.Count:
		return fmt.Errorf("--shard: %d in flight cannot be divided among %d shards; want at least %d", inFlight, o.shard.Count, o.shard.Count)
	}
	if o.follows() {
		o.warmup = 0
		o.scrape.mode, o.scrape.urls = scrapeOff, nil
	}
	return nil
}

// newSalt is a cache salt that no other run has, and that all shards of this one have.
func (o *options) newSalt() string {
	if !o.isShard() {
		return probe.NewSalt()
	}
	sum := sha256.Sum256([]byte(o.start.at.UTC().Format(time.RFC3339Nano) + o.meeting))
	return "fastreplay-" + hex.EncodeToString(sum[:8])
}

// takePart leaves of the whole work, which is routed and has its expected hits, what this shard sends.
func (b *built) takePart(backend api.Backend) error {
	if !b.o.isShard() {
		return nil
	}
	p := b.o.shard
	of, costs := b.Divide(p.Count)
	if n := slices.Index(costs, 0); n >= 0 {
		return fmt.Errorf("--shard: the load has whole jobs and conversations for %d shards, and not for %d; want at most %d", n, p.Count, n)
	}
	b.sharded = &shard.File{
		Schema: shard.Schema, Index: p.Index, Count: p.Count, Version: buildVersion(), Workload: b.workloadInfo(nil), Size: b.size(), StartAt: b.o.start.at.UTC(),
		Load: b.Identity(of, b.ideal, p.Count, buildVersion(), b.o.seed, b.o.api, b.model, b.o.prompt, string(b.o.extra), b.o.noForceOutput, b.o.noStream, b.salt != "",
			b.o.sessions.String(), b.o.sessions.past, b.o.route),
	}
	if p.Leads() && b.o.route != routeLeastInFlight {
		b.sharded.Routing = audit.CompareRouters(b.Work, nil)
	}
	b.ideal, b.next = b.Take(p, of, b.runID, b.ideal, backend)
	b.sharded.Requests = int64(b.Requests())
	if !p.Leads() { // shard 0 has their records
		b.leftOut, b.fitted.LeftOut = nil, 0
	}
	all := int64(0)
	for _, cost := range costs {
		all += cost
	}
	b.ui.line("shard %d of %d (0 to %d): %s of %s requests, %s of the work", p.Index, p.Count, p.Count-1,
		format.Count(b.sharded.Requests), format.Count(b.sharded.Size.Requests), format.Percent(float64(costs[p.Index])/float64(all)))
	if n := max(b.o.pacing.concurrency, b.o.pacing.lanes); n > 0 {
		b.ui.line("       %d of the %d in flight are this shard's", p.Of(n), n)
	}
	if b.o.route == routeLeastInFlight {
		b.ui.note("--route %s: each shard counts only what it has in flight itself", routeLeastInFlight)
	}
	return nil
}

// writeShard writes what a shard leaves behind for the merge, as far as it is known: before the start, when the start is known, and after the
// run. With a ring the digests are known at last.
func (b *built) writeShard(dir string) error {
	if b.sharded == nil {
		return nil
	}
	err := report.WriteJSON(filepath.Join(dir, shard.FileName), b.sharded)
	if name := filepath.Join(dir, shard.DigestsName); !exists(name) && b.Prebuilt.Fingerprint(b.Work) != "" {
		err = errors.Join(err, report.WriteWhole(name, func(w io.Writer) error { return b.Prebuilt.WriteDigests(b.Work, w) }))
	}
	if b.next != nil {
		err = errors.Join(err, report.WriteWhole(filepath.Join(dir, shard.PlannedNextName), b.writeNext))
		b.next = nil // and its memory
	}
	return err
}

func (b *built) writeNext(w io.Writer) error {
	out, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	var line []byte
	for i := range b.next {
		line = b.next[i].AppendJSON(line[:0])
		if _, err := out.Write(line); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return out.Close()
}
