// Package engine replays a plan against real servers: it builds every request's bytes before the run, keeps connections
// ready, fires at the planned instants and stamps what comes back.
//
// The order of a run is probe.Resolve (targets), probe.Prober (servers), workload.Recipe (images), New and Do. Lanes are the threads that
// fire; each connection has a receiver from the moment it is dialled: a goroutine parked in a read or, for plain http on
// Linux, a loop that reads many. A request belongs to two sides, the one that writes and the one that reads; whichever ends
// last completes it. Between a deadline and its write there is no channel, map or allocation, and no lock that is contended.
//
// It does not know trace formats, the meaning of a backend's JSON, or how results are laid out on disk or screen.
package engine
