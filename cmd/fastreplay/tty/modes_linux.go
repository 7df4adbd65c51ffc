package tty

import "golang.org/x/sys/unix"

// How a terminal works, asked and set.
const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)
