// Package replay makes a run of a load: it sets it up (package setup), sends it (package engine) and writes its results
// (package report).
//
// Run is the one door. It prints nothing, catches no signals and does not exit: an Observer sees what happens, and its
// caller decides what people read. A run takes the whole machine: no two belong into one process at the same time.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/actions"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// Config is all that a run depends on. Begin with Defaults, and set at least Traces and URLs.
type Config struct {
	setup.Options

	// When it begins and ends.
	Barrier string // where shards agree on a start; "" = they do not
	// what a run does that is ready after its start: shard.LateFail (or "") or shard.LateJoin
	LateStart string
	// blocks until somebody says when instant 0 is, once the run is ready; nil = StartAt is
	AskStart    func() (time.Time, error)
	Grace       time.Duration // how long requests in flight may last after ctx has ended
	CancelAfter time.Duration // since instant 0: then what is in flight is cancelled; 0 = never

	// What becomes of the results.
	Output   string         // directory; "" = results/<UTC time>
	Exports  []string       // tools whose files are written, too
	Named    []export.Named // files of tools under names of their own
	Compress bool           // records are written as requests.jsonl.zst, whatever their number
	Notes    []string       // that results begin with
	ChunkLog string         // file that takes the instants of every token chunk; "" = none

	Actions []actions.Action // commands that run during the run; of shards the first one runs them

	// How it is sent and measured.
	IdleTimeout time.Duration // between two bytes of a response
	// response headers that may name the instance; nil = the usual ones, unless there is an InstanceField
	InstanceHeaders []string
	InstanceField   []string // path in the answers' JSON that names the instance
	Senders         int      // threads that send
	// starts a process that calls engine.ServeSender; nil = senders are threads of this process
	SenderCommand []string
	Realtime      sched.Realtime
	Spin          time.Duration // how long before a deadline a sender spins; see sched.NewWaiter
	Stamps        string        // what the kernel stamps: StampsAuto, StampsOn, StampsOff or StampsSent
	Keys          bool          // the live screen says that the key q ends the run
}

// defaultGrace leaves time to write the results: Kubernetes kills a container 30 s after SIGTERM
// (terminationGracePeriodSeconds), unless told otherwise.
const defaultGrace = 20 * time.Second

// Defaults returns the configuration of which only Traces and URLs must be set.
func Defaults() Config {
	return Config{
		Options: setup.Defaults(), LateStart: shard.LateFail, Grace: defaultGrace, IdleTimeout: 2 * time.Minute,
		Senders: 1, Realtime: sched.RealtimeAuto, Spin: sched.AutoSpin, Stamps: StampsAuto,
	}
}

// Observer sees how a run goes. Embed Silent for what is not of interest.
type Observer interface {
	setup.Observer
	// Alert is called, by any goroutine, with what goes wrong, or is well again.
	Alert(text string)
	// Built is called before the first connection to a server, with all requests in memory.
	Built(*Running)
	// Begun is called when the first request is about to leave; it returns what is called after the last one has ended.
	Begun(*Running) (end func())
	// Record and Tick are called by one goroutine. Record is called with each record once it is complete, which is
	// valid until Record returns. Tick is called about once a second. The last Tick comes after the end of a run that
	// nobody stopped.
	Record(*record.Record)
	Tick(r *Running, ended bool)
}

// Silent observes nothing.
type Silent struct{ setup.Silent }

// Alert implements Observer.
func (Silent) Alert(string) {}

// Built implements Observer.
func (Silent) Built(*Running) {}

// Begun implements Observer.
func (Silent) Begun(*Running) func() { return func() {} }

// Record implements Observer.
func (Silent) Record(*record.Record) {}

// Tick implements Observer.
func (Silent) Tick(*Running, bool) {}

// Running is a run under way. Any goroutine may call its methods.
type Running struct {
	Dir  string // of the results
	Cold bool   // no request can hit what earlier runs have left in caches

	run       *engine.Run
	meter     *live.Meter
	pictures  *report.Pictures
	collector *collect.Collector
	aborts    chan struct{} // has one after Abort
}

// Abort cancels what is in flight. After the run it kills the commands that undo actions.
func (r *Running) Abort() {
	r.run.Abort()
	select {
	case r.aborts <- struct{}{}:
	default:
	}
}

// Snapshot is how the run goes.
func (r *Running) Snapshot() *live.Snapshot { return r.meter.Snapshot(counts(r.run)) }

// NowNS is the time since instant 0.
func (r *Running) NowNS() int64 { return r.run.Clock().Now() }

// WritePage writes the page of the run, whose summary is s, once it has ended. It may be called once.
func (r *Running) WritePage(w io.Writer, s *metrics.Summary) error {
	defer debug.SetGCPercent(debug.SetGCPercent(concludingGC))
	return r.pictures.HTML(w, r.Dir, s, r.collector.Timeline())
}

// EachOpen is that of engine.Run: only Observer.Record and Tick may call it.
func (r *Running) EachOpen(f func(of rows.Owner, plannedNS, sentNS, firstNS int64)) {
	r.run.EachOpen(f)
}

// ErrIncomplete is why Run returns a summary and an error: not all results are on disk.
var ErrIncomplete = errors.New("results are incomplete on disk")

// Run replays, and returns what came of it. Without a summary nothing was sent, and nothing is left on disk. If ctx
// ends before the start, the error is its cause. If it ends later, nothing more is sent, and the summary is that of a
// partial run. observer may be nil.
func Run(ctx context.Context, cfg *Config, observer Observer) (summary *metrics.Summary, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := newRunner(cfg, observer)
	dir, err := report.Create(cfg.Output, time.Now()) // before servers are probed and requests built for nothing
	if err != nil {
		return nil, err
	}
	defer unmake(dir)
	r.Dir = dir
	if err := cfg.placeResults(dir); err != nil {
		return nil, err
	}
	if r.stamps, err = r.probeStamps(); err != nil {
		return nil, err
	}
	group, ctx, err := r.join(ctx)
	if err = interrupted(ctx, err); err != nil {
		return nil, err
	}
	defer func() { group.Leave(err) }()
	err = r.prepare(ctx)
	defer r.load.Free()
	if err != nil {
		return nil, err
	}
	return r.send(ctx, group)
}

// Plan does all that Run does before it sends, but for the results. It returns what is known before the start.
func Plan(ctx context.Context, cfg *Config, observer Observer) (*report.Plan, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := newRunner(cfg, observer)
	err := r.prepare(ctx)
	defer r.load.Free()
	if err != nil {
		return nil, err
	}
	return r.known(), nil
}

// prepare sets r.load, which is freed even after an error.
func (r *runner) prepare(ctx context.Context) (err error) {
	r.load, err = setup.Prepare(ctx, &r.cfg.Options, &r.notes)
	return err
}

// interrupted returns err, unless ctx has ended: what an interrupted step found may be wrong.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runner is a run from its configuration to its results. It is the engine's Sink.
type runner struct {
	Running
	cfg      *Config
	observer Observer
	notes    setup.Notes
	stamps   wire.Stamps
	load     *setup.Prepared

	plan    *report.Plan // nil before the results are opened
	writer  *report.Writer
	servers *serverWatch    // nil before they are watched
	actions *actions.Runner // nil before they may begin, and if there are none

	until   *collect.Precision // nil if the run does not end when it knows enough
	loss    *collect.Loss      // nil if it does not end when it is lost
	changes []scrape.Event     // of the targets
	acted   []metrics.Action   // what became of the actions
	aborted string             // why it was ended since it is lost; "" = it was not
}

func newRunner(cfg *Config, observer Observer) *runner {
	if observer == nil {
		observer = Silent{}
	}
	r := &runner{cfg: cfg, observer: observer, notes: setup.Notes{Observer: observer}}
	r.aborts = make(chan struct{}, 1)
	for _, note := range cfg.Notes {
		r.note("caller", "%s", note)
	}
	return r
}

func (r *runner) line(format string, args ...any) { r.notes.Say(setup.Line, "", format, args...) }

func (r *runner) note(code, format string, args ...any) {
	r.notes.Say(setup.Keep, code, format, args...)
}

