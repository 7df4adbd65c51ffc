package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// prober says what to probe: a search or a sweep.
type prober interface {
	Next() (capacity.Probe, bool)
	Window(capacity.Probe) (seconds, settleS float64)
	Peek(capacity.Probe, capacity.Peek) capacity.Decision
	Add(capacity.Outcome)
	Stop(why string)
}

// probeAll probes until the search has ended, or ctx has.
func (s *searching) probeAll(ctx context.Context) error {
	for ctx.Err() == nil {
		p, more := s.prober.Next()
		if !more {
			return nil
		}
		began := time.Now()
		w, settleS, err := s.window(p)
		if err != nil && len(s.outcomes) > 0 { // an answer all the same
			what := "search"
			if s.o.sweep {
				what = "sweep"
			}
			s.prober.Stop(fmt.Sprintf("The %s ended before %v.", what, err))
			if p.Confirm {
				return nil
			}
			continue
		}
		o := capacity.Outcome{
			Probe:     p,
			SettleS:   settleS,
			Directory: fmt.Sprintf("probe-%02d", p.Number),
		}
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
		measured := "measured"
		if !o.Measured() {
			measured = "not measured"
		}
		ended := cmp.Or(o.Word(), measured) + " after " + format.Span(o.SpentS)
		said := strings.Join(format.Present(ended, cmp.Or(o.Client, o.Why)), ": ")
		s.ui.line("probe %d at %s: %s", o.Number, s.load(o.Load), said)
		_, page := s.result()
		if err := s.writePage(page); err != nil {
			s.ui.line("no %s: %v", s.name(".html"), err)
		}
	}
	return nil
}

// The paces of a probe.
const (
	usualWarmIn     = 30 * time.Second
	usualBesides    = 3 * time.Second // until it has begun, and from its end on
	windowsInBudget = 10              // of probes; a confirmation takes three
	probeDrain      = 2 * time.Second // of requests in flight when a probe is ended
)

// window is which part of a probe counts, and of which part of the trace it is.
type window struct {
	capacity.Span
	part   *capacity.Part // nil = the trace from its start
	leadNS int64          // of the timeline before the part
}

// paces are those of a probe at a load. They are its warm-in in s, how many requests come in a second (0: nobody
// knows), and how long the trace lasts in s.
func (s *searching) paces(load float64) (warmS, perS, lasts float64) {
	perS = s.recordedRate()
	lasts = s.spanS
	switch s.o.over {
	case "amplify":
		perS *= load
	case "scale":
		perS *= load
		lasts /= load
	case "rate":
		perS = load
		lasts = float64(s.requests) / load
	case "concurrency":
		perS = 0
		lasts = cmp.Or(s.loopS, math.Inf(1))
	}
	if s.o.isSet("warm-in") {
		return s.o.warmIn.Seconds(), perS, lasts
	}
	warmS = min(usualWarmIn.Seconds(), lasts/5)
	if s.o.sweep && s.o.isSet("window") {
		warmS = min(warmS, s.o.window.Seconds())
	}
	if n := len(s.outcomes); n > 0 && s.o.sweep && s.o.over == "concurrency" {
		warmS = min(warmS, warmed(s.outcomes[n-1], load))
	}
	return warmS, perS, lasts
}

// warmed is how long a closed loop takes until its requests are as they stay, in s. Each slot has had three by then. A
// request takes as long as at the load before, and more slots may make it as many times longer.
func warmed(before capacity.Outcome, load float64) float64 {
	const requests, least = 3, 5 // s
	took := capacity.TookS(before.Slices, before.SliceS) * max(1, load/before.Load)
	if !(requests*took < usualWarmIn.Seconds()) { // or nobody knows
		return usualWarmIn.Seconds()
	}
	return math.Ceil(max(least, requests*took))
}

// plan says before a sweep how long it takes at most.
func (s *searching) plan() string {
	all := 0.0
	most := 0.0
	least := math.Inf(1)
	for _, load := range s.o.at {
		warmS, _, lasts := s.paces(load)
		forS, _ := s.prober.Window(capacity.Probe{})
		forS = max(0, min(forS, lasts-warmS))
		least = min(least, forS)
		most = max(most, forS)
		all += usualBesides.Seconds() + warmS + forS
	}
	each := format.Span(most)
	if least < most {
		each = format.Span(least) + " to " + each + ", as far as the trace goes"
	}
	return fmt.Sprintf("%s, each measured for %s: at most %s in all", format.Many(len(s.o.at), "load"), each,
		format.Span(all))
}

