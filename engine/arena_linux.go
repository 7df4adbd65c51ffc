package engine

import "golang.org/x/sys/unix"

func mapMemory(size int64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err == nil {
		// Huge pages cut the faults of the first touch by 512; refused by some kernels, and then not missed.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b, err
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
