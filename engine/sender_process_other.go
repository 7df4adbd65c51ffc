//go:build !linux

package engine

import "errors"

var errNoSenderProcess = errors.New("a sender process needs Linux")

func (l *senderProcess) spawn([]string, int) error { return errNoSenderProcess }

// ServeSender needs Linux.
func ServeSender() error { return errNoSenderProcess }
