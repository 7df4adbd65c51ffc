package sched

import (
	"errors"
	"fmt"
	"time"
)

// Assumed is how long requests took when they were recorded, where the trace does not say.
type Assumed struct {
	TTFT time.Duration // at most 24 h
	TPOT time.Duration // at most 1 min
}

// The longest latencies that can be assumed: beyond any server, and the longest output times maxTPOT still fits 64 bits.
const (
	maxTTFT = 24 * time.Hour
	maxTPOT = time.Minute
)

// Validate refuses what cannot be meant.
func (a Assumed) Validate() error {
	switch {
	case a.TTFT < 0 || a.TPOT < 0:
		return errors.New("the assumed TTFT and TPOT cannot be negative")
	case a.TTFT > maxTTFT || a.TPOT > maxTPOT:
		return fmt.Errorf("an assumed TTFT of %v and TPOT of %v; want at most %v and %v", a.TTFT, a.TPOT, maxTTFT, maxTPOT)
	}
	return nil
}

// LastNS is how long a request of so many output tokens took, in ns.
func (a Assumed) LastNS(outputTokens int32) int64 {
	return int64(a.TTFT + time.Duration(max(1, outputTokens)-1)*a.TPOT)
}
