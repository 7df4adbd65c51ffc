package host

import "golang.org/x/sys/unix"

// FreeMemory is half of the machine's memory in bytes, and what bounds it: macOS keeps no figure like MemAvailable.
func FreeMemory() (bytes int64, of string, err error) {
	total, err := unix.SysctlUint64("hw.memsize")
	return int64(total / 2), "the free memory", err
}

// groupsOf is for Linux.
func groupsOf(string) []string { return nil }
