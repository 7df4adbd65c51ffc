package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/capacity"
)

// probeFlag makes a replay a probe of a search for capacity. It prints a look (capacity.Look) on each tick, a JSON line on standard
// output, and ends when its standard input does, which is a pipe that the search holds open.
type probeFlag struct {
	window     capacity.Span
	objectives []capacity.Objective // nil = the replay is no probe
	counter    *capacity.Counter
}

func (p *probeFlag) addFlag(f *pflag.FlagSet) {
	f.Var(&value[probeFlag]{to: p, parse: parseProbe, kind: "FROM,FOR,SLICE,OBJECTIVES"}, "capacity-probe", "of `fastreplay capacity`: be a probe")
}

// probeText is what the flag is given; parseProbe is the inverse.
func probeText(w capacity.Span, slo string) string {
	return strings.Join([]string{time.Duration(w.FromNS).String(), time.Duration(w.ForNS).String(), time.Duration(w.SliceNS).String(), slo}, ",")
}

func parseProbe(text string) (p probeFlag, err error) {
	parts := strings.SplitN(text, ",", 4)
	if len(parts) < 4 {
		return p, errors.New("want FROM,FOR,SLICE,OBJECTIVES")
	}
	for i, to := range []*int64{&p.window.FromNS, &p.window.ForNS, &p.window.SliceNS} {
		d, bad := time.ParseDuration(parts[i])
		*to, err = int64(d), cmp.Or(err, bad)
	}
	if err == nil && (p.window.FromNS < 0 || p.window.ForNS <= 0 || p.window.SliceNS <= 0) {
		err = errors.New("want times above 0")
	}
	if err == nil {
		p.objectives, err = capacity.ParseObjectives(parts[3])
	}
	return p, err
}

// begin ends this process if the search dies.
func (p *probeFlag) begin() {
	if p.objectives == nil {
		return
	}
	p.counter = capacity.NewCounter(p.objectives, p.window)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until its end
		os.Exit(exitInterrupted)
	}()
}

func (p *probeFlag) add(r *record.Record) {
	if p.counter != nil {
		p.counter.Add(r)
	}
}

// look prints what the probe has shown so far.
func (p *probeFlag) look(w io.Writer, run *engine.Run, ended bool) {
	if p.counter == nil {
		return
	}
	_ = json.NewEncoder(w).Encode(p.counter.Look(run.Clock().Now(), run.EachOpen, ended)) // nobody reads it if the search has ended
}
