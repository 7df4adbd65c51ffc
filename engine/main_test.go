package engine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// senderArgument makes this test program the process of the senders.
const senderArgument = "sender"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == senderArgument {
		if err := ServeSender(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// senderKind is where the senders of a run are, and how many there are.
type senderKind struct {
	command []string // nil: in threads of this process
	n       int
}

var oneThread = senderKind{n: 1}

// eachSender runs a test with three senders in threads of this process and, on Linux, with one in a process of its own.
func eachSender(t *testing.T, test func(t *testing.T, kind senderKind)) {
	t.Run("threads", func(t *testing.T) { test(t, senderKind{n: 3}) })
	if runtime.GOOS == "linux" {
		t.Run("a process", func(t *testing.T) { test(t, senderKind{[]string{os.Args[0], senderArgument}, 1}) })
	}
}

// raceDetector reports whether the test program was built with the race detector, which allocates and takes time of its
// own.
func raceDetector() bool {
	built, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
