package sched_test

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// The recorded instants at twice the speed, for as long as 30 ms.
func ExampleFromTrace() {
	arrivals := []int64{0, 20_000_000, 50_000_000, 80_000_000} // ns
	plan, err := sched.FromTrace(arrivals, 2, 30*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range plan.ReleaseNS {
		fmt.Println(time.Duration(at))
	}
	// Output:
	// 0s
	// 10ms
	// 25ms
}

// 100 requests a second, whatever the trace says.
func ExampleFromArrivals() {
	plan, err := sched.FromArrivals(3, sched.Arrivals{Rate: sched.Steady(100), Process: sched.Constant}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range plan.ReleaseNS {
		fmt.Println(time.Duration(at))
	}
	// Output:
	// 0s
	// 10ms
	// 20ms
}
