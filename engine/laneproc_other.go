//go:build !linux

package engine

import (
	"errors"
	"os"
)

var errNoLaneProcess = errors.New("a lane in a process of its own needs Linux")

func newSharedMemory(string, int64) (*os.File, []byte, error) { return nil, nil, errNoLaneProcess }

func (l *laneProcess) spawn([]string, int) error { return errNoLaneProcess }

// ServeLane is for Linux.
func ServeLane() error { return errNoLaneProcess }

// threadID is the calling thread, which nobody needs to know here.
func threadID() int { return 0 }
