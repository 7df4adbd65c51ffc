package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/merge"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// IsShard reports whether the run sends a part of the load.
func (o *Options) IsShard() bool { return o.Shard.Count > 0 }

// leaveToLeader leaves warm-up and the servers' metrics to shard 0.
func (o *Options) leaveToLeader() {
	if o.Follows() {
		o.Warmup = 0
		o.Scrape.Mode = ScrapeOff
		o.Scrape.URLs = nil
	}
}

// Follows reports whether the run is a shard that leaves to shard 0 what only one may do.
func (o *Options) Follows() bool { return o.IsShard() && !o.Shard.Leads() }

// newSalt is a cache salt that no other run has, and that all shards of this one have.
func (o *Options) newSalt() string {
	if !o.IsShard() {
		return probe.NewSalt()
	}
	sum := sha256.Sum256([]byte(o.StartAt.UTC().Format(time.RFC3339Nano) + o.Meeting))
	return "fastreplay-" + hex.EncodeToString(sum[:8])
}

// takePart leaves of the whole work, which is routed and has its expected hits, what this shard sends.
func (p *Prepared) takePart(backend api.Backend) error {
	if !p.o.IsShard() {
		return nil
	}
	part := p.o.Shard
	of, costs := p.Divide(part.Count)
	if n := slices.Index(costs, 0); n >= 0 {
		return fmt.Errorf(
			"--shard: the load has whole jobs and conversations for %d shards, and not for %d; want at most %d",
			n, part.Count, n,
		)
	}
	p.Shard = &merge.File{
		Schema:   merge.Schema,
		Index:    part.Index,
		Count:    part.Count,
		Version:  p.o.Version,
		Workload: p.Workload(nil),
		Load:     p.Load(),
		StartAt:  p.o.StartAt.UTC(),
		Identity: p.Identity(of, p.Ideal, part.Count, p.o.Version, p.o.Seed, p.o.API, p.model, p.o.Prompt,
			string(p.o.Extra), p.o.NoForceOutput, p.o.NoStream, p.salt != "",
			p.o.SessionsText(), p.o.Sessions.History, p.o.Route),
	}
	if part.Leads() && !p.o.routesLate() {
		p.Shard.Routing = audit.CompareRouters(p.Work, nil, nil)
	}
	p.Ideal, p.Next = p.KeepPart(part, of, p.RunID, p.Ideal, backend)
	p.Shard.Requests = int64(p.Requests())
	if !part.Leads() { // shard 0 has their records
		p.LeftOut = nil
		p.fitted.LeftOut = 0
	}
	var all int64
	for _, cost := range costs {
		all += cost
	}
	p.line("shard %d of %d (0 to %d): %s of %s requests, %s of the work", part.Index, part.Count, part.Count-1,
		format.Count(p.Shard.Requests), format.Count(p.Shard.Load.Requests), format.Percent(
			float64(costs[part.Index])/float64(all),
		))
	if n := max(p.o.Pacing.Concurrency, p.o.Pacing.Lanes); n > 0 {
		p.line("       %d of the %d in flight are this shard's", part.Of(n), n)
	}
	if p.o.Route == RouteLeastInFlight {
		p.note("in_flight_of_shard", "--route %s: each shard counts only what it has in flight itself",
			RouteLeastInFlight)
	}
	return nil
}
