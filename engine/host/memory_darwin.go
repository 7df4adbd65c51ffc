package host

import "golang.org/x/sys/unix"

// FreeMemory is half of the machine's memory in bytes, since macOS has no number like MemAvailable; of names what
// limits it.
func FreeMemory() (bytes int64, of string, err error) {
	total, err := unix.SysctlUint64("hw.memsize")
	return int64(total / 2), "the free memory", err
}

// cgroupsOf is empty: only Linux has control groups.
func cgroupsOf(string) []string { return nil }

// ForbidDumps keeps what this process holds out of core files.
func ForbidDumps() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }
