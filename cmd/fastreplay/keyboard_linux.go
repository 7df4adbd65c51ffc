package main

import "golang.org/x/sys/unix"

// The requests that read and set how a terminal works; the latter waits for output.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETSW
)
