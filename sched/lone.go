package sched

import (
	"runtime"
	"runtime/debug"
)

// LoneGODEBUG is the setting of GODEBUG that a process with lone waiters must be started with.
const LoneGODEBUG = "asyncpreemptoff=1"

// Alone readies this process for so many lone waiters: nothing may stop the world any more, and each waiter, which never gives
// its P back, has one besides the one for all else. The garbage is not collected from now on.
func Alone(waiters int) {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(waiters + 1)
}
