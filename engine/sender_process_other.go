//go:build !linux

package engine

import "errors"

var errNoSenderProcess = errors.New("a lane in a process of its own needs Linux")

func (l *senderProcess) spawn([]string, int) error { return errNoSenderProcess }

// ServeSender is for Linux.
func ServeSender() error { return errNoSenderProcess }

// threadID is the calling thread, which nobody needs to know here.
func threadID() int { return 0 }
