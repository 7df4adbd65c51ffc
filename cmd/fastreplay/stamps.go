package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// The values of --kernel-timestamps.
const (
	stampsAuto = "auto" // what comes, where the kernel stamps
	stampsOn   = "on"   // what comes, or an error
	stampsOff  = "off"
	stampsSent = "sent" // what comes and what leaves, or an error
)

// checkStamps finds out what the kernel stamps, before anything else takes time.
func (r *replay) checkStamps(context.Context) error {
	if r.o.stamps == stampsOff || r.o.dryRun {
		return nil
	}
	want := wire.Stamps{Receive: true, Send: r.o.stamps == stampsSent}
	err := wire.ProbeStamps(want)
	switch {
	case err == nil:
		r.stamps = want
	case r.o.stamps != stampsAuto:
		return fmt.Errorf("--kernel-timestamps %s: %w; use auto or off", r.o.stamps, err)
	default:
		r.note("no kernel timestamps (%v): instants are those of the reads, so that our lateness in reading is inside latencies", err)
	}
	return nil
}

// openChunkLog makes the file of --chunk-log, if there is to be one. The function returned ends it.
func (r *replay) openChunkLog() (end func(), err error) {
	if r.o.chunkLog == "" {
		return func() {}, nil
	}
	f, err := os.Create(r.o.chunkLog)
	if err != nil {
		return nil, fmt.Errorf("--chunk-log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r.chunks = engine.NewChunkLog(w)
	return func() {
		if err := errors.Join(r.chunks.Err(), w.Flush(), f.Close()); err != nil {
			r.note("--chunk-log is incomplete: %v", err)
		}
	}, nil
}
