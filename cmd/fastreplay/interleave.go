package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/engine/compare"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// The values of --interleave.
const (
	interleaveABBA     = "abba"     // A, B, B, A, one after another
	interleaveTogether = "together" // A and B at the same instants, twice
)

// interleaved are the runs of a comparison that makes them itself.
type interleaved struct {
	urls  map[byte]string // of sides a and b
	flags []string        // of the replay
	dir   string          // has a directory for each run, such as a1
	ui    *terminal
	all   *children
}

// runsMade is how many runs there are.
const runsMade = 4

// rounds are the runs, in the order in which they are made. Those of a round are made at once.
func rounds(interleave string) [][]string {
	if interleave == interleaveTogether {
		return [][]string{{"a1", "b1"}, {"a2", "b2"}}
	}
	return [][]string{{"a1"}, {"b1"}, {"b2"}, {"a2"}}
}

// newInterleaved checks what is asked for, before anything is sent: the words before and after "--", and the directory.
func newInterleaved(words, flags []string, output string, ui *terminal) (*interleaved, error) {
	if len(words) != 2 {
		return nil, fmt.Errorf("--interleave wants two servers and then the flags of a replay, as `fastreplay compare --interleave abba A_URL B_URL -- trace.jsonl`; %s given",
			format.Many(int64(len(words)), "word"))
	}
	for _, word := range words {
		if _, isRun := report.IsRun(word); isRun {
			return nil, fmt.Errorf("%s is the directory of a run; --interleave makes new runs against two URLs, and without it runs are compared", word)
		}
	}
	if len(flags) == 0 {
		return nil, errors.New("--interleave wants what to replay after --, such as -- trace.jsonl --scale 2")
	}
	if err := checkReplayFlags(flags, "url", "targets", "output"); err != nil {
		return nil, fmt.Errorf("after --: %w", err)
	}
	if output == "" {
		output = filepath.Join(report.DefaultRoot, time.Now().UTC().Format("2006-01-02T150405Z")+"-compare")
	}
	return &interleaved{urls: map[byte]string{'a': words[0], 'b': words[1]}, flags: flags, dir: output, ui: ui}, report.Vacant(output)
}

// run makes all runs. What is done when one fails or somebody interrupts stays.
func (r *interleaved) run(interleave string) error {
	r.all = newChildren(r.ui)
	defer r.all.release()
	if interleave == interleaveTogether {
		r.ui.line("note: A and B work at the same instants; if they share a machine, a gateway or a cache, each has a part of it")
	}
	begun := 0
	for _, names := range rounds(interleave) {
		err := r.round(names, begun)
		if err == nil {
			begun += len(names)
			continue
		}
		if os.Remove(r.dir) == nil { // it is empty
			_ = os.Remove(report.DefaultRoot)
		}
		if stopped := (*exitError)(nil); errors.As(err, &stopped) && stopped.code == exitInterrupted {
			return &exitError{exitInterrupted, fmt.Sprintf("interrupted after %d of %d runs; what was measured is in %s", begun, runsMade, r.dir)}
		}
		return err
	}
	return nil
}

// round makes the runs of a round, which begin at the same moment when all of them are ready.
func (r *interleaved) round(names []string, begun int) (err error) {
	var running []*child
	for i, name := range names {
		args := append([]string{"--quiet", "--progress", progressNone}, r.flags...)
		args = slices.Insert(args, 0, "--url", r.urls[name[0]], "--output", r.dirOf(name))
		var one *child
		if one, err = r.all.start(args...); err != nil {
			break
		}
		running = append(running, one)
		r.ui.line("run %d of %d: %s, %s", begun+i+1, runsMade, name, workload.WithoutSecrets(r.urls[name[0]]))
	}
	ready := err == nil
	for _, one := range running {
		ready = one.isReady() && ready
	}
	at := time.Now().Add(startAhead)
	if !ready {
		r.all.stop()
	}
	for _, one := range running {
		one.begin(at)
	}
	endWatch := r.watch(names, at)
	ends := make([]error, len(running))
	var all sync.WaitGroup
	for i, one := range running {
		all.Go(func() {
			if ends[i] = r.ended(names[i], one); ends[i] != nil {
				r.all.stop()
			}
		})
	}
	all.Wait()
	endWatch()
	return worst(append(ends, err))
}

// dirOf is where the results of a run are.
func (r *interleaved) dirOf(name string) string { return filepath.Join(r.dir, name) }

// startAhead is how far the start is from the moment when all are told of it.
const startAhead = 400 * time.Millisecond

// worst returns the error that made the others: a run that is stopped for another one's sake was interrupted.
func worst(errs []error) (err error) {
	for _, e := range errs {
		stopped := (*exitError)(nil)
		if e != nil && (err == nil || !errors.As(e, &stopped)) {
			err = e
		}
	}
	return err
}

// ended waits for a run and prints its verdict, or returns why there is none.
func (r *interleaved) ended(name string, one *child) error {
	code, said := one.end()
	first, _, _ := strings.Cut(said, "\n")
	switch code {
	case exitOK, exitInvalid, exitMissed:
		r.ui.line("%s: %s", name, first)
		return nil
	case exitInterrupted:
		return &exitError{code: exitInterrupted}
	}
	const mark = "fastreplay: "
	if i := strings.LastIndex(said, mark); i >= 0 {
		return fmt.Errorf("%s: %s", name, said[i+len(mark):])
	}
	return fmt.Errorf("%s ended with %v: %s", name, one.cmd.ProcessState, said)
}

// watch shows how long the runs of a round last.
func (r *interleaved) watch(names []string, began time.Time) (end func()) {
	text := func() string {
		line := strings.Join(names, " and ") + ": " + time.Since(began).Round(time.Second).String()
		if p, err := report.ReadPlan(r.dirOf(names[0])); err == nil && p != nil && p.Load.SpanS > 0 {
			line += " of about " + time.Duration(p.Load.SpanS*float64(time.Second)).Round(time.Second).String()
		}
		return line
	}
	return r.ui.watch(view{line: text, screen: func(int, int) string { return text() }})
}

// compared compares both runs of A with both of B. The noise floor is from the runs of the same side.
func (r *interleaved) compared(o compare.Options) (p compare.Pair, err error) {
	runs := map[string]*compare.Side{}
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		if runs[name], err = compare.ReadSide("", r.dirOf(name)); err != nil {
			return p, err
		}
	}
	if p.A, err = compare.ReadSide(workload.WithoutSecrets(r.urls['a']), r.dirOf("a1"), r.dirOf("a2")); err != nil {
		return p, err
	}
	if p.B, err = compare.ReadSide(workload.WithoutSecrets(r.urls['b']), r.dirOf("b1"), r.dirOf("b2")); err != nil {
		return p, err
	}
	p.Result, err = compare.Compare(p.A, p.B, [][2]*compare.Side{{runs["a1"], runs["a2"]}, {runs["b1"], runs["b2"]}}, o)
	return p, err
}
