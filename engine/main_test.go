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

// eachLane runs a test with the lane in a thread of this process, and in a process of its own where there is such.
func eachLane(t *testing.T, test func(t *testing.T, lane []string)) {
	t.Run("thread", func(t *testing.T) { test(t, nil) })
	if runtime.GOOS == "linux" {
		t.Run("process", func(t *testing.T) { test(t, []string{os.Args[0], laneArgument}) })
	}
}
