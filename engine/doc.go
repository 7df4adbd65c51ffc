// Package engine replays a plan against real servers: it builds every request's bytes before the run, keeps connections
// ready, fires at the planned instants and stamps what comes back.
//
// The order of a run is Resolve (targets), Probe (servers), Build (images), New and Run. A lane is the one thread that
// fires; each connection has one receiver goroutine, parked in a read from the moment it is dialled. A request belongs to
// two sides, the one that writes and the one that reads; whichever ends last completes it. Between a deadline and its
// write there is no lock, channel, map or allocation.
//
// It does not know trace formats, the meaning of a backend's JSON, or how results are laid out on disk or screen.
package engine
