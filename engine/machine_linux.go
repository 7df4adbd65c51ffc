package engine

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/codec/record"
)

// machineMeters are the files that tell what the machine takes. Reading them allocates nothing.
type machineMeters struct {
	stat    *os.File // /proc/stat; nil = unknown
	senders []sender
	limits  []*os.File // cpu.stat of the control groups that the process is in
	buf     [512]byte
}

// sender is a thread that sends.
type sender struct {
	schedstat *os.File // nil = unknown
	waitedNS  int64    // as last read: a thread that has ended waits no longer; record.None = never
}

// openMachine opens what there is. senders may be threads of another process.
func openMachine(senders []int) *machineMeters {
	m := &machineMeters{stat: openOrNil("/proc/stat")}
	for _, thread := range senders {
		m.senders = append(m.senders, sender{openOrNil(fmt.Sprintf("/proc/%d/schedstat", thread)), record.None})
	}
	groups, _ := os.ReadFile("/proc/self/cgroup") // unreadable, no limit can be known
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, dir := range controlGroups("cpu", string(groups), string(mounts)) {
		if f := openOrNil(path.Join(dir, "cpu.stat")); f != nil {
			m.limits = append(m.limits, f)
		}
	}
	return m
}

func openOrNil(name string) *os.File {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	return f
}

func (m *machineMeters) close() {
	for _, f := range append(m.limits, m.stat) {
		_ = f.Close() // of nil, too
	}
	for _, s := range m.senders {
		_ = s.schedstat.Close()
	}
}

// read reads all counters.
func (m *machineMeters) read() meters {
	now := meters{stolen: record.None, throttled: record.None, waited: record.None}
	if capacity, stolen, ok := parseCPULine(m.text(m.stat)); ok {
		now.capacity, now.stolen = capacity, stolen
	}
	for i := range m.senders {
		s := &m.senders[i]
		if waited, ok := parseSchedstat(m.text(s.schedstat)); ok {
			s.waitedNS = waited
		}
		if s.waitedNS != record.None {
			now.waited = max(0, now.waited) + s.waitedNS
		}
	}
	for _, f := range m.limits {
		if throttled, ok := parseThrottled(m.text(f)); ok {
			now.throttled = max(0, now.throttled) + throttled
		}
	}
	return now
}

// text is the beginning of a file, valid until the next call; nil where there is none.
func (m *machineMeters) text(f *os.File) []byte {
	if f == nil {
		return nil
	}
	n, _ := f.ReadAt(m.buf[:], 0) // a file of /proc is made anew when read from its beginning
	return m.buf[:n]
}

// taskWaits is how long each thread of this process was ever ready and had no core, ns; none where the kernel does not tell.
func taskWaits() map[int]int64 {
	const tasks = "/proc/self/task"
	waits := map[int]int64{}
	entries, _ := os.ReadDir(tasks)
	for _, entry := range entries {
		text, _ := os.ReadFile(path.Join(tasks, entry.Name(), "schedstat")) // gone with its thread
		thread, err := strconv.Atoi(entry.Name())
		if ns, ok := parseSchedstat(text); ok && err == nil {
			waits[thread] = ns
		}
	}
	return waits
}

// tickNS is the unit of /proc/stat, USER_HZ: 1/100 s on every architecture that Go runs on (proc_stat(5)).
const tickNS = 10_000_000

// parseCPULine reads the first line of /proc/stat, of all processors together: their time and what of it was stolen, ns.
func parseCPULine(text []byte) (capacityNS, stolenNS int64, ok bool) {
	line, _, whole := bytes.Cut(text, []byte("\n"))
	rest, named := bytes.CutPrefix(line, []byte("cpu "))
	if !named || !whole {
		return 0, 0, false
	}
	const steal = 7 // user nice system idle iowait irq softirq steal guest guest_nice; guests are in user
	for field := 0; field <= steal; field++ {
		var ticks int64
		if ticks, rest, ok = leadingNumber(bytes.TrimLeft(rest, " ")); !ok || ticks > math.MaxInt64/tickNS/(steal+1) {
			return 0, 0, false
		}
		capacityNS += ticks * tickNS
		stolenNS = ticks * tickNS
	}
	return capacityNS, stolenNS, len(rest) == 0 || rest[0] == ' '
}

// parseSchedstat reads a thread's schedstat: time on a core, time that it waited for one, slices (sched-stats.rst).
func parseSchedstat(text []byte) (waitedNS int64, ok bool) {
	_, rest, ok := leadingNumber(text)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return 0, false
	}
	waitedNS, rest, ok = leadingNumber(rest[1:])
	return waitedNS, ok && len(rest) > 0 && rest[0] == ' '
}

// parseThrottled finds how long a group was throttled in its cpu.stat: throttled_usec (version 2) or throttled_time, ns
// (version 1).
func parseThrottled(text []byte) (ns int64, ok bool) {
	for len(text) > 0 {
		var line []byte
		line, text, ok = bytes.Cut(text, []byte("\n"))
		if !ok {
			return 0, false
		}
		unit := int64(1)
		value, named := bytes.CutPrefix(line, []byte("throttled_time "))
		if !named {
			unit = 1000
			if value, named = bytes.CutPrefix(line, []byte("throttled_usec ")); !named {
				continue
			}
		}
		n, rest, ok := leadingNumber(value)
		return n * unit, ok && len(rest) == 0 && n <= math.MaxInt64/unit
	}
	return 0, false
}

// leadingNumber reads the decimal digits that text begins with.
func leadingNumber(text []byte) (n int64, rest []byte, ok bool) {
	for i, c := range text {
		if c < '0' || c > '9' {
			return n, text[i:], i > 0
		}
		if n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, text, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil, len(text) > 0
}

// threadID is the calling thread.
func threadID() int { return unix.Gettid() }