// window returns which part of a probe counts: as much as the search wants, but no more than the trace has.
func (s *searching) window(p capacity.Probe) (w window, settleS float64, err error) {
	warmS, perS, lasts := s.paces(p.Load)
	forS, settleS := s.prober.Window(p)
	warmS += settleS
	if forS = min(forS, lasts-warmS); forS < 0.1 {
		return w, 0, fmt.Errorf(
			"a probe at %s: the trace takes %s then, and the warm-in %s; give a longer trace, --repeat behind --, "+
				"or a shorter --warm-in",
			s.load(p.Load), format.Span(lasts), format.Span(warmS))
	}
	w.FromNS = int64(warmS*1e3) * 1e6
	w.ForNS = int64(forS*1e3) * 1e6
	const longestSlice, leastSlices = time.Second, 60
	w.SliceNS = max(1e6, min(int64(longestSlice), w.ForNS/leastSlices))
	if s.o.over == "concurrency" {
		return w, settleS, nil
	}
	inTrace := 1.0 // of the timeline in a ns
	switch s.o.over {
	case "scale":
		inTrace = p.Load
	case "rate":
		inTrace = perS / 1e9
	}
	w.leadNS = int64(float64(w.FromNS) * inTrace)
	which := p.Number
	if s.o.sweep { // loads are compared
		which = 1
	}
	part := s.timeline.Choose(s.o.from, which, int64(math.Ceil(float64(w.ForNS)*inTrace)), w.leadNS)
	part.Places = s.o.kind.from[0] != capacity.FromBusiest
	w.part = &part
	return w, settleS, nil
}

// take is the part of a trace that a probe replays.
func (s *searching) take(t *trace.Trace, w window) (*trace.Trace, error) {
	source, atNS := s.timeline.Take(*w.part, w.leadNS)
	if len(source) == 0 {
		return nil, errors.New("no request lies in the part of the trace that is measured")
	}
	for i := len(atNS) - 1; i >= 0; i-- {
		if w.part.Places {
			atNS[i] = t.ArrivalNS[source[i]] - t.ArrivalNS[source[0]]
		} else {
			atNS[i] -= atNS[0]
		}
	}
	return t.Copies(source, make([]int32, len(source)), atNS, nil)
}

// configure returns the replay that is a probe.
func (s *searching) configure(p capacity.Probe, w window, dir string) (*options, error) {
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
	if err != nil {
		return nil, err
	}
	if r.Cold != probe.ColdOff {
		// other words, shared alike: what earlier probes left in a cache that cannot be flushed is not hit
		if err := r.line.Flags.Set("seed", fmt.Sprint(s.o.seed+uint64(p.Number-1))); err != nil {
			return nil, err
		}
	}
	whole := w.part == nil || w.part.Whole
	owning := r.Owning
	if whole && owning.Shares == nil {
		return r, nil
	}
	repeat := r.Repeat // of the whole trace, not of the part
	r.Repeat = 1
	if !whole {
		r.Notes = append(r.Notes, "this is a probe: it replays a part of the trace")
	}
	r.Owning = setup.Owning{Without: owning.Without} // of the whole trace: a conversation has one tenant in all probes
	if owning.Shares != nil {
		r.Notes = append(r.Notes, "--tenants: tenants are made up, each of whole conversations of the whole trace")
	}
	r.Open = func() (*trace.Trace, error) {
		t, err := r.openTraces()
		if err == nil {
			t, _, err = owning.Apply(t, s.o.seed)
		}
		if err == nil {
			t, err = t.Repeat(repeat)
		}
		if err == nil && !whole {
			t, err = s.take(t, w)
		}
		return t, err
	}
	return r, nil
}

// probing is the Observer of a probe: it ends the probe when the search has seen enough.
type probing struct {
	replay.Silent
	s       *searching
	out     *capacity.Outcome
	counter *capacity.Counter
	shown   atomic.Pointer[capacity.Peek]
	decided bool
	cold    bool  // no request can hit what earlier probes have left in caches
	lastNS  int64 // the latest planned instant of a request
	end     context.CancelFunc
	running atomic.Pointer[replay.Running] // nil before its requests are built
}

// Built implements replay.Observer.
func (p *probing) Built(r *replay.Running) {
	p.cold = r.Cold
	p.running.Store(r)
}

// Record implements replay.Observer.
func (p *probing) Record(r *record.Record) {
	p.counter.Add(r)
	if r.Outcome != record.NotSent {
		p.lastNS = max(p.lastNS, r.PlannedNS)
	}
}

