package replay

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/merge"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/sched"
)

// compressedFrom is how many requests make a file of records that is compressed: about 1 GB.
const compressedFrom = 1_000_000

// openResults puts the plan of the run into the directory of the results, and makes the file of records.
func (r *runner) openResults() error {
	r.plan = r.known()
	r.meter = r.newMeter(r.plan)
	spare := make([]string, r.load.Spare)
	r.collector = collect.NewCollector(append(r.load.URLs(), spare...), r.cfg.SLOs...)
	if len(r.cfg.Actions) > 0 {
		r.collector.KeepHits()
	}
	if len(r.load.Targets) == 1 && len(r.load.Targets[0].Endpoints) == 1 {
		r.collector.SoleAddress()
	}
	r.pictures = report.NewPictures(r.cfg.SLOs)
	r.watchEnd()
	err := errors.Join(report.WritePlan(r.Dir, r.plan), r.writeShard())
	if err != nil {
		return err
	}
	r.writer, err = report.NewWriter(r.Dir, report.WriterOptions{
		Compress:  r.cfg.Compress || r.load.Requests() >= compressedFrom,
		OnState:   r.onDisk,
		OnRemoved: r.removed,
	})
	return err
}

// Record implements engine.Sink.
func (r *runner) Record(rec *record.Record, target int) {
	r.collector.Add(rec, target)
	if rec.Phase == record.Profiled {
		if r.loss != nil {
			r.loss.Add(rec)
		}
		r.meter.Add(r.run.Clock().Now(), rec, target)
	}
	r.pictures.See(rec)
	r.writer.Append(rec)
	r.observer.Record(rec)
}

// Tick implements engine.Sink: it writes the collected records to disk. A failure is printed once, by onDisk, and tried
// again.
func (r *runner) Tick() {
	r.meter.Observe(counts(r.run))
	r.mayEnd()
	_ = r.writer.Flush()
	r.observer.Tick(&r.Running, false)
}

// Gaps implements engine.Sink.
func (r *runner) Gaps(target int, gapsNS []int64, moved []metrics.LateReadGap) {
	r.collector.AddGaps(target, gapsNS, moved...)
}

func (r *runner) onDisk(err error) {
	if err != nil {
		r.alert("results: %v", err)
		return
	}
	r.alert("results: the disk takes records again; none is lost")
}

// discard takes back an output directory to which nothing was sent.
func (r *runner) discard() error {
	_, err := r.writer.Close()
	if r.servers != nil && r.servers.file != nil {
		_ = r.servers.file.Close()
	}
	for _, name := range append(
		merge.Names(), report.RequestsName, report.RequestsName+".zst", report.ServerMetricsName, report.PlanName,
	) {
		_ = os.Remove(filepath.Join(r.Dir, name))
	}
	return err
}

// concludingGC is how much garbage, in percent of what is live, gathers while results are concluded. What is live is
// large and has few pointers, so to collect it takes little.
const concludingGC = 25

