package host

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// addressReserve is how much of `ulimit -v` is left for threads that begin during a run, for their stacks and heaps, in
// bytes. Measured: 640 MB, most of it never touched (13 threads, 2 cores, Linux 6.18, glibc).
const addressReserve = 768 << 20

// FreeMemory is how many bytes this process and its children can still use; of names what limits them. It is the least
// of: the machine's memory without swapping, the room under the memory limits of its control groups, `ulimit -v` and
// `ulimit -d`.
func FreeMemory() (bytes int64, of string, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, "", err
	}
	kib, ok := counter(string(text), "MemAvailable:")
	if !ok {
		return 0, "", fmt.Errorf("/proc/meminfo: no MemAvailable")
	}
	bytes = kib << 10
	of = "the free memory"
	for _, dir := range cgroupsOf("memory") {
		if room, ok := cgroupRoom(dir); ok && room < bytes {
			bytes = room
			of = "what the memory limit of the control group " + dir + " leaves"
		}
	}
	text, _ = os.ReadFile("/proc/self/statm") // pages: size resident shared text lib data
	used := strings.Fields(string(text))
	for _, l := range []struct {
		flag            string
		resource, field int
		kept            int64
	}{
		{"-v", unix.RLIMIT_AS, 0, addressReserve},
		{"-d", unix.RLIMIT_DATA, 5, 0},
	} {
		var limit unix.Rlimit
		if len(used) <= l.field || unix.Getrlimit(l.resource, &limit) != nil || limit.Cur > math.MaxInt64 {
			continue
		}
		pages, _ := strconv.ParseInt(used[l.field], 10, 64)
		room := int64(limit.Cur) - pages*int64(os.Getpagesize()) - l.kept
		if room < bytes {
			bytes = room
			of = "what `ulimit " + l.flag + "` leaves"
		}
	}
	return max(0, bytes), of, nil
}

// counter finds the number of a name, in lines of one name and one number.
func counter(text, name string) (n int64, ok bool) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// cgroupRoom is how many bytes the memory limits of the control group at dir leave; false if it has no limit. Pages of
// files are not counted as used: the kernel reclaims them before it kills.
func cgroupRoom(dir string) (room int64, ok bool) {
	number := func(name string) (int64, bool) {
		text, err := os.ReadFile(path.Join(dir, name))
		n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no limit
		return n, err == nil && bad == nil
	}
	stat, _ := os.ReadFile(path.Join(dir, "memory.stat"))
	for _, version := range []struct{ limit, usage, pages string }{
		{"memory.max", "memory.current", ""},
		{"memory.high", "memory.current", ""},
		{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"},
	} {
		limit, limited := number(version.limit)
		used, known := number(version.usage)
		if !limited || !known {
			continue
		}
		active, _ := counter(string(stat), version.pages+"active_file")
		inactive, _ := counter(string(stat), version.pages+"inactive_file")
		if left := limit - max(0, used-active-inactive); !ok || left < room {
			room = left
			ok = true
		}
	}
	return room, ok
}

// cgroupsOf are the cgroups of this process; none if they cannot be read.
func cgroupsOf(controller string) []string {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return cgroups(controller, string(groups), string(mounts))
}

// cgroups returns the directories of the control groups in which a controller limits this process: its own group and
// all visible ones above. groups is the text of /proc/self/cgroup (see cgroups(7)). mounts is the text of
// /proc/self/mountinfo (see proc_pid_mountinfo(5)). In some containers the own group is outside of what is mounted.
// Then the mount's root is the nearest group that is visible.
func cgroups(controller, groups, mounts string) (dirs []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(mounts) {
		place, system, _ := strings.Cut(line, " - ")
		if !strings.HasPrefix(system, "cgroup") {
			continue
		}
		at := strings.Fields(place)
		kind := strings.Fields(system)
		if len(at) < 5 || len(kind) < 3 || seen[at[2]] {
			continue
		}
		v2 := kind[0] == "cgroup2"
		if !v2 && (kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), controller)) {
			continue
		}
		seen[at[2]] = true // one hierarchy may be mounted twice
		spaces := strings.NewReplacer(`\040`, " ", `\134`, `\`)
		root := spaces.Replace(at[3])
		mount := spaces.Replace(at[4])
		own := "/"
		for group := range strings.Lines(groups) {
			parts := strings.SplitN(strings.TrimSpace(group), ":", 3) // hierarchy:controllers:path; 0 is version 2
			if len(parts) == 3 &&
				(v2 && parts[0] == "0" || !v2 && slices.Contains(strings.Split(parts[1], ","), controller)) {
				own = parts[2]
			}
		}
		below, err := filepath.Rel(path.Clean(root), path.Clean("/"+own))
		if err != nil || strings.HasPrefix(below, "..") {
			below = "."
		}
		for below = path.Clean("/" + below); ; below = path.Dir(below) {
			dirs = append(dirs, path.Join(mount, below))
			if below == "/" {
				break
			}
		}
	}
	return dirs
}

// ForbidDumps keeps what this process holds out of core files, and away from debuggers of other users than root.
func ForbidDumps() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
