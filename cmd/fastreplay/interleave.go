package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/compare"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// The values of --interleave.
const (
	interleaveABBA     = "abba"     // A, B, B, A, one after another
	interleaveTogether = "together" // A and B at the same instants, twice
)

// interleaved are the four runs of a comparison that makes them itself.
type interleaved struct {
	urls  map[byte]string // of sides a and b
	flags []string        // of the replay
	dir   string          // has a directory for each run, such as a1
	ui    *terminal
	all   *children
}

// newInterleaved checks what is asked for, before anything is sent: the words before and after "--", and the directory.
func newInterleaved(words, flags []string, output string, ui *terminal) (*interleaved, error) {
	if len(words) != 2 || len(flags) == 0 {
		return nil, errors.New("--interleave wants two servers, and what to replay after --, as `fastreplay compare --interleave abba A_URL B_URL -- trace.jsonl`")
	}
	for _, word := range words {
		if _, isRun := report.IsRun(word); isRun {
			return nil, fmt.Errorf("%s is the directory of a run; --interleave makes new runs against two URLs, and without it runs are compared", word)
		}
	}
	if err := checkReplay(flags); err != nil {
		return nil, fmt.Errorf("after --: %w", err)
	}
	if output == "" {
		output = filepath.Join(report.DefaultRoot, time.Now().UTC().Format("2006-01-02T150405Z")+"-compare")
	}
	return &interleaved{urls: map[byte]string{'a': words[0], 'b': words[1]}, flags: flags, dir: output, ui: ui}, report.Vacant(output)
}

// checkReplay refuses flags that no replay has, those that are set for each run, under whatever name, and a trace that can be read only once.
func checkReplay(flags []string) error {
	c := newReplayCommand()
	if err := c.ParseFlags(compat.Expand(flags, c.Flags(), false)); err != nil {
		return explainFlag(c, err)
	}
	own := []string{"url", "targets", "output", "start-at", "dry-run"}
	for _, name := range own {
		for _, n := range append(compat.Names(), compat.Name{Name: name, Flag: name}) {
			if n.Flag == name && c.Flags().Changed(n.Name) {
				return fmt.Errorf("--%s: leave it out here; it is set for each run", n.Name)
			}
		}
	}
	if traces, _ := c.Flags().GetStringArray("trace"); slices.Contains(append(traces, c.Flags().Args()...), "-") {
		return errors.New("--trace -: each run reads the trace, and standard input can be read once; give a file")
	}
	return nil
}

// run makes all runs. What is done when one fails or somebody interrupts stays.
func (r *interleaved) run(interleave string) (err error) {
	r.all = newChildren(r.ui)
	defer r.all.release()
	rounds := [][]string{{"a1"}, {"b1"}, {"b2"}, {"a2"}} // the runs of a round are made at once
	if interleave == interleaveTogether {
		rounds = [][]string{{"a1", "b1"}, {"a2", "b2"}}
		r.ui.line("note: A and B work at the same instants; if they share a machine, a gateway or a cache, each has a part of it")
	}
	for i, names := range rounds {
		if err = r.round(names, fmt.Sprintf("run %d of %d", i+1, len(rounds))); err == nil {
			continue
		}
		if os.Remove(r.dir) == nil { // it is empty
			_ = os.Remove(report.DefaultRoot)
		}
		if interrupted(err) {
			return &exitError{exitInterrupted, fmt.Sprintf("interrupted in run %d of %d; what was measured is in %s", i+1, len(rounds), r.dir)}
		}
		return err
	}
	return nil
}

func interrupted(err error) bool {
	exit := (*exitError)(nil)
	return errors.As(err, &exit) && exit.code == exitInterrupted
}

// startAhead is how far the start is from the moment when all are told of it.
const startAhead = 400 * time.Millisecond

// round makes runs that begin at the same moment, when all of them are ready. If one fails, the others are stopped.
func (r *interleaved) round(names []string, which string) error {
	var running []*child
	for _, name := range names {
		args := append([]string{"--url", r.urls[name[0]], "--output", r.dirOf(name), "--quiet", "--progress", progressNone}, r.flags...)
		one, err := r.all.start(args...)
		if err != nil {
			r.all.stop(os.Interrupt, true)
			for _, one := range running {
				<-one.ended
			}
			return err
		}
		running = append(running, one)
		r.ui.line("%s: %s, %s", which, name, workload.WithoutSecrets(r.urls[name[0]]))
	}
	began := time.Now().Add(startAhead)
	for _, one := range running {
		if !one.isReady() {
			r.all.stop(os.Interrupt, true)
		}
		began = time.Now().Add(startAhead)
	}
	endWatch := r.watch(names, began)
	ends := make([]error, len(running))
	var all sync.WaitGroup
	for i, one := range running {
		_, _ = fmt.Fprintln(one.stdin, began.UTC().Format(time.RFC3339Nano)) // if it has ended, its exit code says why
		all.Go(func() {
			if ends[i] = r.ended(names[i], one); ends[i] != nil {
				r.all.stop(os.Interrupt, true)
			}
		})
	}
	all.Wait()
	endWatch()
	if i := slices.IndexFunc(ends, func(err error) bool { return err != nil && !interrupted(err) }); i >= 0 {
		return ends[i] // for whose sake the others were stopped
	}
	return errors.Join(ends...)
}

// dirOf is where the results of a run are.
func (r *interleaved) dirOf(name string) string { return filepath.Join(r.dir, name) }

// ended waits for a run and prints its verdict, or returns why there is none.
func (r *interleaved) ended(name string, one *child) error {
	code, said := one.end()
	switch code {
	case exitOK, exitInvalid, exitMissed:
		first, _, _ := strings.Cut(said, "\n")
		r.ui.line("%s: %s", name, first)
		return nil
	case exitInterrupted:
		return &exitError{code: exitInterrupted}
	}
	if _, text, refused := strings.Cut(said, "fastreplay: "); refused {
		return fmt.Errorf("%s: %s", name, text)
	}
	return fmt.Errorf("%s ended with %v: %s", name, one.ProcessState, said)
}

// watch shows how long the runs of a round last.
func (r *interleaved) watch(names []string, began time.Time) (end func()) {
	text := func() string {
		line := strings.Join(names, " and ") + ": " + max(0, time.Since(began)).Round(time.Second).String()
		if p, err := report.ReadPlan(r.dirOf(names[0])); err == nil && p != nil && p.Load.SpanS > 0 {
			line += " of about " + time.Duration(p.Load.SpanS*1e9).Round(time.Second).String()
		}
		return line
	}
	return r.ui.watch(view{line: text, screen: func(int, int) string { return text() }})
}

// compared compares both runs of A with both of B. The noise floor is from the runs of the same side.
func (r *interleaved) compared(o compare.Options) (p compare.Pair, err error) {
	read := func(name string, dirs ...string) *compare.Side {
		side, failed := compare.ReadSide(dirs...)
		if err = cmp.Or(err, failed); err == nil {
			side.Name = name
		}
		return side
	}
	var floors [][2]*compare.Side
	for _, side := range []string{"a", "b"} {
		floors = append(floors, [2]*compare.Side{read("", r.dirOf(side+"1")), read("", r.dirOf(side+"2"))})
	}
	p.A = read(workload.WithoutSecrets(r.urls['a']), r.dirOf("a1"), r.dirOf("a2"))
	p.B = read(workload.WithoutSecrets(r.urls['b']), r.dirOf("b1"), r.dirOf("b2"))
	if err == nil {
		p.Result, err = compare.Compare(p.A, p.B, floors, o)
	}
	return p, err
}
