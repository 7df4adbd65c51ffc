//go:build !linux

package mockllm

import "time"

// finePause sleeps for a short time.
func finePause(d time.Duration) { time.Sleep(d) }
