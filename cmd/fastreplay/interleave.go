package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// The values of --interleave.
const (
	interleaveABBA     = "abba"     // A, B, B, A, one after another
	interleaveTogether = "together" // A and B at the same instants, twice
)

const (
	defaultRuns    = 3                // a side; Student's t of 2 reaches far, and that of 5 little less far
	mostRuns       = 100              // a side
	restartTimeout = 15 * time.Minute // a large model takes minutes to load
)

// interleaved are the runs of a comparison that makes them itself.
type interleaved struct {
	urls    []string // of sides a and b
	flags   []string // of the replay
	seed    string   // the name of the flag, ours or another tool's
	first   uint64   // seed of the first pair; each later one has the next
	same    bool     // caches are to be warm, or the requests those of a file: then all pairs have one seed
	runs    int      // of each side
	restart string   // a shell command between runs; empty = none
	dir     string   // has a directory for each run, such as a1
	ui      *terminal
	said    map[string]bool // notes on the trace
}

// newInterleaved checks what is asked for, before anything is sent: the words before and after "--", and the directory.
func newInterleaved(words, flags []string, o *comparison, ui *terminal) (*interleaved, error) {
	if len(words) != 2 || len(flags) == 0 {
		return nil, errors.New(
			"--interleave wants two servers, and what to replay after --, as `fastreplay compare --interleave abba " +
				"A_URL B_URL -- trace.jsonl`",
		)
	}
	for _, word := range words {
		if _, isRun := report.IsRun(word); isRun {
			return nil, fmt.Errorf(
				"%s is the directory of a run; --interleave makes new runs against two URLs, and without it runs are "+
					"compared",
				word,
			)
		}
	}
	replay, err := parseReplay(flags)
	if err != nil {
		return nil, fmt.Errorf("after --: %w", err)
	}
	given := replay.line.Flags
	for _, name := range strings.Fields(takenByComparison) {
		if as := givenAs(given, name); as != "" {
			return nil, fmt.Errorf("after --: --%s: leave it out here; it is set for each run", as)
		}
	}
	if err := replay.line.Explain(replay.translate(given.Args())); err != nil {
		return nil, fmt.Errorf("after --: %w", err)
	}
	if slices.Contains(replay.Traces, "-") {
		return nil, errors.New(
			"after --: --trace -: each run reads the trace, and standard input can be read once; give a file",
		)
	}
	output := o.output
	if output == "" {
		output = filepath.Join(report.DefaultRoot, time.Now().UTC().Format("2006-01-02T150405Z")+"-compare")
	}
	return &interleaved{
		urls:    words,
		flags:   flags,
		seed:    cmp.Or(givenAs(given, "seed"), "seed"),
		first:   replay.Seed,
		same:    replay.Cold == probe.ColdOff || replay.Again.Fingerprint != "",
		runs:    o.runs,
		restart: o.restart,
		dir:     output,
		ui:      ui,
		said:    map[string]bool{},
	}, report.Vacant(output)
}

