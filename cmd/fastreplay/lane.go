package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine"
)

// laneCommand is the name by which a replay starts the process of its lanes.
const laneCommand = "lane"

// newLaneCommand returns the command that a replay starts by itself; nobody else can.
func newLaneCommand() *cobra.Command {
	return &cobra.Command{
		Use: laneCommand, Short: "The process that sends a replay's requests; a replay starts it", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return engine.ServeLane() },
	}
}

// The values of --lane.
const (
	laneAuto    = "auto"
	laneProcess = "process"
	laneThread  = "thread"
)

// checkLane refuses a process of their own for lanes that cannot have one, before anything is built.
func (r *replay) checkLane() error {
	if r.o.lane != laneProcess {
		return nil
	}
	if err := engine.CheckLaneProcess(&r.work.Plan, r.o.route == routeLeastInFlight, r.o.sessions.past == historyLive); err != nil {
		return fmt.Errorf("--lane %s: %w", laneProcess, err)
	}
	return nil
}

// laneCommandLine is how the engine starts the lanes' process; nil where they are to be threads.
func (o *options) laneCommandLine() []string {
	self, err := os.Executable()
	if o.lane == laneThread || err != nil {
		return nil
	}
	return []string{self, laneCommand}
}
