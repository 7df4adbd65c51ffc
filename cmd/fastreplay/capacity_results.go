package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/report"
)

// The files of a search, beside a directory for each probe.
const (
	settingsName = "search.json"
	journalName  = "probes.jsonl"
)

// title is of the page.
func (s *searching) title() string {
	what := "Capacity of "
	if s.o.sweep {
		what = "Sweep of "
	}
	return what + filepath.Base(s.o.traces[0])
}

// name is of the answer, or of its page.
func (s *searching) name(ending string) string {
	if s.o.sweep {
		return "sweep" + ending
	}
	return "capacity" + ending
}

// traceBytes is the setting that has the digest of the trace.
const traceBytes = "sha256 of its bytes"

// settings are all that the outcomes of probes depend on, by flag. They are search.json. Secrets are not among them.
func (s *searching) settings(replay map[string]any) map[string]string {
	o := s.o
	all := map[string]string{
		"--trace": strings.Join(each(o.traces, absolute), ","), "number of its requests": strconv.Itoa(s.requests),
		traceBytes: report.Digest(o.traces),
		"--url":    strings.Join(each(o.urls, withoutQuery), ","),
		"--slo":    o.slo, "--over": o.over, "--range": fmt.Sprintf("%v:%v", o.loads[0], o.loads[1]),
		"--window": o.window.String(), "--window-from": o.from, "--warm-in": o.warmIn.String(),
		"--precision": fmt.Sprint(o.precision), "--seed": fmt.Sprint(o.seed), "--at": fmt.Sprint(o.at),
	}
	for name, v := range replay {
		if name != "trace" {
			all["behind --, --"+name] = fmt.Sprintf("%s", v) // a text, JSON or a list
		}
	}
	return all
}

// open makes the directory of the search, or goes on with one.
func (s *searching) open(settings map[string]string) (err error) {
	s.dir = s.o.output
	var before map[string]string
	err = report.ReadJSON(filepath.Join(s.dir, settingsName), &before)
	if s.dir == "" || errors.Is(err, os.ErrNotExist) {
		s.dir, err = report.Create(s.dir, time.Now())
	}
	if err == nil {
		s.outcomes, err = report.ReadLines[capacity.Outcome](filepath.Join(s.dir, journalName))
	}
	switch {
	case err != nil:
		return err
	case len(s.outcomes) == 0:
		return report.WriteJSON(filepath.Join(s.dir, settingsName), settings)
	}
	if err := sameSettings(s.dir, before, settings); err != nil {
		return err
	}
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if err := o.Validate(i+1, len(s.objectives)); err != nil {
			return fmt.Errorf("%s:%d: %w; mend the file, or give another --output", filepath.Join(s.dir, journalName),
				i+1, err)
		}
		s.add(*o)
	}
	s.ui.line("goes on after probe %d in %s", len(s.outcomes), s.dir)
	return nil
}

// sameSettings refuses to go on with another search, and names the difference.
func sameSettings(dir string, was, is map[string]string) error {
	both := maps.Clone(is)
	maps.Copy(both, was)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		switch {
		case was[name] == is[name]:
		case name == traceBytes && was["--trace"] == is["--trace"]:
			return fmt.Errorf("%s is of another search: %s has been changed since then (its SHA-256 began with %s, "+
				"and begins with %s now); give the trace as it was, or another --output", dir, is["--trace"],
				was[name], is[name])
		default:
			return fmt.Errorf(
				"%s is of another search: %s was %q there, and is %q now; give the same, or another --output", dir,
				name, was[name], is[name])
		}
	}
	return nil
}

// add gives the search an outcome. One that measured nothing ends it: a harder load would show as little.
func (s *searching) add(o capacity.Outcome) {
	s.prober.Add(o)
	if s.search == nil || o.Client != "" || o.Measured() {
		return
	}
	why := o.Why
	if _, failed := o.Numbers[capacity.ErrorRate]; failed && o.Load > 1 && len(s.outcomes) < 2 {
		why += " Fewer requests at once may be answered: --range 1 begins with one."
	}
	s.prober.Stop(why)
}

// note adds the outcome of a probe, and writes the journal.
func (s *searching) note(o capacity.Outcome) error {
	s.outcomes = append(s.outcomes, o)
	s.add(o)
	err := report.WriteWhole(filepath.Join(s.dir, journalName), func(w io.Writer) (err error) {
		for i := range s.outcomes {
			err = errors.Join(err, json.NewEncoder(w).Encode(&s.outcomes[i]))
		}
		return err
	})
	if err != nil {
		return exitWith(exitInvalid, "results are incomplete on disk: %v", err)
	}
	return nil
}

