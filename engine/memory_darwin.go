package engine

import "golang.org/x/sys/unix"

// FreeMemory is half of the machine's memory in bytes: macOS keeps no figure like MemAvailable.
func FreeMemory() (int64, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	return int64(total / 2), err
}
