package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/replay"
)

// probeAll probes until the search has ended, or ctx has.
func (s *searching) probeAll(ctx context.Context) error {
	for ctx.Err() == nil {
		p, more := s.search.Next()
		if !more {
			return nil
		}
		began := time.Now()
		w, err := s.window(p)
		if err != nil && len(s.outcomes) > 0 { // an answer all the same
			s.tooShort = fmt.Sprintf("The search ended before %v.", err)
			return nil
		}
		o := capacity.Outcome{Probe: p, Directory: fmt.Sprintf("probe-%02d", p.Number)}
		if err == nil {
			err = s.probe(ctx, &o, w)
		}
		if ctx.Err() != nil {
			return nil
		}
		o.SpentS = time.Since(began).Seconds()
		if err == nil {
			err = s.note(o)
		}
		if err != nil {
			return err
		}
		s.ui.line("probe %d at %s: %s after %s: %s", o.Number, s.load(o.Load), o.Word(), format.Span(o.SpentS),
			cmp.Or(o.Client, o.Why))
		_, page := s.result()
		if err := s.writePage(page); err != nil {
			s.ui.line("no %s: %v", capacityPage, err)
		}
	}
	return nil
}

// The paces of a probe.
const (
	usualWarmIn   = 30 * time.Second
	usualWindow   = time.Minute // where nobody knows how many requests come in a second
	longestSlice  = time.Second
	slicesAtLeast = 60
	probeDrain    = 2 * time.Second // of requests in flight when a probe is ended
)

// window returns which part of a probe counts: as much as the objectives need, but no more than the trace has.
func (s *searching) window(p capacity.Probe) (w capacity.Span, err error) {
	perS, lasts := s.recordedRate(), s.spanS
	switch s.o.over {
	case "amplify":
		perS *= p.Load
	case "scale":
		perS, lasts = perS*p.Load, lasts/p.Load
	case "rate":
		perS = p.Load
		lasts = float64(s.requests) / p.Load
	case "concurrency":
		perS, lasts = 0, math.Inf(1)
		if n := len(s.outcomes); n > 0 { // as many as in the latest probe
			o := &s.outcomes[n-1]
			for i := range o.Slices {
				perS += float64(o.Slices[i].Requests) / max(1, float64(len(o.Slices))*o.SliceS)
			}
		}
	}
	warmS := s.o.warmIn.Seconds()
	if !s.o.isSet("warm-in") {
		warmS = min(usualWarmIn.Seconds(), lasts/5)
	}
	forS := s.o.window.Seconds()
	if forS == 0 {
		wanted, budget := s.search.Window(p), s.o.budget.Seconds()
		if forS = usualWindow.Seconds(); perS > 0 {
			forS = float64(wanted.Requests) / perS
		}
		// no less than a tenth, or than a growing backlog needs
		left := max(budget-s.search.Answer().SpentS-warmS, budget/10, wanted.LeastS)
		forS = min(max(forS, wanted.LeastS), left)
	}
	if forS = min(forS, lasts-warmS); forS < 0.1 {
		return w, fmt.Errorf(
			"probe %d at %s: the trace takes %s then, and the warm-in %s; give a longer trace, --repeat behind --, "+
				"or a shorter --warm-in",
			p.Number, s.load(p.Load), format.Span(lasts), format.Span(warmS))
	}
	w.FromNS = int64(warmS*1e3) * 1e6
	w.ForNS = int64(forS*1e3) * 1e6
	w.SliceNS = max(1e6, min(int64(longestSlice), w.ForNS/slicesAtLeast))
	return w, nil
}

// configure returns the replay that is a probe.
func (s *searching) configure(p capacity.Probe, w capacity.Span, dir string) (*options, error) {
	args := []string{"--duration", time.Duration(w.FromNS + w.ForNS).String(), "--seed", fmt.Sprint(s.o.seed),
		"--output", dir}
	urls := s.o.urls
	if s.o.over == "instances" {
		urls = urls[:int(p.Load)]
	} else {
		args = append(args, "--"+s.o.over, strconv.FormatFloat(p.Load, 'f', -1, 64))
	}
	for _, trace := range s.o.traces {
		args = append(args, "--trace", trace)
	}
	for _, url := range urls {
		args = append(args, "--url", url)
	}
	for i := range s.objectives {
		if o := &s.objectives[i]; o.LimitNS > 0 {
			args = append(args, "--require", o.Text)
		}
	}
	r, err := parseReplay(append(args, s.o.replay...))
	if err == nil {
		err = r.line.Explain(r.translate(nil))
	}
	if err == nil {
		r.attach(&terminal{w: io.Discard})
	}
	return r, err
}