// result is capacity.json, and what --json prints.
type result struct {
	Schema   int                `json:"schema"`   // version of this file: 1
	Sentence string             `json:"sentence"` // the answer in words
	Over     string             `json:"over"`     // what a load is, as --over
	SLO      string             `json:"slo"`      // objectives, as --slo
	Limiter  string             `json:"limiter"`  // what limits the load, in words
	Answer   capacity.Answer    `json:"answer"`   // the largest load and its interval
	Replicas *capacity.Replicas `json:"replicas"` // by minute of the trace; null if nobody knows
	Probes   []capacity.Outcome `json:"probes"`   // without slices, which probes.jsonl has
}

// result is what is known by now, and its page.
func (s *searching) result() (*result, *capacity.Page) {
	var a capacity.Answer
	if s.search != nil {
		a = s.search.Answer()
	}
	if sweep, is := s.prober.(*capacity.Sweep); is {
		a.Why = sweep.Why()
	}
	probes := slices.Clone(s.outcomes)
	for i := range probes {
		probes[i].Summarize(len(s.objectives))
	}
	page := &capacity.Page{
		Sweep: s.o.sweep, Title: s.title(), Unit: s.o.kind.unit, Head: s.o.kind.head, Servers: len(s.o.urls),
		Falling: s.config().Falling, Whole: s.config().Whole,
		Objectives: s.objectives, Answer: a, Replicas: s.replicas(a), Outcomes: probes,
		Load: s.named, Number: func(load float64) string { return s.number(load, exact) },
	}
	return &result{1, page.Headline(), s.o.over, s.o.slo, page.Limiter(), a, page.Replicas, probes}, page
}

// replicas is how many instances each minute of the trace would have needed; nil if nobody knows.
func (s *searching) replicas(a capacity.Answer) *capacity.Replicas {
	known := a.Part != nil && a.High != nil && s.spanS > 0
	if !known || a.Low == 0 && s.o.over != "instances" { // then no load is known to hold
		return nil
	}
	ofOne := 1 / float64(len(s.o.urls)) // of the load that the servers carry together, in requests per s
	if s.o.over != "rate" {
		ofOne *= a.Part.OfMeanRate * s.recordedRate()
	}
	if s.o.over == "instances" {
		ofOne *= float64(len(s.o.urls))
		return s.arrivals.Replicas(ofOne/a.Load, ofOne / *a.High)
	}
	return s.arrivals.Replicas(ofOne*a.Load, ofOne*a.Low)
}

// writePage writes what is known by now.
func (s *searching) writePage(p *capacity.Page) (err error) {
	name := filepath.Join(s.dir, s.name(".html"))
	for _, name := range slices.Compact([]string{name, cmp.Or(s.o.html, name)}) {
		err = errors.Join(err, report.WriteWhole(name, p.Write))
	}
	return err
}

// conclude writes and prints what came of it.
func (s *searching) conclude(out io.Writer, interrupted bool) error {
	r, page := s.result()
	sentences := append([]string{r.Sentence + ".", page.Sure() + "."}, page.Cautions()...)
	sentences = append(sentences, r.Answer.Doubt, r.Answer.Why, r.Answer.Part.Words(), r.Replicas.Words(page.Servers))
	var answer any = r
	if sweep, is := s.prober.(*capacity.Sweep); is {
		answer = swept{1, s.o.over, s.o.slo, sweep.Why(), page.Outcomes}
		sentences = append(append([]string{page.Headline() + "."}, page.Cautions()...), sweep.Why())
		if len(s.outcomes) > 0 {
			sentences = append(append(sentences, s.measured()...), s.warmIns())
		}
	}
	err := errors.Join(report.WriteJSON(filepath.Join(s.dir, s.name(".json")), answer), s.writePage(page))
	if s.o.csv != "" {
		err = errors.Join(err, report.WriteWhole(s.o.csv, page.WriteCSV))
	}
	if s.o.json {
		err = errors.Join(err, report.EncodeJSON(out, answer))
	} else {
		err = errors.Join(err, s.print(out, page, sentences...))
	}
	switch {
	case err != nil:
		return exitWith(exitInvalid, "%v", err)
	case interrupted:
		return exitWith(exitInterrupted, "interrupted; the same command with --output %s goes on", s.dir)
	case len(s.outcomes) > 0 && s.outcomes[len(s.outcomes)-1].Client != "":
		return &exitError{code: exitInvalid}
	}
	return nil
}

// warmIns says how long each load of a closed loop ran before it was measured; "" if that was given.
func (s *searching) warmIns() string {
	if s.o.over != "concurrency" || s.o.isSet("warm-in") {
		return ""
	}
	var each []string
	for i := range s.outcomes {
		each = append(each, format.Span(s.outcomes[i].WarmInS))
	}
	return "The warm-ins of the loads were " + strings.Join(each, ", ") + "; --warm-in sets one for all."
}

// measured says which part of the trace the loads of a sweep measured.
func (s *searching) measured() (words []string) {
	for i := range s.outcomes {
		part := s.outcomes[i].Part.MeasuredWords()
		if i == 0 {
			words = []string{part}
		} else if part != words[0] {
			return append(words, "That is the first load: others measured other parts ("+s.name(".json")+").")
		}
	}
	return words
}