// conclude writes what a finished run leaves behind.
func (r *runner) conclude(found engine.Result) (*metrics.Summary, error) {
	r.load.Free() // the bytes of requests
	fates, names := r.run.Fates()
	if r.aborted != "" && found.Run.Partial { // whoever stops a lost run only ends its grace period
		found.Run.Partial = false
		found.Run.Cut = true
	}
	if !found.Run.Partial {
		r.observer.Tick(&r.Running, true)
	}
	if n, row, want, got := audit.Miscounted(r.load.Work, fates); n > 0 {
		r.note("tokens_miscounted",
			"the servers counted other numbers of tokens in %s than were counted before the start (row %d: %s, not "+
				"%s), so their ideal hits are not to be relied on: is --tokenizer the model's own, and does /tokenize "+
				"use the template of the run?",
			format.Many(n, "prompt"), row, format.Count(got), format.Count(want))
	}
	r.appendUnreleased(found.LeftOut, r.run.Records())
	unwritten, diskErr := r.writer.Close()
	info := r.info(found)
	info.Run.Targets = r.run.TargetURLs()
	r.collector.Rename(info.Run.Targets)
	info.Servers = r.servers.summary()
	info.Requests.Unwritten = unwritten
	info.Records = r.writer.Lines()
	work := r.load.Work
	info.PrefixCache.OvertakenTokens = audit.OvertakenTokens(work, fates)
	if r.prepares() {
		tokens, known := work.PrimedTokens(func(i int) bool { return fates[i].Outcome == record.OK })
		if known {
			info.PrefixCache.PrimedTokens = &tokens
		}
	}
	if r.load.Shard != nil && info.Servers != nil {
		r.load.Shard.Counted = &r.servers.counted
	}
	if r.load.Shard == nil { // else the caches and routers had more to do than this
		info.PrefixCache.Shortfall = audit.Shortfall(work, fates, r.collector.CountedHits(info.Servers),
			r.collector.NeverHeld)
		if r.load.Spare == 0 { // else instances come and go
			info.Routing = audit.CompareRouters(work, fates, names)
		}
	}
	r.run.Forget()
	runtime.GC() // or the rest would take as much memory besides
	defer debug.SetGCPercent(debug.SetGCPercent(concludingGC))
	var late metrics.Notes
	if r.until != nil {
		r.until.End(r.collector)
		info.Until = &r.until.Until
		late.Add(true, "until", "--until %s: %s", r.until.Text, r.until.Words())
	}
	stamps := info.Client.Stamps
	late.Add(r.cfg.Stamps == StampsRing && stamps != nil && !stamps.Ring, "no_ring",
		"--kernel-timestamps ring: no ring could be made for the ports of these targets (64 at most), "+
			"so instants are those of the sockets, and late reads are marked")
	if r.loss != nil {
		late.Add(!r.loss.Judged(), "abort_not_judged",
			"--abort-if %s was not judged: no request has such a number", r.loss.Text)
	}
	info.AddNotes(len(info.Notes), late)
	info.Run.Aborted = r.aborted
	summary := r.collector.Summary(
		info, collect.Probed{
			Unknown:            r.load.Facts.Unknown,
			NoteUnlessReported: r.load.Facts.NoteUnlessReported,
			CacheOff:           work.CacheOff,
		},
	)
	summary.AddNotes(len(summary.Notes), append(r.unnamed(summary), preparationNotes(summary.Preparation)...))
	diskErr = cmp.Or(diskErr,
		report.WriteHistograms(r.Dir, r.collector, found.Run.StartedAt, found.Ended),
		report.WriteSummary(r.Dir, summary),
		report.WriteTimeline(r.Dir, r.collector.Timeline()), r.servers.err, r.restorePlan(), r.writeShard())
	if diskErr == nil {
		diskErr = errors.Join(
			WriteExports(r.Dir, r.cfg.Exports, nil, func(text string) { r.line("%s", text) }),
			r.writeNamed(),
		)
	} else if len(r.cfg.Exports)+len(r.cfg.Named) > 0 {
		r.line("not exported, since the results are incomplete on disk")
	}
	if diskErr != nil {
		return summary, fmt.Errorf("%w: %w", ErrIncomplete, diskErr)
	}
	return summary, nil
}

// restorePlan writes the plan again if somebody removed it during the run.
func (r *runner) restorePlan() error {
	if report.Exists(filepath.Join(r.Dir, report.PlanName)) {
		return nil
	}
	r.removed(report.PlanName)
	return report.WritePlan(r.Dir, r.plan)
}

// placeResults decides where the files that other tools' flags name lie, in the directory of the results or elsewhere.
// It refuses those that cannot be written, or that would replace another.
func (c *Config) placeResults(dir string) error {
	taken := map[string]bool{}
	for _, name := range append(report.OwnNames(), merge.Names()...) {
		taken[filepath.Join(dir, name)] = true
	}
	for _, path := range export.Paths(dir, c.Exports) {
		taken[path] = true
	}
	for _, n := range c.Named {
		for i, path := range n.Paths {
			if n.InDir && !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			path = filepath.Clean(path)
			if taken[path] {
				return fmt.Errorf(
					"%s is another file of this run's results; choose another name for what %s would write",
					path, n.Tool,
				)
			}
			taken[path] = true
			n.Paths[i] = path
		}
		if err := export.Vacant(n.Paths); err != nil {
			return fmt.Errorf("what %s would write: %w", n.Tool, err)
		}
	}
	return nil
}

