//go:build unix && !linux

package engine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func mapMemory(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }

func newSharedMemory(string, int64) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }
