// Package sched owns all time: the run's clock, the plan of release instants, loads that are multiplied, the waiter that sleeps
// and spins up to a deadline, and the placement of the thread that waits.
//
// It does not know what a request contains. A Monotonic clock may be read by any goroutine; a Plan is immutable once
// made; a Waiter and a Placement belong to the one locked thread that uses them. Nothing here allocates after it is made.
package sched