// Tick implements replay.Observer.
func (p *probing) Tick(r *replay.Running, ended bool) {
	if p.decided {
		return
	}
	peek := p.counter.Peek(r.NowNS(), r.EachOpen, ended)
	p.shown.Store(&peek)
	if d := p.s.prober.Peek(p.out.Probe, peek); d.End || peek.Ended {
		p.decided = true
		p.out.Slices = peek.Slices
		p.out.SliceS = peek.SliceS
		p.out.Verdict = d.Verdict
		p.out.Why = d.Why
		if !d.End {
			p.out.Verdict = capacity.Unsure
		}
		p.out.Cut = !peek.Ended && float64(len(peek.Slices))*peek.SliceS < peek.WindowS
		if !peek.Ended {
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

// noteWarm notes that a probe may be easier than the ones before, since caches hold its prompts from these.
func (p *probing) noteWarm(s *metrics.Summary) {
	same := s.Workload.Verbatims > 0 || s.Run.Options["cold"] == string(probe.ColdOff)
	if p.cold || p.out.Number == 1 || !same {
		return
	}
	p.out.Limited = cmp.Or(p.out.Limited, "prompts may have been in caches: each probe sends the same words, and "+
		"nothing shows that the servers forget them")
}

// probe replays at a load until the search has seen enough, or ctx ends.
func (s *searching) probe(ctx context.Context, out *capacity.Outcome, w window) error {
	p := out.Probe
	dir := filepath.Join(s.dir, out.Directory)
	out.WarmInS = float64(w.FromNS) / 1e9
	out.Part = w.part
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
		counter: capacity.NewCounter(s.objectives, w.Span),
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
		return exitWith(exitInvalid, "%s: %v", where, err)
	}
	if err := s.sameModel(summary.Run.Model, where); err != nil {
		return err
	}
	targets, err := s.judge(out, summary, where, seen.decided)
	if err != nil {
		return err
	}
	seen.noteWarm(summary)
	if out.Cut || out.Slices == nil {
		w.ForNS = int64(len(out.Slices)) * w.SliceNS
	} else if s.o.over == "concurrency" && summary.Run.DurationS*1e9 < float64(w.FromNS+w.ForNS) {
		// The trace ran out, and a loop that only empties is not the load.
		w.ForNS = max(0, min(w.ForNS, seen.lastNS-w.FromNS))
	}
	err = out.Measure(dir, targets, s.objectives, w.Span)
	out.NoteFailures(summary)
	lastedS := summary.Run.DurationS
	ranOut := s.o.over == "concurrency" && len(out.Numbers) == 0 && lastedS*1e9 < float64(w.FromNS+w.ForNS)
	if err == nil && ranOut && s.o.sweep && out.Client == "" && !s.o.isSet("warm-in") && s.loopS == 0 {
		s.loopS = lastedS // by this the warm-in is as short as it must be
		defer func() { s.loopS = 0 }()
		if w, _, err = s.window(p); err == nil {
			return s.probe(ctx, out, w)
		}
	}
	return err
}

// sameModel refuses a probe of another model than the first one's, as of a server that was changed before the search
// went on.
func (s *searching) sameModel(model, where string) error {
	if s.model == "" && len(s.outcomes) > 0 {
		var first metrics.Summary
		dir := filepath.Join(s.dir, s.outcomes[0].Directory)
		if report.ReadJSON(filepath.Join(dir, report.SummaryName), &first) == nil {
			s.model = first.Run.Model
		}
	}
	s.model = cmp.Or(s.model, model)
	if s.model != model {
		return fmt.Errorf("%s: the server has the model %q now, and had %q in probe 1; give another --output", where,
			model, s.model)
	}
	return nil
}

// judge peeks at how a probe ended, and returns the URLs of its targets as its records have them. It notes if the
// client was the bottleneck; what else makes its numbers useless is an error.
func (s *searching) judge(
	out *capacity.Outcome, summary *metrics.Summary, where string, decided bool,
) (targets []string, err error) {
	if untold := capacity.Untold(s.objectives, summary); untold != "" {
		return nil, exitWith(exitInvalid, "%s: %s (%s)", where, untold, filepath.Join(s.dir, out.Directory))
	}
	for _, r := range summary.Verdict.Reasons {
		shifted := func(o capacity.Objective) bool {
			return r.Code.Shifts(o.Metric) != 0 || o.Metric == "goodput" // whose limits may be on any latency
		}
		switch {
		case r.Code == metrics.Models || r.Code.Shifts("tpot") != 0:
			out.Why = strings.Join(format.Present(r.What, out.Why), ": ")
			if r.Code == metrics.Models || slices.ContainsFunc(s.objectives, shifted) {
				out.Limited = cmp.Or(out.Limited, r.What)
			}
		case r.Code == metrics.Unfilled:
			out.Verdict = capacity.Unsure
			out.Why = format.Capitalised(r.What) + "."
			out.Slices = nil
		case r.Grade != metrics.Invalid || r.Code.Traits().Ending: // the search may have ended it
		case r.Code.Traits().Client:
			out.Client = cmp.Or(out.Client, r.What)
		default:
			return nil, exitWith(exitInvalid, "%s is INVALID: %s (%s)",
				where, r, filepath.Join(s.dir, out.Directory))
		}
	}
	for i := range summary.Verdict.Objectives {
		if o := &summary.Verdict.Objectives[i]; o.Unsure && !o.Met {
			out.Client = cmp.Or(out.Client,
				fmt.Sprintf("%s is missed, and the client's lateness of %s may be why",
					o.Text, format.Milliseconds(o.EffectMS)))
		}
	}
	switch {
	case decided:
	case out.Client == "":
		return nil, exitWith(exitInvalid, "%s was ended by somebody else; the same command goes on with %s",
			where, s.dir)
	default:
		out.Verdict = capacity.Unsure
		out.Why = "it could not be measured"
	}
	for i := range summary.Targets {
		targets = append(targets, summary.Targets[i].URL)
	}
	return targets, nil
}
