package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// searching is a search that runs.
type searching struct {
	o          *capacityOptions
	ui         *terminal
	objectives []capacity.Objective
	search     *capacity.Search
	outcomes   []capacity.Outcome
	dir        string
	requests   int     // of the trace
	spanS      float64 // of the trace
	tooShort   string  // why the search ended early; "" if the trace was long enough
}

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
		s.ui.line("probe %d at %s: %s after %s: %s", o.Number, s.load(o.Load), o.Word(), format.Span(o.SpentS), cmp.Or(o.Client, o.Why))
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
	probeDrain    = 2 * time.Second  // of requests in flight when a probe is ended
	probeEnding   = 60 * time.Second // for its results, behind that
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
		perS, lasts = p.Load, float64(s.requests)/p.Load
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
	if !s.o.given("warm-in") {
		warmS = min(usualWarmIn.Seconds(), lasts/5)
	}
	forS := s.o.window.Seconds()
	if forS == 0 {
		wanted, budget := s.search.Window(p), s.o.budget.Seconds()
		if forS = usualWindow.Seconds(); perS > 0 {
			forS = float64(wanted.Requests) / perS
		}
		left := max(budget-s.search.Answer().SpentS-warmS, budget/10, wanted.LeastS) // no less than a tenth, or than a growing backlog needs
		forS = min(max(forS, wanted.LeastS), left)
	}
	if forS = min(forS, lasts-warmS); forS < 0.1 {
		return w, fmt.Errorf("probe %d at %s: the trace takes %s then, and the warm-in %s; give a longer trace, --repeat behind --, or a shorter --warm-in",
			p.Number, s.load(p.Load), format.Span(lasts), format.Span(warmS))
	}
	w.FromNS, w.ForNS = int64(warmS*1e3)*1e6, int64(forS*1e3)*1e6
	w.SliceNS = max(1e6, min(int64(longestSlice), w.ForNS/slicesAtLeast))
	return w, nil
}

// arguments are those of the replay that is a probe.
func (s *searching) arguments(p capacity.Probe, w capacity.Span, dir string) []string {
	order, _ := json.Marshal(probeFlag{Span: w, Objectives: s.objectives}) // texts and numbers, so it cannot fail
	args := []string{
		"--capacity-probe", string(order), "--duration", time.Duration(w.FromNS + w.ForNS).String(), "--seed", fmt.Sprint(s.o.seed), "--output", dir, "--progress", progressNone,
	}
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
	return append(args, s.o.replay...)
}

// probe replays at a load until the search has seen enough, or ctx ends.
func (s *searching) probe(ctx context.Context, out *capacity.Outcome, w capacity.Span) error {
	p, dir := out.Probe, filepath.Join(s.dir, out.Directory)
	if err := os.RemoveAll(dir); err != nil { // of a search that was killed meanwhile
		return err
	}
	c, err := startChild(s.arguments(p, w, dir)...)
	if err != nil {
		return err
	}
	end := func(drain time.Duration) { // signals to a process that has ended do nothing
		_ = c.Process.Signal(os.Interrupt)
		time.AfterFunc(drain, func() { _ = c.Process.Signal(syscall.SIGTERM) })
		time.AfterFunc(drain+probeEnding, func() { _ = c.Process.Kill() })
	}
	defer context.AfterFunc(ctx, func() { end(0) })()
	var shown atomic.Pointer[capacity.Look]
	endView := s.ui.watch(s.view(p, time.Duration(w.FromNS), &shown))
	decided := false
	for line, err := c.out.ReadBytes('\n'); err == nil; line, err = c.out.ReadBytes('\n') {
		var look capacity.Look
		if decided || json.Unmarshal(line, &look) != nil {
			continue
		}
		shown.Store(&look)
		if d := s.search.Look(p, look); d.End || look.Ended {
			decided = true
			out.Slices, out.SliceS, out.Verdict, out.Why = look.Slices, look.SliceS, cmp.Or(d.Verdict, capacity.Edge), d.Why
			out.Cut = !look.Ended && float64(len(look.Slices))*look.SliceS < look.WindowS
			if !look.Ended {
				end(probeDrain)
			}
		}
	}
	code, said := c.wait()
	endView()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	targets, err := s.judge(out, code, said, decided)
	if err != nil {
		return err
	}
	if out.Cut {
		w.ForNS = int64(len(out.Slices)) * w.SliceNS
	}
	out.Numbers, out.Limiter, err = capacity.Numbers(dir, targets, s.objectives, w)
	return err
}

