package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/sched"
)

// results takes a run's records to the disk and to the meter. It is the engine's Sink.
type results struct {
	*built
	out       io.Writer // gets the summary with --json
	dir       string
	collector *metrics.Collector
	meter     *live.Meter // what is shown during the run
	run       *engine.Run // nil before it is made
	writer    *report.Writer
	servers   *serverWatch // nil before they are watched
}

// compressedFrom is how many requests make a file of records that is compressed: about 1 GB.
const compressedFrom = 1_000_000

// newResults puts the plan of the run into the directory of the results, and makes the file of records.
func newResults(b *built, dir string, out io.Writer) (*results, error) {
	known := b.known()
	err := errors.Join(report.WritePlan(dir, known), b.writeShard(dir))
	if err != nil {
		return nil, err
	}
	s := &results{built: b, out: out, dir: dir, collector: metrics.NewCollector(b.URLs(), b.o.goodput.slos...), meter: b.meter(known)}
	s.writer, err = report.NewWriter(dir, report.WriterOptions{Compress: b.o.compress || b.Requests() >= compressedFrom, OnState: s.onDisk, OnRemoved: b.ui.removed})
	return s, err
}

// Record implements engine.Sink.
func (s *results) Record(rec *record.Record, target int) {
	s.collector.Add(rec, target)
	s.meter.Add(s.run.Clock().Now(), rec, target)
	s.writer.Append(rec)
	s.o.probe.add(rec)
}

// Tick implements engine.Sink: it writes the collected records to disk. A failure is printed once, by onDisk, and tried again.
func (s *results) Tick() {
	s.meter.Observe(counts(s.run))
	_ = s.writer.Flush()
	s.o.probe.look(s.out, s.run, false)
}

// Gaps implements engine.Sink.
func (s *results) Gaps(target int, gapsNS []int64, moved []metrics.MovedGap) {
	s.collector.AddGaps(target, gapsNS, moved...)
}

func (s *results) onDisk(err error) {
	if err != nil {
		s.ui.alert("results: %v", err)
		return
	}
	s.ui.alert("results: the disk takes records again; none is lost")
}

// discard takes back an output directory to which nothing was sent.
func (s *results) discard() error {
	_, err := s.writer.Close()
	if s.servers != nil && s.servers.file != nil {
		_ = s.servers.file.Close()
	}
	for _, name := range []string{report.RequestsName, report.RequestsName + ".zst", report.ServerMetricsName, report.PlanName, shard.FileName, shard.PlannedNextName, shard.DigestsName} {
		_ = os.Remove(filepath.Join(s.dir, name))
	}
	return err
}

// conclude writes what a finished run leaves behind, shows it, and turns the verdict into the exit code.
func (s *results) conclude(found engine.Result, records []record.Record) error {
	if !found.Run.Partial {
		s.o.probe.look(s.out, s.run, true)
	}
	if n, row, want, got := audit.Miscounted(s.Work, records); n > 0 {
		s.ui.note("the servers counted other numbers of tokens in %s than were counted before the start (row %d: %s, not %s), so their ideal hits are not to be relied on: is --tokenizer the model's own, and does /tokenize use the template of the run?",
			format.Many(n, "prompt"), row, format.Count(got), format.Count(want))
	}
	unwritten, diskErr := s.writer.Close()
	info := s.info(found)
	info.Servers = s.servers.summary()
	info.Requests.Unwritten, info.Records = unwritten, s.writer.Lines()
	work := s.Work
	info.PrefixCache.OvertakenTokens = audit.OvertakenTokens(work, records)
	if s.sharded != nil && info.Servers != nil {
		s.sharded.Counted = &s.servers.counted
	}
	if s.sharded == nil { // else the caches and routers had more to do than this
		info.PrefixCache.Shortfall = audit.Shortfall(work, records, s.collector.CountedHits(info.Servers))
		info.Routing = audit.CompareRouters(work, records)
	}
	summary := s.collector.Summary(info, metrics.Probed{Unknown: s.unknown, Unproven: s.unproven, CacheOff: work.CacheOff})
	summary.Notes = append(summary.Notes, s.o.unnamed(summary)...)
	diskErr = cmp.Or(diskErr,
		report.WriteHistograms(s.dir, s.collector, found.Run.StartedAt, found.Ended), report.WriteSummary(s.dir, summary),
		report.WriteTimeline(s.dir, s.collector.Timeline()), s.servers.err, s.writeShard(s.dir))
	if diskErr == nil {
		diskErr = errors.Join(writeExports(s.ui, s.dir, s.o.exports), s.writeNamed())
	} else if len(s.o.exports)+len(s.o.line.Results) > 0 {
		s.ui.line("not exported, since the results are incomplete on disk")
	}
	if err := s.show(summary); err != nil { // last, so that it stays on the screen
		return err
	}
	return ending(found.Run.Partial && found.Run.SenderDied == "", summary, diskErr)
}

