//go:build clockshift

package shard

import (
	"os"
	"time"
)

// init lets a test put this process's clock ahead: FASTREPLAY_CLOCK_SHIFT=1.5ms.
func init() {
	shift, err := time.ParseDuration(os.Getenv("FASTREPLAY_CLOCK_SHIFT"))
	if err == nil {
		clockShift = int64(shift)
	}
}