// judge looks at how a probe ended, and returns the URLs of its targets as its records have them. It notes if the client was the
// bottleneck; what else makes its numbers useless is an error.
func (s *searching) judge(out *capacity.Outcome, code int, said string, decided bool) (targets []string, err error) {
	where := fmt.Sprintf("probe %d at %s", out.Number, s.load(out.Load))
	if code == exitUsage {
		_, text, _ := strings.Cut(said, "fastreplay: ")
		return nil, fmt.Errorf("%s: %s", where, text)
	}
	dir := filepath.Join(s.dir, out.Directory)
	summary, err := report.Load(dir)
	if err != nil {
		return nil, &exitError{exitInvalid, fmt.Sprintf("%s ended with exit code %d and without results: %v %s", where, code, err, said)}
	}
	for _, r := range summary.Verdict.Reasons {
		switch {
		case r.Grade != metrics.Invalid || r.Code.OfEnding(): // the search may have ended it
		case r.Code.OfClient():
			out.Client = cmp.Or(out.Client, r.What)
		default:
			return nil, &exitError{exitInvalid, fmt.Sprintf("%s is INVALID: %s (%s)", where, r, dir)}
		}
	}
	for i := range summary.Verdict.Objectives {
		if o := &summary.Verdict.Objectives[i]; o.Unsure && !o.Met {
			out.Client = cmp.Or(out.Client, fmt.Sprintf("%s is missed, and the client's lateness of %s may be why", o.Text, format.Duration(o.EffectMS*1e6, 3)))
		}
	}
	switch {
	case decided:
	case out.Client == "":
		return nil, &exitError{exitInvalid, fmt.Sprintf("%s was ended by somebody else (exit code %d); the same command goes on with %s", where, code, s.dir)}
	default:
		out.Verdict, out.Why = capacity.Edge, "it could not be measured"
	}
	for i := range summary.Targets {
		targets = append(targets, summary.Targets[i].URL)
	}
	return targets, nil
}

// probeFlag makes a replay a probe of a search for capacity. It prints a look (capacity.Look) on each tick, a JSON line on standard
// output, and ends when its standard input does, which is a pipe that the search holds open.
type probeFlag struct {
	capacity.Span
	Objectives []capacity.Objective
	counter    *capacity.Counter // nil = the replay is no probe
}

func (p *probeFlag) addFlag(f *pflag.FlagSet) {
	f.Var(&value[probeFlag]{to: p, parse: parseProbe, kind: "JSON"}, "capacity-probe", "of `fastreplay capacity`: be a probe")
}

func parseProbe(text string) (p probeFlag, err error) {
	if err = json.Unmarshal([]byte(text), &p); err != nil || p.ForNS <= 0 || p.SliceNS <= 0 {
		return p, errors.New("want what a search for capacity gives")
	}
	p.counter = capacity.NewCounter(p.Objectives, p.Span)
	return p, nil
}

// begin ends this process if the search dies.
func (p *probeFlag) begin() {
	if p.counter != nil {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until its end
			os.Exit(exitInterrupted)
		}()
	}
}

func (p *probeFlag) add(r *record.Record) {
	if p.counter != nil {
		p.counter.Add(r)
	}
}

// look prints what the probe has shown so far.
func (p *probeFlag) look(w io.Writer, run *engine.Run, ended bool) {
	if p.counter != nil {
		_ = json.NewEncoder(w).Encode(p.counter.Look(run.Clock().Now(), run.EachOpen, ended)) // nobody reads it if the search has ended
	}
}
