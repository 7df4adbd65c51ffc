package host

import (
	"errors"
	"os"
	"syscall"
)

// Lock marks an open file as one that this process writes, until it is closed. Where the file system has no locks,
// nothing is marked.
func Lock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Locked reports whether some process has marked a regular file by Lock. A file that cannot be opened is not locked.
func Locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // nothing was written
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