// writeNamed writes the files that other tools' flags name.
func (r *runner) writeNamed() error {
	var errs []error
	for _, n := range r.cfg.Named {
		files, err := export.Write(r.Dir, n.Tool, n.Paths, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.line("written as %s would: %s", n.Tool, files)
	}
	return errors.Join(errs...)
}

// WriteExports writes each export of the results in dir once, whatever becomes of another one, and says which files
// they are. s is as export.Write has it.
func WriteExports(dir string, names []string, s *metrics.Summary, say func(text string)) error {
	var errs []error
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		files, err := export.Write(dir, name, export.Paths(dir, []string{name}), s)
		if err != nil {
			errs = append(errs, fmt.Errorf("--export %s: %w", name, err))
			continue
		}
		say(fmt.Sprintf("exported for %s: %s", name, files))
	}
	return errors.Join(errs...)
}

// unnamed returns a note if no answer had the header or field that was to name the instance.
func (r *runner) unnamed(s *metrics.Summary) metrics.Notes {
	var asked []string
	if r.cfg.InstanceHeaders != nil {
		asked = append(asked, "the header "+strings.Join(r.cfg.InstanceHeaders, " or "))
	}
	if r.cfg.InstanceField != nil {
		asked = append(asked, "the field "+strings.Join(r.cfg.InstanceField, "."))
	}
	if asked == nil || s.Instances != nil || s.Requests.OK == 0 {
		return nil
	}
	return metrics.NotesOf("instances_unnamed", "no answer had %s: which instance answered is unknown",
		strings.Join(asked, " or "))
}

// info adds to what the run found what was asked for: the part of the summary that the collector does not count.
func (r *runner) info(found engine.Result) metrics.Summary {
	found.Client.LoadS = r.load.Facts.ReadS
	found.Client.PrebuildS = r.load.Facts.BuildS
	if found.Turns != nil {
		found.Turns.Sessions = r.cfg.SessionsText()
	}
	planned := r.load.Requests() + len(r.load.LeftOut) - len(found.LeftOut) - int(r.collector.Unmeasured())
	s := metrics.Summary{
		Run: r.load.Run(found.Run), Workload: r.load.Workload(found.LeftOut), Client: found.Client,
		Requests:    metrics.Requests{Planned: int64(planned)},
		Connections: found.Connections,
		Writes:      found.Writes,
		Cap:         found.Cap,
		Turns:       found.Turns,
		History:     found.History,
		Answers:     r.load.Answers(),
		BuildAhead:  found.BuildAhead,
		IdleCuts:    r.idleCuts(found),
		Actions:     r.acted,

		TargetChanges: r.changes,
		Amplify:       r.load.Facts.Amplify,
		Limits:        r.cfg.Limits,
		Verdict:       metrics.Verdict{Reasons: r.playReasons(found)},
	}
	s.AddNotes(0, slices.Concat(
		r.notes.Kept,
		r.leftOutNotes(found.LeftOut, found.Run.Partial),
		r.playNotes(found),
		r.idleNotes(found),
		placementNotes(found.Placement),
	))
	return s
}

// appendUnreleased writes the requests of lanes for which the run had no time.
func (r *runner) appendUnreleased(out []int32, records []record.Record) {
	if d := r.load.Plan.Dependencies; d == nil || d.Job == nil {
		return
	}
	for _, i := range out {
		rec := records[i]
		rec.Phase = record.Unreleased
		rec.Error = "the run was over before it could leave"
		r.writer.Append(&rec)
	}
}

// preparationNotes notes what was sent before the measurement.
func preparationNotes(p *metrics.Preparation) metrics.Notes {
	if p == nil || p.DurationS == nil {
		return nil
	}
	return metrics.NotesOf(
		"preparation",
		"%s and %s came before the measurement and took %s; their records have a phase, and no latency, token or "+
			"failure counts them",
		format.Many(p.Primers, "primer"), format.Many(p.Warmup, "warm-up request"), format.Span(*p.DurationS),
	)
}

// idleNotes notes what was cut of times in which nothing was in flight.
func (r *runner) idleNotes(found engine.Result) (notes metrics.Notes) {
	if !r.cfg.Sessions.AtRun() {
		return nil
	}
	for _, of := range []struct {
		what string
		cut  engine.IdleCut
	}{{"nothing", found.Idle}, {"nothing of a job", found.TreeIdle}} {
		notes.Add(of.cut.Times > 0, "idle_cut",
			"--idle-cap: %s %s was in flight for longer, and what was still to come came earlier, by %s in all",
			format.Many(of.cut.Times, "time"), of.what, format.Span(float64(of.cut.NS)/1e9))
	}
	notes.Add(notes == nil, "no_idle_cut", "--idle-cap: something was always in flight, or soon again: nothing was cut")
	return notes
}

