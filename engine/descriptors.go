//go:build unix

package engine

import "golang.org/x/sys/unix"

// RaiseDescriptors raises the limit of open files as far as the process may, up to want, and returns what it is then.
func RaiseDescriptors(want int) (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	if l.Cur >= uint64(want) {
		return int(l.Cur), nil
	}
	for _, higher := range []unix.Rlimit{{Cur: uint64(want), Max: max(l.Max, uint64(want))}, {Cur: min(l.Max, uint64(want)), Max: l.Max}} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &higher) == nil {
			return int(higher.Cur), nil
		}
	}
	return int(l.Cur), nil
}
