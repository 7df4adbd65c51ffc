package replay

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// The values of Config.Stamps.
const (
	StampsAuto = "auto" // what comes, where the kernel stamps
	StampsOn   = "on"   // what comes, or an error
	StampsOff  = "off"
	StampsSent = "sent" // what comes and what leaves, or an error
	StampsRing = "ring" // what comes, each segment, or an error
)

// probeStamps finds out what the kernel stamps, before anything else takes time.
func (r *runner) probeStamps() (wire.Stamps, error) {
	want := wire.Stamps{Receive: true, Send: r.cfg.Stamps == StampsSent}
	if r.cfg.Stamps == StampsOff || r.cfg.DryRun {
		return wire.Stamps{}, nil
	}
	err := wire.ProbeStamps(want)
	if err != nil && r.cfg.Stamps != StampsAuto {
		return wire.Stamps{}, fmt.Errorf("--kernel-timestamps %s: %w; use auto or off", r.cfg.Stamps, err)
	}
	if err != nil {
		r.note(
			"no_kernel_timestamps",
			"no kernel timestamps (%v): instants are those of the reads, so that our lateness in reading is inside "+
				"latencies",
			err,
		)
		return wire.Stamps{}, nil
	}
	if r.cfg.Stamps == StampsOn {
		return want, nil
	}
	err = wire.ProbeRing()
	if err != nil && r.cfg.Stamps == StampsRing {
		return wire.Stamps{}, fmt.Errorf("--kernel-timestamps %s: %w; use auto or on", StampsRing, err)
	}
	want.Ring = err == nil
	return want, nil
}

// openChunkLog makes the file of --chunk-log; nil if there is to be none. The function returned ends it.
func (r *runner) openChunkLog() (log *engine.ChunkLog, end func(), err error) {
	path := r.cfg.ChunkLog
	if path == "" {
		return nil, func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--chunk-log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	log = engine.NewChunkLog(w)
	return log, func() {
		if err := errors.Join(log.Err(), w.Flush(), f.Close()); err != nil {
			r.note("chunk_log_incomplete", "--chunk-log is incomplete: %v", err)
		}
	}, nil
}

// config is how the engine sends and receives.
func (r *runner) config() (engine.Config, error) {
	// one for every request, up to what one process can use
	wanted := min(1<<20, host.DescriptorsBesides+2*r.load.Requests())
	descriptors, err := host.RaiseDescriptors(wanted)
	if need := r.load.DescriptorsNeeded(); err == nil && descriptors < need {
		r.note(
			"descriptors_short",
			"the descriptor limit of %s may not hold the requests in flight; raise it with `ulimit -n %d`",
			format.Count(descriptors), need,
		)
	}
	headers := r.cfg.InstanceHeaders
	if headers == nil && r.cfg.InstanceField == nil {
		headers = engine.InstanceHeaders()
	}
	return engine.Config{
		Backend:         r.load.Builder.Backend,
		Stream:          !r.cfg.NoStream || r.load.Shaped(),
		Timeout:         r.cfg.Timeout,
		IdleTimeout:     r.cfg.IdleTimeout,
		ConnectTimeout:  r.cfg.ConnectTimeout,
		Grace:           r.cfg.Grace,
		CancelAfter:     r.cfg.CancelAfter,
		Resend:          r.cfg.Resend,
		Realtime:        r.cfg.Realtime,
		Spin:            r.cfg.Spin,
		Senders:         r.cfg.Senders,
		SenderCommand:   r.cfg.SenderCommand,
		TLS:             r.load.Prober.TLS,
		Descriptors:     descriptors,
		Secrets:         r.load.Prober.Secrets,
		Stamps:          r.stamps,
		LagBounded:      r.cfg.Limits.MaxReceiveLagNS > 0,
		History:         r.load.History,
		InstanceHeaders: headers, InstanceField: r.cfg.InstanceField,
		OnSenderDeath: func(why string) {
			r.alert("%s: nothing more is sent; requests in flight may end (--grace)", why)
		},
	}, err
}

// newMeter returns the meter of a run that is built, with what is known of it.
func (r *runner) newMeter(known *report.Plan) *live.Meter {
	until := r.load.Plan.EndNS
	if r.cfg.Pacing.Duration == 0 {
		until = math.MaxInt64
	}
	wait := r.cfg.Timeout
	if r.cfg.CancelAfter > 0 {
		wait = min(wait, r.cfg.Grace)
	}
	return live.NewMeter(live.Plan{
		Title: report.Title(&metrics.Summary{
			Run:      known.Run,
			Workload: known.Workload,
			Amplify:  r.load.Facts.Amplify,
		}),
		Version:   r.cfg.Version,
		Targets:   r.load.URLs(),
		ReleaseNS: r.load.Plan.ReleaseNS,
		ByClock:   r.load.Plan.ByClock(),
		UntilNS:   until,
		Requests:  int64(r.load.Requests()), MaxDriftNS: int64(r.cfg.Limits.MaxDriftNS),
		TimeoutNS: int64(wait), DrainNS: int64(r.cfg.Grace), Quits: r.cfg.Keys,
	})
}

// counts are what the run counts, as a meter takes it.
func counts(run *engine.Run) live.Counts {
	p := run.Progress()
	sent := p.Sent - p.Resent
	return live.Counts{NowNS: max(0, p.NowNS), Sent: sent, OK: p.OK, Left: p.Left, Stopping: p.Stopping,
		InFlight: max(0, sent-p.OK-p.Failed-p.Uncounted+p.Unsent)}
}
