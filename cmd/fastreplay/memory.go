package main

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
)

// allowance is how much memory may be taken, and by whose word.
type allowance struct {
	bytes  int64
	origin string
}

// defaultMemoryShare of the free memory may be taken: the rest is for sockets, results and the machine.
const defaultMemoryShare = 0.8

// What a run takes besides its images, in bytes: measured were 55 MB for both processes with their threads, tables and histograms
// (conversation trace at 60 times its speed, 1,500 in flight, 2 cores), and 1.0 kB live for each request, which garbage doubles.
const (
	keptForRun        = 64 << 20
	keptForRequest    = 2 << 10
	keptForConnection = 32 << 10
)

// freeAllowance is what may be taken where nobody says, after kept bytes are taken for all else.
func freeAllowance(kept int64) (allowance, error) {
	free, of, err := host.FreeMemory()
	return allowance{int64(defaultMemoryShare * float64(max(0, free-kept))), fmt.Sprintf("%d %% of %s", int(100*defaultMemoryShare), of)}, err
}

// allowance is --max-memory, or what may be taken without, after kept bytes for all else.
func (o *options) allowance(kept int64) (allowance, error) {
	if o.maxBytes > 0 {
		return allowance{o.maxBytes, "--max-memory"}, nil
	}
	return freeAllowance(kept)
}

// kept is what the run takes besides its images.
func (r *replay) kept() int64 {
	return keptForRun + int64(r.work.Requests())*keptForRequest + int64(r.descriptorsNeeded()-descriptorsBesides)*keptForConnection
}

// refuse says that requests which a flag of some value asks for would not fit; nil where they do.
func (a allowance) refuse(flag string, value any, requests, bytes float64) error {
	if bytes <= float64(a.bytes) {
		return nil
	}
	return fmt.Errorf("%s %v: %s requests would take about %s, more than the %s allowed (%s); use a smaller %s, or take fewer rows with --limit or --from/--to",
		flag, value, format.Count(int64(requests)), format.Bytes(int64(bytes)), format.Bytes(a.bytes), a.origin, flag)
}
