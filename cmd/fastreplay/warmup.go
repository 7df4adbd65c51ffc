package main

import (
	"context"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
)

// warmUp lets the servers answer some requests before the measurement, which has none of them.
func (r *replay) warmUp(ctx context.Context) error {
	if r.o.warmup == 0 {
		return nil
	}
	r.say.line("warm-up: %s, outside of the measurement", format.Many(int64(r.o.warmup), "request"))
	began, prober := time.Now(), *r.prober
	prober.Timeout = r.o.timeout
	prober.Backend = r.probeBackend
	if err := prober.WarmUp(ctx, r.work, r.source, r.o.warmup, r.o.pacing.concurrency, r.probed.salt); err != nil {
		return err
	}
	r.say.line("         answered in %s", format.Duration(float64(time.Since(began)), 3))
	return nil
}
