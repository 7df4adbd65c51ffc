package engine

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// senderArgument makes this test program the process of a lane.
const senderArgument = "lane"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == senderArgument {
		if err := ServeSender(); err != nil {
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

// senderKind is where the lanes of a run live, and how many there are.
type senderKind struct {
	command []string // nil: in threads of this process
	n       int
}

var oneThread = senderKind{n: 1}

// eachSender runs a test with one lane and with three, in threads of this process, and in a process of its own where there is
// such.
func eachSender(t *testing.T, test func(t *testing.T, lane senderKind)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, "threads"), func(t *testing.T) { test(t, senderKind{n: n}) })
		if runtime.GOOS == "linux" {
			t.Run(fmt.Sprint(n, "in a process"), func(t *testing.T) { test(t, senderKind{[]string{os.Args[0], senderArgument}, n}) })
		}
	}
}
