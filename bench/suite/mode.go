package main

import (
	"os/exec"
	"runtime"
)

// mode is how the kernel schedules a lane or a waiter.
type mode struct {
	name     string
	realtime string   // --realtime
	prefix   []string // before the command line
}

const (
	fifo    = "SCHED_FIFO"
	slice   = "short slice"
	neither = "neither"
)

// modes are the placements that this machine can be asked for. Nobody can tell fastreplay not to ask for a short slice:
// for "neither" a filter refuses the system call that asks for it, as a kernel before 6.12 would.
func (l *lab) modes() []mode {
	if l.known == nil {
		l.known = l.findModes()
	}
	return l.known
}

func (l *lab) findModes() []mode {
	if runtime.GOOS != "linux" {
		return []mode{{neither, "off", nil}}
	}
	all := []mode{{slice, "off", nil}, {neither, "off", []string{l.self, refuseCommand}}}
	if l.fifoAllowed() {
		all = append([]mode{{fifo, "on", nil}}, all...)
	}
	return all
}

// best is the first of the modes.
func (l *lab) best() mode { return l.modes()[0] }

// fifoAllowed asks for SCHED_FIFO.
func (l *lab) fifoAllowed() bool {
	return exec.CommandContext(l.ctx, l.self, waitCommand, "--realtime", "on", "--duration", "1ms").Run() == nil
}

// us names fastreplay in a mode.
func us(m mode) string { return "fastreplay, " + m.name }
