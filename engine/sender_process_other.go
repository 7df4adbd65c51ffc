//go:build !linux

package engine

import "errors"

var errNoLaneProcess = errors.New("a lane in a process of its own needs Linux")

func (l *laneProcess) spawn([]string, int) error { return errNoLaneProcess }

// ServeLane is for Linux.
func ServeLane() error { return errNoLaneProcess }

// threadID is the calling thread, which nobody needs to know here.
func threadID() int { return 0 }
