package engine

import (
	"time"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// Progress is where a run stands. It may be asked for at any time.
type Progress struct {
	NowNS     int64 // since the start
	Sent      int64 // requests, re-sends included
	OK        int64
	Failed    int64
	Unsent    int64 // of Failed those of which no byte was sent
	Left      int64 // requests without a final record
	TokensOut int64 // completion tokens of requests that ended ok
}

// Progress reads the run's counters.
func (r *Run) Progress() Progress {
	return Progress{
		NowNS: r.clock.Now(), Sent: r.sends(), OK: r.finishedOK.Load(), Failed: r.failed.Load(), Unsent: r.unsentFailed.Load(), Left: r.left.Load(),
		TokensOut: r.tokensOut.Load(),
	}
}

// Clock tells the run's time.
func (r *Run) Clock() sched.Clock { return r.clock }

// sends is how many images have been sent, by whichever lane.
func (r *Run) sends() int64 {
	n := r.sent.Load()
	if r.remote != nil {
		n += r.remote.board.fired.Load()
	}
	return n
}

// Requests is how many requests the run has.
func (r *Run) Requests() int { return r.work.Requests() }

// Facts are what a finished run knows besides its records.
type Facts struct {
	StartedAt        time.Time
	MonotonicStartNS int64
	EndNS            int64 // when the last request ended
	Placement        sched.Placement
	Lanes            int
	LaneProcess      bool          // the lanes had a process of their own
	Spin             time.Duration // how long before an instant a lane stopped sleeping, at the end; the largest of the lanes
	Stopped          bool          // by Stop or Abort, or since the lanes' process died, before its end
	SenderDied       string        // how the lanes' process ended during the run; "" = it did not
	Cut              bool          // what was in flight, or due, when Config.CutAfter was over
	Skipped          int64         // requests that the end of the run's time left out …
	LeftOut          []int32       // … and which, in ascending order
	Usage            host.Usage
	Stamps           StampFacts
	Cap              *metrics.Cap // nil without one
	metrics.Connections
	metrics.Writes
}

// Machine is what the machine took from the run. Call it after Do; nothing is known where that sent nothing.
func (r *Run) Machine() metrics.Machine { return r.machine.Machine() }

// Facts may be called when Do has returned.
func (r *Run) Facts() Facts {
	f := Facts{
		StartedAt: r.clock.StartedAt(), MonotonicStartNS: r.clock.MonotonicStartNS(), Placement: r.placement,
		Lanes: r.lanes(), LaneProcess: r.remote != nil, Spin: r.spin(),
		SenderDied: r.died, Stopped: r.stop.Load() && !r.expired.Load(), Cut: r.expired.Load(), Skipped: r.skipped.Load(), LeftOut: r.leftOut,
		EndNS: r.endNS.Load(), Usage: r.usage, Stamps: r.stampFacts(),
		Connections: metrics.Connections{Dialled: r.dialled.Load(), NotReady: r.notReady.Load(), ClosedIdle: r.closedIdle.Load()},
		Writes:      metrics.Writes{Whole: r.wholeWrites.Load(), Partial: r.partialWrites.Load()},
	}
	if n := r.work.Plan.Cap; n > 0 {
		held := r.pacer.held()
		f.Cap = &metrics.Cap{InFlight: int64(n), Held: held.Count(), HeldMS: held.Percentiles(1e6)}
	}
	return f
}