// ending turns how a run ended into its exit code.
func ending(stopped bool, s *metrics.Summary, diskErr error) error {
	text := ""
	if diskErr != nil {
		text = "results are incomplete on disk: " + diskErr.Error()
	}
	switch {
	case stopped:
		return &exitError{exitInterrupted, text}
	case diskErr != nil:
		return &exitError{exitInvalid, text}
	case !s.Verdict.Valid && !report.DemoWorked(s):
		return &exitError{code: exitInvalid}
	case s.Verdict.Missed() > 0:
		return &exitError{code: exitMissed}
	}
	return nil
}

// mostPaged is of how many requests a run makes a page by itself: 100,000 took 1.3 s, and 1 kB of memory each.
const mostPaged = 1_000_000

func (s *results) show(summary *metrics.Summary) error {
	err := s.stillRead(s.ui.summary(summary, s.o.full, report.PrintOptions{Dir: s.dir, Page: writePage(s.dir, summary, s.ui), Steps: report.Steps(s.dir)}))
	if err == nil && s.o.json {
		err = s.stillRead(report.EncodeJSON(s.out, summary))
	}
	if err != nil {
		return &exitError{exitInvalid, "printing the summary: " + err.Error()}
	}
	return nil
}

// stillRead returns err, unless it means that the pipe or the terminal was closed: the results are on disk.
func (s *results) stillRead(err error) error {
	if errors.Is(err, syscall.EPIPE) || s.ui.width > 0 && errors.Is(err, syscall.EIO) {
		return nil
	}
	return err
}

func addExportFlag(f *pflag.FlagSet, names *[]string) {
	f.StringArrayVar(names, "export", nil, "also write the results as the files of a `TOOL`: "+strings.Join(export.Names(), ", ")+"; repeatable")
}

func checkExports(names []string) error {
	if err := export.Check(names); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// writeExports writes each export once, whatever becomes of another one; slos take the place of the run's own.
func writeExports(say *terminal, dir string, names []string, slos ...metrics.SLO) error {
	var errs []error
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		paths, err := export.Write(dir, name, slos...)
		if err != nil {
			errs = append(errs, fmt.Errorf("--export %s: %w", name, err))
			continue
		}
		say.line("exported for %s: %s", name, strings.Join(paths, ", "))
	}
	return errors.Join(errs...)
}

// placeResults decides where the files that other tools' flags name lie, in the directory of the results or elsewhere, and refuses those
// that cannot be written or would take the place of another.
func (o *options) placeResults(dir string) error {
	taken := map[string]bool{}
	for _, name := range append(report.OwnNames(), shard.FileName, shard.PlannedNextName, shard.DigestsName) {
		taken[filepath.Join(dir, name)] = true
	}
	for _, path := range export.Paths(dir, o.exports) {
		taken[path] = true
	}
	for _, r := range o.line.Results {
		for i, path := range r.Paths {
			if r.InDir && !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			path = filepath.Clean(path)
			if taken[path] {
				return fmt.Errorf("%s is another file of this run's results; choose another name for what %s would write", path, r.Export)
			}
			taken[path], r.Paths[i] = true, path
		}
		if err := export.Vacant(r.Paths); err != nil {
			return fmt.Errorf("what %s would write: %w", r.Export, err)
		}
	}
	return nil
}

// writeNamed writes the files that other tools' flags name.
func (s *results) writeNamed() error {
	var errs []error
	for _, r := range s.o.line.Results {
		if err := export.WriteTo(s.dir, r.Export, r.Paths); err != nil {
			errs = append(errs, err)
			continue
		}
		s.ui.line("written as %s would: %s", r.Export, strings.Join(r.Paths, ", "))
	}
	return errors.Join(errs...)
}

// checkInstance refuses headers and fields that cannot exist. It reads the field, and leaves the headers out if only that is given.
func (o *options) checkInstance() error {
	for _, name := range o.instanceHeaders {
		if err := (&http1.Header{Name: name}).Validate(); err != nil {
			return fmt.Errorf("--instance-header %q: %w", name, err)
		}
	}
	if !o.given("instance-field") {
		return nil
	}
	if o.instancePath = strings.Split(o.instanceField, "."); slices.Contains(o.instancePath, "") {
		return fmt.Errorf("--instance-field %q: want keys with dots between them, such as meta_info.worker", o.instanceField)
	}
	if !o.given("instance-header") {
		o.instanceHeaders = nil
	}
	return nil
}

// unnamed returns a note if no answer had the header or field that was to name the instance.
func (o *options) unnamed(s *metrics.Summary) []string {
	var asked []string
	if o.given("instance-header") {
		asked = append(asked, "the header "+strings.Join(o.instanceHeaders, " or "))
	}
	if o.given("instance-field") {
		asked = append(asked, "the field "+o.instanceField)
	}
	if asked == nil || s.Instances != nil || s.Requests.OK == 0 {
		return nil
	}
	return []string{fmt.Sprintf("no answer had %s: which instance answered is unknown", strings.Join(asked, " or "))}
}

