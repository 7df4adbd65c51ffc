package setup

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// PlansPlays reports whether jobs are not only run whole and once each.
func (s *Sessions) PlansPlays() bool { return s.Snapshot != nil || s.Recycle }

// playsFlag is the flag by which they are not.
func (s *Sessions) playsFlag() string {
	if s.Snapshot != nil {
		return "--snapshot"
	}
	return "--recycle"
}

// checkPlays refuses what plays of jobs cannot be combined with.
func (o *Options) checkPlays() error {
	s := &o.Sessions
	flag := s.playsFlag()
	switch {
	case !s.PlansPlays():
		return nil
	case o.Pacing.Lanes == 0:
		return fmt.Errorf("%s: it says how lanes take jobs; give --sessions lanes=N", flag)
	case s.Recycle && o.Pacing.Duration == 0:
		return errors.New("--recycle: jobs are taken again and again; say when the run ends, with --duration TIME")
	case o.Repeat > 1 || o.Amplify != 1:
		return fmt.Errorf("%s: leave out --repeat and --amplify; --recycle takes jobs again, with other content", flag)
	case o.IsShard():
		return fmt.Errorf("%s: lanes prepare caches together, and shards do not wait for each other; leave out --shard",
			flag)
	case s.History == HistoryLive:
		return fmt.Errorf("%s: live history needs all turns of a job, and its content once; leave out --history", flag)
	}
	return nil
}

// play makes plays of the trace's jobs, if lanes begin amid them or take them again.
func (p *Prepared) play(t *trace.Trace) (*trace.Trace, error) {
	o := p.o
	s := &o.Sessions
	switch {
	case !s.PlansPlays():
		return t, nil
	case s.Snapshot != nil && t.Untimed:
		return nil, fmt.Errorf("--snapshot: no row of %s says when it arrived", t.Name)
	case s.Recycle && t.Verbatims() > 0:
		return nil, errors.New(
			"--recycle: verbatim prompts cannot get a marker, so jobs that are taken again would hit the same cache",
		)
	}
	pool := workload.Pool{
		Lanes:        o.Pacing.Lanes,
		Snapshot:     s.Snapshot,
		Recycle:      s.Recycle,
		WarmUp:       o.Warmup,
		Seed:         o.Seed,
		Follow:       o.followPolicy(),
		RunNS:        cmp.Or(int64(o.Pacing.Duration), math.MaxInt64),
		IdleNS:       s.Idle.atMost(),
		MostRequests: math.MaxInt32,
	}
	if free, err := freeAllowance(keptForRun); err == nil && s.Recycle {
		pool.MostRequests = int(free.bytes / playsShare / keptForRequest)
	}
	var err error
	if p.plays, err = pool.Of(t); err != nil {
		return nil, fmt.Errorf("%s: %w", s.playsFlag(), err)
	}
	p.Before = p.plays.Before
	p.Played = true // jobs are played so often that to hash all bytes takes as long as all else
	return p.plays.Trace, nil
}

// atMost is the longest idle time that the run leaves to a job.
func (c IdleCap) atMost() int64 {
	most := int64(math.MaxInt64 / 2)
	for _, limit := range []time.Duration{c.Most, c.Tree} {
		if limit > 0 {
			most = min(most, int64(limit))
		}
	}
	return most
}

// playsShare is which part of the free memory, 1 in so many, the records of plays may take.
const playsShare = 8

// preparationS is how long all that prepares takes, in s, if each request takes as long as is assumed of one token.
func (p *Prepared) preparationS() float64 {
	d := p.Plan.Dependencies
	ends := make([]int64, d.Prepare)
	for i := range d.Prepare {
		if d.NotBeforeNS != nil {
			ends[i] = d.NotBeforeNS[i]
		}
		for _, w := range d.Of(i) {
			ends[i] = max(ends[i], ends[w.On])
		}
		ends[i] += p.o.Assumed.LastNS(1)
	}
	return float64(slices.Max(append(ends, 0))) / 1e9
}

// describePlays says how lanes begin, and what was planned for them.
func (p *Prepared) describePlays() {
	if p.plays == nil {
		return
	}
	s := &p.o.Sessions
	if c := s.Snapshot; c != nil {
		primers := int(p.Plan.Dependencies.Primers)
		prepare := int(p.Plan.Dependencies.Prepare)
		p.line(
			"       lanes begin at %s to %s of their first jobs; before that %s and %s, of one token each, about %s "+
				"if a server takes %v for each (--assume-latency)",
			format.Percent(c.From), format.Percent(c.To), format.Many(primers, "primer"),
			format.Many(prepare-primers, "warm-up request"), format.Span(p.preparationS()),
			time.Duration(p.o.Assumed.LastNS(1)),
		)
		if p.o.DryRun {
			p.tableOfLanes()
		}
	}
	if s.Recycle {
		p.line(
			"       jobs are taken again; %s are planned, each behind a marker of %s",
			format.Many(p.plays.Count, "play"),
			format.Many(p.Trace.BlockTokens, "token"),
		)
	}
	if p.plays.Short {
		p.note(
			"plays_short",
			"--recycle: there is memory for %s; if servers are so fast that lanes need more, they find none",
			format.Many(p.plays.Count, "play"),
		)
	}
}

// mostLanes bounds the rows of a table of lanes.
const mostLanes = 100

// tableOfLanes says how each lane begins. What is left of a job is as it was recorded, at the speed of the replay.
func (p *Prepared) tableOfLanes() {
	begun := slices.Clone(p.plays.Begun)
	slices.SortStableFunc(begun, func(a, b workload.BegunPlay) int { return cmp.Compare(a.Lane, b.Lane) })
	var rows [][]string
	for _, f := range begun[:min(len(begun), mostLanes)] {
		rows = append(rows, []string{
			fmt.Sprintf("%d  %s", f.Lane, format.Visible(f.Job)),
			format.Percent(stats.OrZero(stats.Ratio(f.AtNS, f.SpanNS))),
			format.Span(float64(f.AtNS) / 1e9),
			format.Count(f.Primers),
			format.Count(f.WarmUp),
			format.Count(f.Measured),
			format.Span(float64(f.SpanNS-f.AtNS) / 1e9 / p.o.followPolicy().Speed),
		})
	}
	page := format.NewPage(90, 0)
	page.Table(11, []string{"lane, job", "t*", "at", "primers", "warm-up", "measured", "left"}, rows)
	for text := range strings.Lines(string(page.Bytes())) {
		p.detail("%s", strings.TrimSuffix(text, "\n"))
	}
	if more := len(begun) - mostLanes; more > 0 {
		p.detail("  … and %s more", format.Count(more))
	}
}
