package main

import (
	"encoding/json"
	"flag"
	"io"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// waitCommand measures a waiter alone, in this process, and prints waited.
const waitCommand = "wait"

// waited is what waitCommand prints.
type waited struct {
	Placement string  `json:"placement"`
	LateNS    []int64 `json:"late_ns"`
}

// wait lets the waiter of a lane in a process of its own wait for equally spaced instants and notes how late each was.
func wait(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet(waitCommand, flag.ContinueOnError)
	realtime := f.String("realtime", "auto", "as fastreplay's")
	rate := f.Float64("rate", 2000, "instants per second")
	duration := f.Duration("duration", time.Second, "for how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	plan, err := sched.FromArrivals(int(*rate*duration.Seconds()), sched.Arrivals{Rate: sched.Steady(*rate), Process: sched.Constant}, 0)
	if err != nil {
		return err
	}
	sched.Alone(1)
	out := waited{LateNS: make([]int64, plan.Requests)}
	done := make(chan error, 1)
	go func() {
		placement, err := sched.Place(sched.Realtime(*realtime))
		if err == nil {
			out.Placement = placement.String()
			clock := sched.NewMonotonic()
			clock.Start(10 * time.Millisecond)
			w := sched.NewLoneWaiter(clock, sched.AutoSpin, new(atomic.Bool))
			for i, at := range plan.ReleaseNS {
				w.Wait(at)
				out.LateNS[i] = clock.Now() - at
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(out)
}
