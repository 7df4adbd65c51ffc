package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// MapMemory maps size zeroed bytes outside the Go heap, of this process alone. UnmapMemory gives them back.
func MapMemory(size int64) ([]byte, error) {
	b, err := unix.Mmap(
		-1,
		0,
		int(size),
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE,
	)
	if err == nil {
		// Huge pages cut the faults of the first touch by 512; refused by some kernels, and then not missed.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b, err
}

// UnmapMemory unmaps what MapMemory or NewSharedMemory has mapped. No slice of it may be used afterwards.
func UnmapMemory(b []byte) error { return unix.Munmap(b) }

// NewSharedMemory makes memory that another process can map: zeroed bytes behind a descriptor.
// Close the file when no process needs to map it any more.
func NewSharedMemory(name string, size int64) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, b, nil
}
