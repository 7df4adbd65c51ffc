//go:build unix && !linux

package host

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func MapMemory(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func UnmapMemory(b []byte) error { return unix.Munmap(b) }

func NewSharedMemory(string, int64) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }
