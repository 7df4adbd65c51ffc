package mockllm

import (
	"time"

	"golang.org/x/sys/unix"
)

// finePause blocks the thread for a short time, to about 0.1 ms. The runtime's own timers wake an idle process up to
// a millisecond late (epoll counts milliseconds).
func finePause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // cut short by a signal, the pacer looks again
}
