package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/capacity"
)

func newSweepCommand() *cobra.Command {
	o := probingOptions{sweep: true}
	c := &cobra.Command{
		Use:   "sweep FILE --url URL --over X --at LOADS [flags] [-- FLAGS]",
		Short: "Measure a trace at several loads: one table, one curve",
		Long: `Measure a trace at several loads: latencies, throughput, goodput, hits and failures of each,
and latency by throughput.

Each load is a replay of a part of the trace, with a cold cache. What stands behind -- goes to each replay. If a sweep
was stopped or killed, the same command goes on with its directory.`,
		Example: `  fastreplay sweep day.jsonl --url gpu1:8000 --over concurrency \
    --at 1,2,4,8,16
  fastreplay sweep day.jsonl --url gpu1:8000 --over rate --at 2,4,8 \
    --slo "ttft.p95<1s" --csv sweep.csv`,
	}
	o.addFlags(c)
	f := c.Flags()
	addValue(f, &o.at, parseAt, "LOADS", "", "at", "the `LOADS`, such as 2,4,8,16")
	f.StringVar(&o.csv, "csv", "", "also write the table to `FILE`")
	return c
}

// parseAt reads a list of loads.
func parseAt(text string) (all []float64, err error) {
	for _, part := range strings.Split(text, ",") {
		load, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(load > 0 && load <= 1e9) {
			return nil, errors.New("want numbers above 0, such as 2,4,8,16")
		}
		all = append(all, load)
	}
	return all, nil
}

// checkAt refuses loads that cannot be.
func (o *probingOptions) checkAt() error {
	if len(o.at) == 0 {
		return errors.New("no loads; give them with --at, such as --at 2,4,8,16")
	}
	for _, load := range o.at {
		whole := o.over == "concurrency" || o.over == "instances"
		switch {
		case whole && load != math.Trunc(load):
			return fmt.Errorf("--at %v: with --over %s a load is a whole number", load, o.over)
		case o.over == "instances" && load > float64(len(o.urls)):
			return fmt.Errorf("--at %v: %d servers are given with --url", load, len(o.urls))
		}
	}
	return nil
}

// swept is sweep.json, and what --json prints.
type swept struct {
	Schema int                `json:"schema"` // version of this file: 1
	Over   string             `json:"over"`   // what a load is, as --over
	SLO    string             `json:"slo"`    // objectives, as --slo
	Why    string             `json:"why"`    // why it ended before its time; "" if it did not
	Probes []capacity.Outcome `json:"probes"` // a run at each load
}
