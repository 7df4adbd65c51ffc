package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ClockWords says what the kernel knows of how right the wall clock is (adjtimex(2)).
func ClockWords() string {
	var t unix.Timex
	if state, err := unix.Adjtimex(&t); err != nil || state == unix.TIME_ERROR {
		return "nothing synchronises this machine's clock"
	}
	return fmt.Sprintf(
		"this machine's clock is right within %v, says the kernel",
		time.Duration(t.Maxerror)*time.Microsecond,
	)
}
