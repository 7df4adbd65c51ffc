package model

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// inCI is how many seeds are tried unless FASTREPLAY_MODEL says how many.
const inCI = 5000

// mostForBug is how many seeds may be tried until a planted bug is found.
const mostForBug = 100_000

// TestModel builds the worlds, runs the schedules of many seeds and all short ones of two processes, and then plants
// bugs.
func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it compiles engine")
	}
	program, err := build(t.TempDir())
	must.Do(t, err)
	seeds, turns := inCI, 1
	if text := os.Getenv("FASTREPLAY_MODEL"); text != "" {
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("seeds", func(t *testing.T) {
		processes := min(runtime.NumCPU(), seeds)
		for k := range processes {
			t.Run(fmt.Sprint("process ", k), func(t *testing.T) {
				t.Parallel()
				each := seeds / processes
				if said, err := world(program, "TestSeeds", fmt.Sprint("MODEL_FROM=", 1+k*each), fmt.Sprint("MODEL_COUNT=", each), "MODEL_BUG=0"); err != nil {
					t.Errorf("%v\n%s", err, said)
				}
			})
		}
	})
	t.Run("every schedule", func(t *testing.T) {
		if said, err := world(program, "TestEverySchedule", fmt.Sprint("MODEL_TURNS=", turns)); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	})
	for k, bug := range bugs {
		t.Run("finds "+bug.name, func(t *testing.T) {
			said, err := world(program, "TestSeeds", "MODEL_FROM=1", fmt.Sprint("MODEL_COUNT=", mostForBug), fmt.Sprint("MODEL_BUG=", k+1))
			if lines := strings.Split(said, "\n"); err == nil || len(lines) < 20 || !strings.HasPrefix(lines[0], "seed ") {
				t.Errorf("want a trace of a schedule: %v\n%s", err, said)
			}
		})
	}
}

// world runs a test of engine's world_test.go.
func world(program, test string, env ...string) (said string, err error) {
	c := exec.Command(program, "-test.run", test+"$", "-test.timeout", "0")
	c.Dir = filepath.Join("..", "..") // the sources are read there
	c.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GOGC=800", "GODEBUG=gcshrinkstackoff=1"), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}