// probing is the Observer of a probe: it ends the probe when the search has seen enough.
type probing struct {
	replay.Silent
	s       *searching
	out     *capacity.Outcome
	counter *capacity.Counter
	shown   atomic.Pointer[capacity.Look]
	decided bool
	end     context.CancelFunc
	running atomic.Pointer[replay.Running] // nil before its requests are built
}

// Built implements replay.Observer.
func (p *probing) Built(r *replay.Running) { p.running.Store(r) }

// Record implements replay.Observer.
func (p *probing) Record(r *record.Record) { p.counter.Add(r) }

// Tick implements replay.Observer.
func (p *probing) Tick(r *replay.Running, ended bool) {
	if p.decided {
		return
	}
	look := p.counter.Look(r.NowNS(), r.EachOpen, ended)
	p.shown.Store(&look)
	if d := p.s.search.Look(p.out.Probe, look); d.End || look.Ended {
		p.decided = true
		p.out.Slices, p.out.SliceS, p.out.Verdict, p.out.Why = look.Slices, look.SliceS,
			cmp.Or(d.Verdict, capacity.Edge), d.Why
		p.out.Cut = !look.Ended && float64(len(look.Slices))*look.SliceS < look.WindowS
		if !look.Ended {
			p.end()
			time.AfterFunc(probeDrain, p.abort)
		}
	}
}

// abort cancels what is in flight.
func (p *probing) abort() {
	if r := p.running.Load(); r != nil {
		r.Abort()
	}
}

// probe replays at a load until the search has seen enough, or ctx ends.
func (s *searching) probe(ctx context.Context, out *capacity.Outcome, w capacity.Span) error {
	p, dir := out.Probe, filepath.Join(s.dir, out.Directory)
	if err := os.RemoveAll(dir); err != nil { // of a search that was killed meanwhile
		return err
	}
	where := fmt.Sprintf("probe %d at %s", p.Number, s.load(p.Load))
	o, err := s.configure(p, w, dir)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	running, end := context.WithCancel(ctx)
	defer end()
	seen := &probing{
		s:       s,
		out:     out,
		counter: capacity.NewCounter(s.objectives, w),
		end:     end,
	}
	defer context.AfterFunc(ctx, seen.abort)()
	endView := s.ui.watch(s.view(p, time.Duration(w.FromNS), &seen.shown))
	summary, err := replay.Run(running, &o.Config, seen)
	endView()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case summary == nil:
		return fmt.Errorf("%s: %w", where, o.line.Explain(err))
	case err != nil:
		return &exitError{exitInvalid, fmt.Sprintf("%s: %v", where, err)}
	}
	targets, err := s.judge(out, summary, where, seen.decided)
	if err != nil {
		return err
	}
	if out.Cut {
		w.ForNS = int64(len(out.Slices)) * w.SliceNS
	}
	out.Numbers, out.Limiter, err = capacity.Numbers(dir, targets, s.objectives, w)
	return err
}

// judge looks at how a probe ended, and returns the URLs of its targets as its records have them. It notes if the
// client was the bottleneck; what else makes its numbers useless is an error.
func (s *searching) judge(
	out *capacity.Outcome, summary *metrics.Summary, where string, decided bool,
) (targets []string, err error) {
	for _, r := range summary.Verdict.Reasons {
		switch {
		case r.Grade != metrics.Invalid || r.Code.OfEnding(): // the search may have ended it
		case r.Code.OfClient():
			out.Client = cmp.Or(out.Client, r.What)
		default:
			return nil, &exitError{exitInvalid,
				fmt.Sprintf("%s is INVALID: %s (%s)", where, r, filepath.Join(s.dir, out.Directory))}
		}
	}
	for i := range summary.Verdict.Objectives {
		if o := &summary.Verdict.Objectives[i]; o.Unsure && !o.Met {
			out.Client = cmp.Or(out.Client,
				fmt.Sprintf("%s is missed, and the client's lateness of %s may be why", o.Text,
					format.Duration(o.EffectMS*1e6, 3)))
		}
	}
	switch {
	case decided:
	case out.Client == "":
		return nil, &exitError{exitInvalid,
			fmt.Sprintf("%s was ended by somebody else; the same command goes on with %s", where, s.dir)}
	default:
		out.Verdict = capacity.Edge
		out.Why = "it could not be measured"
	}
	for i := range summary.Targets {
		targets = append(targets, summary.Targets[i].URL)
	}
	return targets, nil
}
