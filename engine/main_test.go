package engine

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// laneArgument makes this test program the process of a lane.
const laneArgument = "lane"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == laneArgument {
		if err := ServeLane(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == streamArgument {
		if err := serveStreams(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// laneKind is where the lanes of a run live, and how many there are.
type laneKind struct {
	command []string // nil: in threads of this process
	n       int
}

var oneThread = laneKind{n: 1}

// eachLane runs a test with one lane and with three, in threads of this process, and in a process of its own where there is
// such.
func eachLane(t *testing.T, test func(t *testing.T, lane laneKind)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, "threads"), func(t *testing.T) { test(t, laneKind{n: n}) })
		if runtime.GOOS == "linux" {
			t.Run(fmt.Sprint(n, "in a process"), func(t *testing.T) { test(t, laneKind{[]string{os.Args[0], laneArgument}, n}) })
		}
	}
}