func (r *runner) alert(format string, args ...any) {
	r.observer.Alert(fmt.Sprintf(format, args...))
}

// removed says that a file of results was removed during the run, and is whole again.
func (r *runner) removed(name string) {
	r.alert("results: %s was removed during the run; it is made anew, with all that was in it", name)
}

// unmake removes the directory of a run that did not start.
func unmake(dir string) {
	if report.Exists(filepath.Join(dir, report.PlanName)) {
		return
	}
	if os.Remove(dir) == nil && filepath.Dir(dir) == report.DefaultRoot {
		_ = os.Remove(report.DefaultRoot) // only if it is empty
	}
}

// send is the run itself: warm-up, cold start, connections, replay, results.
func (r *runner) send(ctx context.Context, group *shard.Group) (summary *metrics.Summary, err error) {
	if err := r.openResults(); err != nil {
		return nil, err
	}
	sent := false
	defer func() {
		if !sent {
			err = errors.Join(err, r.discard())
		}
	}()
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	chunks, endChunkLog, err := r.openChunkLog()
	if err != nil {
		return nil, err
	}
	cfg.Chunks = chunks
	if r.prepares() {
		cfg.OnPrepared = func() {
			r.servers.startAnew(ctx, r.run, r.meter)
			r.startActions()
		}
	}
	r.run = engine.New(cfg, r.load.Work, r.load.RunID, r.load.Ideal, r)
	if err := r.run.SenderErr(); err != nil && r.cfg.Sender == setup.SenderProcess {
		return nil, fmt.Errorf("--sender process: %w", err)
	}
	r.Cold = r.load.Facts.Flushed || r.load.Facts.Salted
	r.observer.Built(&r.Running)
	if err := r.getReady(ctx); err != nil {
		return nil, err
	}
	if err := r.awaitStart(ctx, group); err != nil {
		return nil, interrupted(ctx, err)
	}
	for i := range r.load.LeftOut {
		r.Record(&r.load.LeftOut[i], -1)
	}
	if !r.prepares() {
		r.servers.start(r.run, r.meter)
		r.startActions()
	}
	endTargets := r.watchTargets(ctx)
	end := r.observer.Begun(&r.Running)
	found, err := r.run.Do(ctx)
	end()
	endChunkLog()
	r.changes = endTargets()
	r.servers.end()
	select {
	case <-r.aborts: // that was about requests
	default:
	}
	r.acted = r.actions.End(r.aborts)
	if err != nil {
		return nil, err
	}
	sent = true
	if group != nil {
		r.load.Shard.Clock = group.End()
	}
	if !r.run.Progress().Stopping { // else not all were to be sent
		rest := int64(r.load.Requests() - r.load.Prebuilt.Built())
		done, end := r.notes.Work("fingerprint", rest, format.Requests[int64])
		r.load.Prebuilt.DigestRest(ctx, done)
		end()
	}
	return r.conclude(found)
}

// startActions begins to wait for the instants of the actions.
func (r *runner) startActions() {
	if r.cfg.IsShard() && r.cfg.Shard.Index > 0 {
		return
	}
	now := func() (ns int64, began bool) {
		ns = r.run.Clock().Now()
		return ns, r.run.Began(ns)
	}
	told := func(text string) { r.alert("%s", text) }
	r.actions = actions.Start(r.cfg.Actions, now, r.load.Prober.Secrets, told)
}

// prepares reports whether some of the requests only prepare the measurement.
func (r *runner) prepares() bool {
	d := r.load.Plan.Dependencies
	return d != nil && d.Prepare > 0
}

// getReady is what comes after the servers were asked and before the first request: warm-up, cold caches, a first look
// at the servers' metrics, connections.
func (r *runner) getReady(ctx context.Context) error {
	err := r.load.WarmUp(ctx)
	if err == nil && r.load.Facts.Flushed { // what probes and waiting have left in the caches, at the last moment
		_, err = r.load.Prober.Flush(ctx)
	}
	if err == nil {
		r.servers, err = r.watchServers(ctx)
	}
	if err == nil {
		r.run.Connect(ctx)
	}
	return interrupted(ctx, err)
}