// print writes the table of probes, and what follows from it.
func (s *searching) print(out io.Writer, page *capacity.Page, sentences ...string) error {
	t := format.NewPage(newTerminal(out).width, 0)
	t.Line("")
	for _, table := range []func() ([]string, [][]string){page.Table, page.OwnerTable} {
		if head, rows := table(); len(rows) > 0 {
			report.Table(&t, head, rows)
			t.Line("")
		}
	}
	for _, sentence := range sentences {
		t.Sentence("", sentence)
	}
	t.Line("  page  " + filepath.Join(s.dir, s.name(".html")))
	_, err := out.Write(t.Bytes())
	return err
}

// load is a load with its unit, for a table or a line.
func (s *searching) load(load float64) string {
	switch s.o.over {
	case "amplify", "scale":
		return "×" + s.number(load, exact)
	case "concurrency":
		return format.Many(int64(load), "request") + " in flight"
	case "instances":
		return format.Many(int64(load), "instance")
	}
	return s.number(load, exact) + " " + s.o.kind.unit
}

// named is load with the whole unit, for a title.
func (s *searching) named(load float64) string {
	if s.o.over == "amplify" || s.o.over == "scale" {
		return s.number(load, exact) + " " + s.o.kind.unit
	}
	return s.load(load)
}

// exact is how many digits a load has that is probed. Estimates have fewer.
const exact = 4

// number is a load without its unit. Trailing zeros of an estimate tell how well it is known.
func (s *searching) number(load float64, digits int) string {
	if s.o.over == "concurrency" || s.o.over == "instances" {
		return format.Count(int64(load))
	}
	text := format.Number(load, digits)
	if digits == exact && strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// view shows a probe that runs, the first part of which is a warm-in.
func (s *searching) view(p capacity.Probe, warmIn time.Duration, shown *atomic.Pointer[capacity.Peek]) view {
	began := time.Now()
	var running time.Time
	words := func(width int) string {
		peek := shown.Load()
		if peek != nil && running.IsZero() {
			running = time.Now()
		}
		text := s.load(p.Load) + ", "
		if p.Confirm {
			text = "confirming " + text
		}
		switch {
		case peek == nil:
			text += "reading, building, connecting"
		case len(peek.Slices) == 0:
			warm := min(warmIn, time.Since(running)).Truncate(time.Second)
			text += fmt.Sprintf("warm-in, %s of %s", format.Span(warm.Seconds()), format.Span(warmIn.Seconds()))
		default:
			text += s.seen(peek)
		}
		if s.search == nil {
			text = fmt.Sprintf("load %d of %d: ", p.Number, len(s.o.at)) + text
		} else {
			a := s.search.Answer()
			left := s.o.budget.Seconds() - a.SpentS - time.Since(began).Seconds()
			text = format.Span(max(0, left)) + " left, " + s.bracket(a) + ": " + text
		}
		return strings.Join(format.Fill(text, width), "\n")
	}
	const inLog = 78 // columns; the second line is indented
	return view{line: func() string { return words(inLog) }, screen: func(width, _ int) string { return words(width) }}
}

// bracket is what is known of the capacity, in a few columns.
func (s *searching) bracket(a capacity.Answer) string {
	switch {
	case a.Load == 0 && a.High == nil:
		return "nothing known"
	case a.High == nil:
		return "≥ " + s.number(a.Low, 3)
	case a.Low == 0:
		return "≤ " + s.number(*a.High, 3)
	}
	return "[" + s.number(a.Low, 3) + ", " + s.number(*a.High, 3) + "]"
}

// seen is what a peek at a probe shows: the objective of which most is used up.
func (s *searching) seen(peek *capacity.Peek) string {
	o := capacity.Outcome{Slices: peek.Slices}
	text := fmt.Sprintf("%s of %s", format.Span(float64(len(peek.Slices))*peek.SliceS), format.Span(peek.WindowS))
	o.Summarize(len(s.objectives))
	most := -1.0
	worst := ""
	for j, share := range o.Beyond {
		if used := share / s.objectives[j].Allowed; used > most {
			most, worst = used,
				fmt.Sprintf(", %s over %s", format.Percent(math.Round(share*1e3)/1e3), s.objectives[j].Text)
		}
	}
	return text + worst
}

// searching is a search that runs.
type searching struct {
	o          *probingOptions
	ui         *terminal
	objectives []capacity.Objective
	prober     prober
	search     *capacity.Search // nil of a sweep
	outcomes   []capacity.Outcome
	loopS      float64 // how long the trace lasts in the closed loop that is tried again; 0 = nobody knows
	dir        string
	model      string    // that all probes ask for
	requests   int       // of the trace
	shares     []float64 // of its requests that each objective is about
	spanS      float64   // of the trace
	timeline   capacity.Timeline
	arrivals   capacity.Timeline // of the trace, whatever the load is
}
