package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/muesli/cancelreader"
	"golang.org/x/sys/unix"
)

// keyboard reads single keys from a terminal. It sets the terminal not to wait for whole lines and not to show what is typed. All else
// stays, so that Ctrl-C and Ctrl-Z are signals as ever. A nil *keyboard does nothing.
type keyboard struct {
	file   *os.File
	before unix.Termios
	reader cancelreader.CancelReader
	guard  *exec.Cmd // nil = none
	stdin  io.Closer // of guard
	ended  sync.WaitGroup
}

// readKeys calls onKey with every key that is pressed, in a goroutine of its own. It returns nil if file is no terminal in whose
// foreground we run.
func readKeys(file *os.File, onKey func(byte)) *keyboard {
	if !foreground(file) {
		return nil
	}
	before, err := unix.IoctlGetTermios(int(file.Fd()), getTermios)
	if err != nil {
		return nil
	}
	k := &keyboard{file: file, before: *before}
	if k.reader, err = cancelreader.NewReader(file); err != nil {
		return nil
	}
	k.startGuard()
	k.set()
	k.ended.Go(func() {
		for buf := make([]byte, 64); ; {
			n, err := k.reader.Read(buf)
			if err != nil {
				return
			}
			if n > 0 && len(bytes.Trim(buf[:n], string(buf[:1]))) == 0 { // one key, held down: nothing pasted, no key of several bytes
				onKey(buf[0])
			}
		}
	})
	return k
}

// set makes the terminal send each key at once, unless we run in its background.
func (k *keyboard) set() {
	if k == nil || !foreground(k.file) {
		return
	}
	now := k.before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	_ = unix.IoctlSetTermios(int(k.file.Fd()), setTermios, &now)
}

// restore undoes set.
func (k *keyboard) restore() {
	if k != nil && foreground(k.file) {
		_ = unix.IoctlSetTermios(int(k.file.Fd()), setTermios, &k.before)
	}
}

// guardScript restores the terminal once its standard input ends.
const guardScript = `trap "" INT QUIT TERM HUP TSTP TTOU; cat >/dev/null; stty icanon echo <&3; printf '\r\033[J\033[?25h\033[?2004l' >&3`

// startGuard starts a shell that restores the terminal if this process ends without doing so: it is killed, or a goroutine panics.
// Where there is no shell there is no guard.
func (k *keyboard) startGuard() {
	guard := exec.Command("sh", "-c", guardScript)
	guard.ExtraFiles = []*os.File{k.file}
	stdin, err := guard.StdinPipe()
	if err == nil && guard.Start() == nil {
		k.guard, k.stdin = guard, stdin
	}
}

// end restores the terminal. Nothing is read afterwards.
func (k *keyboard) end() {
	if k == nil {
		return
	}
	k.reader.Cancel()
	k.ended.Wait()
	_ = k.reader.Close()
	k.restore()
	if k.guard != nil {
		_ = k.guard.Process.Kill()
		_ = k.stdin.Close()
		_ = k.guard.Wait()
	}
}