// info adds to what the run found what was asked for: the part of the summary that the collector does not count.
func (s *results) info(found engine.Result) metrics.Summary {
	found.Client.LoadS, found.Client.PrebuildS = s.load.seconds, s.built.seconds
	if found.Turns != nil {
		found.Turns.Sessions = s.o.sessions.String()
	}
	return metrics.Summary{
		Run: s.runInfo(found.Run), Workload: s.workloadInfo(found.LeftOut), Client: found.Client,
		Requests:    metrics.Requests{Planned: int64(s.Requests() + len(s.leftOut) - len(found.LeftOut))},
		Connections: found.Connections, Writes: found.Writes, Cap: found.Cap, Turns: found.Turns, History: found.History, Answers: s.answers(), BuildAhead: found.BuildAhead,
		Amplify: s.amplify, Limits: s.o.limits, Notes: slices.Concat(s.ui.notes, s.leftOutNotes(found.LeftOut), s.idleNotes(found), placementNotes(found.Placement)),
	}
}

// idleNotes notes what was cut of times in which nothing was in flight.
func (s *results) idleNotes(found engine.Result) []string {
	if found.IdleGaps == 0 && s.o.sessions.atRun() {
		return []string{"--idle-cap: something was always in flight, or soon again: nothing was cut"}
	} else if found.IdleGaps == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--idle-cap: %s nothing was in flight for longer, and what was still to come came earlier, by %s in all",
		format.Many(found.IdleGaps, "time"), format.Span(found.IdleCut.Seconds()))}
}

func placementNotes(p sched.Placement) []string {
	if p.FIFO || p.Refused == "" {
		return nil
	}
	return []string{fmt.Sprintf("the sending thread ran without SCHED_FIFO (%s), under %s; root or CAP_SYS_NICE make it more punctual", p.Refused, p)}
}

func (s *built) runInfo(run metrics.Run) metrics.Run {
	run.Scale, run.Pace, run.Arrival, run.Warmup = s.o.pacing.scale, s.o.pacing.words(), s.o.pacing.summary(), int64(s.o.warmup)
	run.Targets, run.API, run.Model, run.Version = s.URLs(), s.o.api, s.shownModel(), buildVersion()
	if s.o.pacing.closed() {
		if run.Concurrency = int64(s.o.pacing.concurrency); s.sharded != nil {
			run.Concurrency = int64(s.o.shard.Of(s.o.pacing.concurrency))
		}
	}
	run.Host, run.Options, run.Demo = thisHost(), s.resolved(), s.target.mock != nil
	return run
}

func (s *built) workloadInfo(out []int32) metrics.Workload {
	t, n := s.Trace, s.Requests()-len(out)
	w := metrics.Workload{
		Trace: t.Name, Format: t.Format, Rows: int64(t.FileRows), Requests: int64(n), Repeat: int64(s.o.repeat), BlockTokens: int64(t.BlockTokens),
		RepairedRows: int64(t.Lint.Repaired), DroppedRows: int64(t.Lint.Dropped), Fingerprint: s.Prebuilt.Fingerprint(s.Work),
		Context: s.fitted.Context, LeftOut: s.fitted.LeftOut, Clipped: s.fitted.Clipped, ClippedOff: s.fitted.ClippedOff,
	}
	for i := range s.Requests() {
		if len(out) > 0 && int(out[0]) == i {
			out = out[1:]
			continue
		}
		if surplus := s.SurplusTokens(i); surplus > 0 {
			w.ShortRows++
			w.ShortSurplus += int64(surplus)
		}
		if s.Made(i) {
			w.InputTokens += int64(t.InputTokens[i])
		} else {
			w.Verbatims++
		}
		w.OutputTokens += int64(t.OutputTokens[i])
	}
	return w
}

// leftOutNotes notes how many requests waited for others until --duration was over.
func (s *results) leftOutNotes(out []int32) []string {
	if s.Plan.Dependencies == nil {
		return nil
	}
	turns := int64(0)
	for _, i := range out {
		if len(s.Plan.Dependencies.Of(i)) > 0 || s.Plan.Dependencies.Job != nil {
			turns++
		}
	}
	if turns == 0 {
		return nil
	}
	what := "follow-up turn"
	if s.Trace.HasDependencies() || s.Plan.Dependencies.Job != nil {
		what = "request"
	}
	return []string{fmt.Sprintf("--duration %v was over before %s could leave: not released, and no part of the run", s.o.pacing.duration, format.Many(turns, what))}
}

// thisHost describes the machine. What cannot be read is left out.
func thisHost() metrics.Host {
	h := metrics.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	h.Name, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	h.CPU = firstValue("/proc/cpuinfo", "model name")
	if kb, ok := strings.CutSuffix(firstValue("/proc/meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			h.MemoryBytes = n << 10
		}
	}
	return h
}

// firstValue is the value of the first "key : value" line of a file under /proc; "" where there is none.
func firstValue(path, key string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