// idleCuts is the same as numbers; nil if nothing could be cut.
func (r *runner) idleCuts(found engine.Result) *metrics.IdleCuts {
	if !r.cfg.Sessions.AtRun() {
		return nil
	}
	return &metrics.IdleCuts{
		System: int64(found.Idle.Times), SystemS: float64(found.Idle.NS) / 1e9,
		Trees: int64(found.TreeIdle.Times), TreesS: float64(found.TreeIdle.NS) / 1e9,
	}
}

func placementNotes(p sched.Placement) metrics.Notes {
	if p.FIFO || p.Refused == "" {
		return nil
	}
	return metrics.NotesOf("no_fifo",
		"the sending thread ran without SCHED_FIFO (%s), under %s; root or CAP_SYS_NICE make it more punctual",
		p.Refused, p,
	)
}

// tookAll reports whether lanes took all plays that were planned, before anybody stopped the run, and how many. ranOut:
// the run was over before its time, since lanes had no more.
func (r *runner) tookAll(found engine.Result) (plays int, all, ranOut bool) {
	d := r.load.Plan.Dependencies
	if !r.cfg.Sessions.Recycle || d == nil || found.Run.Partial || r.aborted != "" {
		return 0, false, false
	}
	plays = d.Jobs()
	first := slices.Index(d.Job, int32(plays-1))
	all = !slices.Contains(found.LeftOut, int32(first))
	early := r.until != nil && r.until.Reached
	return plays, all, all && !early && found.Run.DurationS < r.cfg.Pacing.Duration.Seconds()
}

// playReasons are why the load was not that of --recycle.
func (r *runner) playReasons(found engine.Result) []metrics.Reason {
	plays, _, ranOut := r.tookAll(found)
	if !ranOut {
		return nil
	}
	return []metrics.Reason{{
		Code:  metrics.NoPlays,
		Grade: metrics.Invalid,
		What: fmt.Sprintf("lanes had taken all %s that were planned, and ended %s after the start, not after %v",
			format.Many(plays, "play"), format.Span(found.Run.DurationS), r.cfg.Pacing.Duration),
		Why: "servers were more than a hundred times as fast as --assume-latency says, or memory had no room for more",
		Do:  "give a smaller --assume-latency, or more memory",
	}}
}

// playNotes notes that lanes took all plays that were planned.
func (r *runner) playNotes(found engine.Result) metrics.Notes {
	plays, all, ranOut := r.tookAll(found)
	if !all || ranOut {
		return nil
	}
	return metrics.NotesOf(
		"plays_taken",
		"--recycle: lanes took all %s that were planned, so some may have found none at the end; a smaller "+
			"--assume-latency plans more",
		format.Many(plays, "play"),
	)
}

// leftOutNotes notes how many requests waited for others until the run was over.
func (r *runner) leftOutNotes(out []int32, partial bool) metrics.Notes {
	if r.load.Plan.Dependencies == nil {
		return nil
	}
	turns := int64(0)
	for _, i := range out {
		if len(r.load.Plan.Dependencies.Of(i)) > 0 || r.load.Plan.Dependencies.Job != nil {
			turns++
		}
	}
	if turns == 0 {
		return nil
	}
	what := "follow-up turn"
	if r.load.Trace.HasDependencies() || r.load.Plan.Dependencies.Job != nil {
		what = "request"
	}
	over := fmt.Sprintf("--duration %v was over", r.cfg.Pacing.Duration)
	switch {
	case partial:
		over = "the run was interrupted"
	case r.aborted != "":
		over = "--abort-if ended the run"
	case r.until != nil && r.until.Reached:
		over = "--until ended the run"
	}
	return metrics.NotesOf(
		"not_released",
		"%s before %s could leave: not released, and no part of the run", over, format.Many(turns, what))
}

// known is all that is known before the start.
func (r *runner) known() *report.Plan {
	return &report.Plan{
		Schema:    metrics.Schema,
		Run:       r.load.Run(metrics.Run{StartedAt: time.Now().UTC()}),
		Workload:  r.load.Workload(nil),
		Load:      r.load.Load(),
		WireBytes: r.load.Prebuilt.Bytes(), Limits: r.cfg.Limits, Notes: r.notes.Kept,
	}
}
