//go:build unix && !linux

package host

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// MapMemory maps size zeroed bytes outside the Go heap, of this process alone. UnmapMemory gives them back.
func MapMemory(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// UnmapMemory unmaps what MapMemory or NewSharedMemory has mapped. No slice of it may be used afterwards.
func UnmapMemory(b []byte) error { return unix.Munmap(b) }

// NewSharedMemory is for Linux.
func NewSharedMemory(string, int64) (*os.File, []byte, error) {
	return nil, nil, errors.ErrUnsupported
}
