package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/report"
)

// load is a load with its unit, for a table or a line.
func (s *searching) load(load float64) string {
	if s.o.over == "amplify" || s.o.over == "scale" {
		return "×" + s.number(load, 4)
	}
	return s.number(load, 4) + " " + s.o.kind.unit
}

// number is a load without its unit.
func (s *searching) number(load float64, digits int) string {
	if s.o.over == "concurrency" || s.o.over == "instances" {
		return format.Count(int64(load))
	}
	return format.Number(load, digits)
}

// view shows a probe that runs, the first part of which is a warm-in.
func (s *searching) view(p capacity.Probe, warmIn time.Duration, shown *atomic.Pointer[capacity.Look]) view {
	began, running := time.Now(), time.Time{}
	line := func() string {
		text := fmt.Sprintf("probe %d at %s: ", p.Number, s.load(p.Load))
		if left := s.o.budget.Seconds() - s.search.Answer().SpentS - time.Since(began).Seconds(); s.o.budget > 0 {
			text = format.Span(max(0, left)) + " left, " + text
		}
		look := shown.Load()
		if look != nil && running.IsZero() {
			running = time.Now()
		}
		switch {
		case look == nil:
			return text + "reading, building, connecting"
		case len(look.Slices) == 0:
			return text + fmt.Sprintf("warm-in, %s of %s", format.Span(min(warmIn, time.Since(running)).Seconds()), format.Span(warmIn.Seconds()))
		}
		requests, beyond := int64(0), make([]int64, len(s.objectives))
		for i := range look.Slices {
			requests += look.Slices[i].Requests
			for j, n := range look.Slices[i].Beyond {
				beyond[j] += n
			}
		}
		text += fmt.Sprintf("%s of %s, %s", format.Span(float64(len(look.Slices))*look.SliceS), format.Span(look.WindowS), format.Many(requests, "request"))
		for j, n := range beyond {
			text += fmt.Sprintf(", %s beyond %s", format.Percent(float64(n)/float64(max(1, requests))), s.objectives[j].Text)
		}
		return text + fmt.Sprintf(", %.0f in flight", look.Slices[len(look.Slices)-1].InFlight)
	}
	return view{line: line, screen: func(width, _ int) string { return line() }}
}

// sentence is the answer in one line.
func (s *searching) sentence(a capacity.Answer) string {
	text, unit := s.number(a.Load, 3), " "+s.o.kind.unit
	switch {
	case a.Load == 0 && a.High != nil:
		text = "Below " + s.number(*a.High, 3) + unit
	case a.Load == 0:
		text = "No load is known to hold"
	case a.Low > 0 && a.High != nil:
		text += unit + " [" + s.number(a.Low, 3) + ", " + s.number(*a.High, 3) + "]"
	case a.High != nil:
		text = "At most " + text + unit
	default:
		text = "At least " + text + unit
	}
	if limiter := s.limiter(a); limiter != "" {
		text += ", limited by " + limiter
	}
	return fmt.Sprintf("%s; %s, %s", text, format.Many(int64(a.Probes), "probe"), format.Span(a.SpentS))
}

// limiter is what broke first, by the probe that broke the nearest to the capacity.
func (s *searching) limiter(a capacity.Answer) string {
	distance := func(o *capacity.Outcome) float64 { return max(o.Load/a.Load, a.Load/o.Load) }
	var nearest *capacity.Outcome
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if o.Limiter != "" && o.Verdict == capacity.Breaks && o.Client == "" && (nearest == nil || distance(o) < distance(nearest)) {
			nearest = o
		}
	}
	if nearest != nil {
		return nearest.Limiter
	}
	return a.Limits
}

// result is capacity.json, and what --json prints.
type result struct {
	Sentence string             `json:"sentence"`
	Over     string             `json:"over"`
	SLO      string             `json:"slo"`
	Limiter  string             `json:"limiter"`
	Answer   capacity.Answer    `json:"answer"`
	Probes   []capacity.Outcome `json:"probes"` // without slices, which probes.jsonl has
}

func (s *searching) result() *result {
	a, probes := s.search.Answer(), slices.Clone(s.outcomes)
	for i := range probes {
		probes[i].Summarize(len(s.objectives))
	}
	if s.tooShort != "" {
		a.Why = s.tooShort
	}
	return &result{s.sentence(a), s.o.over, s.o.slo, s.limiter(a), a, probes}
}

// writePage writes what is known by now.
func (s *searching) writePage() error {
	r := s.result()
	p := capacity.Page{Title: "Capacity of " + filepath.Base(s.o.traces[0]), Sentence: r.Sentence, Unit: s.o.kind.unit, Objectives: s.objectives, Answer: r.Answer, Outcomes: r.Probes, Load: s.load}
	for _, name := range slices.Compact([]string{filepath.Join(s.dir, capacityPage), cmp.Or(s.o.html, filepath.Join(s.dir, capacityPage))}) {
		if err := report.WriteWhole(name, p.Write); err != nil {
			return err
		}
	}
	return nil
}

// conclude writes and prints the answer.
func (s *searching) conclude(out io.Writer, interrupted bool) error {
	r := s.result()
	err := report.WriteWhole(filepath.Join(s.dir, answerName), func(w io.Writer) error { return report.EncodeJSON(w, r) })
	if err == nil {
		err = s.writePage()
	}
	if s.o.json && err == nil {
		err = report.EncodeJSON(out, r)
	} else if err == nil {
		_, err = out.Write(s.table(r))
	}
	client := len(s.outcomes) > 0 && s.outcomes[len(s.outcomes)-1].Client != ""
	switch {
	case err != nil:
		return &exitError{exitInvalid, err.Error()}
	case interrupted:
		return &exitError{exitInterrupted, fmt.Sprintf("interrupted; the same command with --output %s goes on", s.dir)}
	case client:
		return &exitError{code: exitInvalid}
	}
	return nil
}

// table is the answer for a terminal.
func (s *searching) table(r *result) []byte {
	page := format.NewPage(newTerminal(nil).width, 0)
	page.Line("")
	if len(r.Probes) > 0 {
		load, unit := s.load, ""
		if s.o.over != "amplify" && s.o.over != "scale" { // once, above all
			load, unit = func(load float64) string { return s.number(load, 4) }, "  "+s.o.kind.unit
		}
		head, rows := capacity.Table(r.Probes, s.objectives, load)
		head[0] += unit
		page.Table(10, head, rows)
		page.Line("")
	}
	page.Sentence("", r.Sentence)
	page.Sentence("", r.Answer.Why)
	page.Line("  page  " + filepath.Join(s.dir, capacityPage))
	return page.Bytes()
}
