// Command suite measures fastreplay on this machine: scripts/bench.sh builds and starts it.
//
// Each scenario starts the mock in a process of its own, lets fastreplay and its rivals send the same bytes at the same
// instants to it, one after the other, and repeats that; what is printed are medians and spread of the runs. It owns the
// scenarios, the rivals, the floor, the bars and the tables. It knows fastreplay by its command line and result files
// alone, save for the trace, the prompts and the bodies that rivals send, and the waiter that the floor is measured with.
//
// Scenarios run one at a time on the main goroutine. While a replay runs, the suite waits and does nothing.
package main
