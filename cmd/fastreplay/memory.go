package main

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// allowance is how much memory may be taken, and by whose word.
type allowance struct {
	bytes  int64
	origin string
}

// defaultMemoryShare of the free memory may be taken: the rest is for sockets, results and the machine.
const defaultMemoryShare = 0.8

// freeAllowance is what may be taken where nobody says.
func freeAllowance() (allowance, error) {
	free, err := engine.FreeMemory()
	return allowance{int64(defaultMemoryShare * float64(free)), fmt.Sprintf("%d %% of the free memory", int(100*defaultMemoryShare))}, err
}

// allowance is --max-memory, or what may be taken without.
func (o *options) allowance() (allowance, error) {
	if o.maxBytes > 0 {
		return allowance{o.maxBytes, "--max-memory"}, nil
	}
	return freeAllowance()
}

// refuse says that requests which a flag of some value asks for would not fit; nil where they do.
func (a allowance) refuse(flag string, value any, requests, bytes float64) error {
	if bytes <= float64(a.bytes) {
		return nil
	}
	return fmt.Errorf("%s %v: %s requests would take about %s, more than the %s allowed (%s); use a smaller %s, or take fewer rows with --limit or --from/--to",
		flag, value, human.Count(int64(requests)), human.Bytes(int64(bytes)), human.Bytes(a.bytes), a.origin, flag)
}