// run makes all runs, and returns the directories of both sides. What is done when one fails or somebody interrupts
// stays.
func (r *interleaved) run(ctx context.Context, interleave string) (dirs [][]string, err error) {
	ctx, interrupts := catchSignals(ctx, r.ui)
	defer interrupts.release()
	defer context.AfterFunc(ctx, func() { // another interrupt ends this process, and the runs cancel what is in flight
		r.ui.alert("interrupted: no further run is made; requests in flight may end; another interrupt cancels them")
	})()
	rounds := r.rounds(interleave)
	if interleave == interleaveTogether {
		r.ui.line(
			"note: A and B work at the same instants; if they share a machine, a gateway or a cache, each has a part " +
				"of it",
		)
	}
	checked, err := os.MkdirTemp("", "fastreplay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(checked)
	for i, together := range rounds {
		which := fmt.Sprintf("run %d of %d", i, len(rounds)-1)
		dir := r.dir
		if i == 0 {
			which = "check"
			dir = checked
		}
		err := r.prepare(ctx, i, which)
		if err == nil {
			err = r.round(ctx, dir, together, which)
		}
		if err != nil && os.Remove(r.dir) == nil { // it is empty
			_ = os.Remove(report.DefaultRoot)
		}
		if errors.Is(err, context.Canceled) {
			return nil, exitWith(exitInterrupted, "interrupted in %s; what was measured is in %s", which, r.dir)
		}
		if err != nil {
			return nil, err
		}
	}
	dirs = make([][]string, 2)
	for pair := range r.runs {
		for side := range dirs {
			dirs[side] = append(dirs[side], filepath.Join(r.dir, sideRun{side, pair}.String()))
		}
	}
	return dirs, nil
}

// sideRun is one of the runs: of side a or b, in a pair that counts from 0.
type sideRun struct{ side, pair int }

// String is the name of its directory, such as a1.
func (n sideRun) String() string { return fmt.Sprintf("%c%d", 'a'+n.side, n.pair+1) }

// seedOf is the flag that gives the pair of a run a seed. So its words are new to caches that kept those of earlier
// pairs and cannot be flushed. A flush also leaves some alone, such as those in the host's memory.
func (r *interleaved) seedOf(n sideRun) []string {
	if r.same || n.pair == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--%s=%d", r.seed, r.first+uint64(n.pair))}
}

// givenAs is the name, ours or another tool's, under which a flag was given; "" if it was not.
func givenAs(flags *pflag.FlagSet, name string) string {
	for _, n := range append(compat.Names(), compat.Name{Name: name, Flag: name}) {
		if n.Flag == name && flags.Changed(n.Name) {
			return n.Name
		}
	}
	return ""
}

// rounds are the runs that are made at once; the first one is a check. If runs follow each other, the sides take turns
// to be first as the digits of Thue and Morse do. That is A B, B A, B A, A B. So a steady drift counts for both alike.
func (r *interleaved) rounds(interleave string) [][]sideRun {
	all := [][]sideRun{{{side: 1}}}
	for pair := range r.runs {
		a := sideRun{0, pair}
		b := sideRun{1, pair}
		switch {
		case interleave == interleaveTogether:
			all = append(all, []sideRun{a, b})
		case bits.OnesCount(uint(pair))%2 == 1:
			all = append(all, []sideRun{b}, []sideRun{a})
		default:
			all = append(all, []sideRun{a}, []sideRun{b})
		}
	}
	return all
}

// prepare runs the command of --restart before a round, but for the check and the first one, and says how it ended. It
// is an error if it fails or takes too long. What it leaves running stays.
func (r *interleaved) prepare(ctx context.Context, round int, which string) error {
	if r.restart == "" || round < 2 {
		return nil
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	code, output, err := host.Shell(limited, host.UsualNice, r.restart) // servers that it starts keep the priority
	if ctx.Err() != nil {
		return context.Canceled
	}
	output = strings.TrimSpace(output)
	output = cmp.Or(format.Visible(output[max(0, len(output)-4096):]), "nothing")
	ended := fmt.Sprintf("--restart before %s: exit code %d after %s; it said: %s",
		which, code, time.Since(began).Round(time.Second), output)
	switch {
	case limited.Err() != nil && err != nil:
		return exitWith(exitInvalid, "--restart before %s took longer than %v and was ended; it said: %s",
			which, restartTimeout, output)
	case err != nil:
		return exitWith(exitInvalid, "--restart before %s: %v", which, err)
	case code != 0:
		return exitWith(exitInvalid, "%s", ended)
	}
	r.ui.line("%s", ended)
	return nil
}

// startAhead is how far the common start of two runs is from the moment when both are told of it. A second was too
// little on a machine with a load of 30.
const startAhead = 2 * time.Second

// round makes runs that begin at the same moment, when all of them are ready. A check ends them then: so what B refuses
// is known before anything is sent to A. If one does not get ready, the others are ended, too. Its error is
// context.Canceled if ctx ends.
func (r *interleaved) round(ctx context.Context, dir string, together []sideRun, which string) (err error) {
	var runs []*child
	var names []string
	said := make([]bytes.Buffer, len(together)) // for people
	for i, one := range together {
		name := one.String()
		url := r.urls[one.side]
		names = append(names, name)
		r.ui.line("%s: %s, %s", which, name, workload.WithoutSecrets(url))
		c, failed := startChild("a replay", &said[i], slices.Concat(
			[]string{"--start-at", "-", "--url", url, "--output", filepath.Join(dir, name),
				"--quiet", "--progress", progressNone},
			r.flags,
			r.seedOf(one),
		)...)
		if err = cmp.Or(err, failed); failed == nil {
			runs = append(runs, c)
		}
	}
	defer context.AfterFunc(ctx, func() {
		for _, c := range runs {
			_ = c.Process.Signal(os.Interrupt) // it may have ended
		}
	})()
	goesOn := which != "check" && err == nil
	for _, c := range runs {
		_, notReady := c.out.ReadString('\n')
		goesOn = goesOn && notReady == nil
	}
	began, start := time.Now(), "now" // a run alone waits for nobody, and so it cannot be late
	if len(runs) > 1 {
		began = began.Add(startAhead)
		start = began.UTC().Format(time.RFC3339Nano)
	}
	for _, c := range runs {
		if goesOn {
			_, _ = fmt.Fprintln(c.in, start) // if it has ended, its exit code says why
		} else {
			_ = c.Process.Signal(os.Interrupt)
		}
	}
	text := func() string {
		line := strings.Join(names, " and ") + ": " + max(0, time.Since(began)).Round(time.Second).String()
		if p, err := report.ReadPlan(filepath.Join(dir, names[0])); err == nil && p != nil && p.Load.SpanS > 0 {
			line += " of about " + time.Duration(p.Load.SpanS*1e9).Round(time.Second).String()
		}
		return line
	}
	endWatch := r.ui.watch(view{line: text, screen: func(int, int) string { return text() }})
	defer endWatch()
	for i, c := range runs {
		_, _ = io.Copy(io.Discard, c.out)
		_ = c.Wait()
		code := c.ProcessState.ExitCode()
		words := strings.TrimSpace(said[i].String())
		_, refused, isRefusal := strings.Cut(words, "fastreplay: ")
		switch {
		case code == exitInterrupted && !goesOn: // it was ready
		case code == exitInterrupted || code < 0 && ctx.Err() != nil:
			err = cmp.Or(err, context.Canceled)
		case code == exitOK || code == exitInvalid || code == exitMissed || code == exitUndecided:
			r.tell(names[i], words)
		case isRefusal:
			err = cmp.Or(err, fmt.Errorf("%s: %s", names[i], refused))
		default:
			err = cmp.Or(err, fmt.Errorf("%s ended with %v: %s", names[i], c.ProcessState, words))
		}
	}
	return cmp.Or(ctx.Err(), err)
}

// tell prints the verdict of a run, and before it what the run said of the trace, unless another one said so, too.
func (r *interleaved) tell(name, said string) {
	for line := range strings.Lines(said) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, traceDoubt) {
			r.ui.line("%s: %s", name, line)
			return
		}
		if !r.said[line] {
			r.ui.line("%s", line)
		}
		r.said[line] = true
	}
}

// child is this program once more, in a process group of its own: a Ctrl-C is for this process, which passes it on.
type child struct {
	*exec.Cmd
	in  io.WriteCloser // its end is how the child notices that this process has died
	out *bufio.Reader  // to be read to its end before Wait
}

// startChild starts what these arguments make of this program.
func startChild(what string, stderr io.Writer, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", what, err)
	}
	c := &child{Cmd: exec.Command(self, args...)}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stderr = stderr
	out, err := c.StdoutPipe()
	in, failed := c.StdinPipe()
	if err = cmp.Or(err, failed); err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", what, err)
	}
	c.in = in
	c.out = bufio.NewReader(out)
	return c, nil
}

// stop ends a child that serves, and waits for it.
func (c *child) stop() {
	_ = c.in.Close()
	_ = c.Process.Signal(syscall.SIGTERM)
	_ = c.Wait()
}
