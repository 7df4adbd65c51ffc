// Package tty asks a terminal for its size and its keys, and leaves it as it was.
package tty

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// Size returns the columns and lines of a terminal, 0 if f is none.
func Size(f *os.File) (width, height int) {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		return int(ws.Col), int(ws.Row)
	}
	return 0, 0
}

// Foreground reports whether f is a terminal in whose foreground this process runs. In the background it would be
// stopped if it changed how the terminal works.
func Foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Pressed reports whether the letter key, in either case, was pressed on a terminal in whose foreground this process
// runs. It never waits. The modes (no echo, signals as ever) are set for every look: a shell that had stopped this
// process has set its own. It may have been pressed several times. Pasted text and arrows are no key.
func Pressed(f *os.File, key rune) bool {
	modes, err := unix.IoctlGetTermios(int(f.Fd()), getModes)
	if err != nil || !Foreground(f) {
		return false
	}
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN] = 0
	modes.Cc[unix.VTIME] = 0
	if unix.IoctlSetTermios(int(f.Fd()), setModes, modes) != nil {
		return false
	}
	var typed [256]byte
	n, _ := unix.Read(int(f.Fd()), typed[:])
	other := func(r rune) bool { return unicode.ToLower(r) != key }
	return n > 0 && !bytes.ContainsFunc(typed[:n], other)
}

// Keep returns a function that gives a terminal the modes it has now. A shell does so if this process ends without
// calling it, because a goroutine panics or it is killed. If f is no terminal, nothing is done.
func Keep(f *os.File) (restore func()) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), getModes)
	if err != nil {
		return func() {}
	}
	unguard := guard(f)
	return func() {
		if Foreground(f) { // else a shell that had stopped this process has set its own
			_ = unix.IoctlSetTermios(int(f.Fd()), setModes, before)
		}
		unguard()
	}
}

// guardScript restores the terminal once its standard input ends.
const guardScript = `trap "" INT QUIT TERM HUP TSTP TTOU; cat >/dev/null; stty "$0" <&3; printf '\r\033[J' >&3`

// guard starts a shell that restores the terminal if this process ends. If there is no shell, there is no guard.
func guard(f *os.File) (end func()) {
	ask := exec.Command("stty", "-g")
	ask.Stdin = f
	modes, _ := ask.Output()
	shell := exec.Command("sh", "-c", guardScript, strings.TrimSpace(string(modes)))
	shell.ExtraFiles = []*os.File{f}
	stdin, err := shell.StdinPipe()
	if err != nil || shell.Start() != nil {
		return func() {}
	}
	return func() {
		_ = shell.Process.Kill()
		_ = stdin.Close()
		_ = shell.Wait()
	}
}
