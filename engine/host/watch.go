package host

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// machineTick is how often the machine is asked what it took. If a sending thread ends, its wait since the last reading
// is lost. A sample takes 5 µs on 2 cores; the kernel makes /proc/stat anew for each, which takes longer on more cores.
const machineTick = 100 * time.Millisecond

// meter is a number that only grows, as a file of the system tells it. A reading that fails, or falls back, counts
// nothing.
type meter struct {
	file        *os.File // nil = unknown
	first, last int64    // record.None before the first reading
}

func newMeter(name string) meter {
	f, _ := os.Open(name) // nil where there is none, as on macOS; to read or close nil fails, too
	return meter{f, record.None, record.None}
}

func (m *meter) take(value int64, ok bool) {
	if !ok {
		return
	}
	if m.last == record.None {
		m.first = value
	}
	m.last = max(m.last, value)
}

// grown is by how much meters have grown since their first readings, all together; record.None = unknown.
func grown(meters ...meter) int64 {
	total := int64(record.None)
	for _, m := range meters {
		if m.last != record.None {
			total = max(0, total) + m.last - m.first
		}
	}
	return total
}

// Watch samples what the machine takes from the client while it replays. One goroutine uses it. A sample allocates
// nothing.
type Watch struct {
	clock            sched.Clock
	capacity, stolen meter // ticks of all cores; both of capacity's file
	worst            worstSecond
	throttled        []meter // ns, of the control groups that the process is in
	waited           []meter // ns, of the sending threads

	senders  []int
	began    map[int]int64 // taskWaits
	othersNS int64         // how long all threads but the senders waited; record.None = unknown, as it is before the end
	buf      [512]byte
}

// NewWatch begins to count now. senders are the threads that send, of this process or another; if there are none,
// their wait is unknown.
func NewWatch(clock sched.Clock, senders []int) *Watch {
	w := &Watch{
		clock: clock, worst: worstSecond{fromNS: clock.Now()},
		capacity: newMeter("/proc/stat"), stolen: meter{nil, record.None, record.None},
		senders: senders, began: taskWaits(), othersNS: record.None,
	}
	for _, group := range groupsOf("cpu") {
		if c := newMeter(path.Join(group, "cpu.stat")); c.file != nil {
			w.throttled = append(w.throttled, c)
		}
	}
	for _, thread := range senders {
		w.waited = append(w.waited, newMeter(fmt.Sprintf("/proc/%d/schedstat", thread)))
	}
	w.sample(false)
	return w
}

// Run samples until halt is closed, and then closes its files.
func (w *Watch) Run(halt <-chan struct{}) {
	defer w.close()
	tick := time.NewTicker(machineTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			w.sample(true)
			w.othersNS = waitedSince(w.began, taskWaits(), w.senders)
			return
		case <-tick.C:
			w.sample(false)
		}
	}
}

// sample reads all counters; last ends the second that the worst is looked for in.
func (w *Watch) sample(last bool) {
	capacity, stolen, ok := parseCPULine(w.text(w.capacity.file))
	w.capacity.take(capacity, ok)
	w.stolen.take(stolen, ok)
	w.worst.add(w.clock.Now(), max(0, grown(w.capacity)), max(0, grown(w.stolen)), last)
	for i := range w.throttled {
		w.throttled[i].take(parseThrottled(w.text(w.throttled[i].file)))
	}
	for i := range w.waited {
		w.waited[i].take(parseSchedstat(w.text(w.waited[i].file)))
	}
}

// text is the beginning of a file, valid until the next call; nothing where there is none.
func (w *Watch) text(f *os.File) []byte {
	n, _ := f.ReadAt(w.buf[:], 0) // a file of /proc is made anew when read from its beginning
	return w.buf[:n]
}

func (w *Watch) close() {
	for _, c := range slices.Concat(w.throttled, w.waited, []meter{w.capacity}) {
		_ = c.file.Close()
	}
}

// worstSecond finds the second of which the largest share was stolen.
type worstSecond struct {
	fromNS, capacity, stolen int64 // when the second began, and the counters then
	share                    float64
}

// add takes the counters at atNS. The first reading at least a second after the beginning ends the second. The last
// reading ends it anyway, and what is left counts as a whole second.
func (s *worstSecond) add(atNS, capacity, stolen int64, last bool) {
	length := atNS - s.fromNS
	if length < int64(time.Second) && !last {
		return
	}
	whole := float64(capacity-s.capacity) * max(1, float64(time.Second)/float64(max(1, length)))
	if whole > 0 {
		s.share = max(s.share, float64(stolen-s.stolen)/whole)
	}
	s.fromNS, s.capacity, s.stolen = atNS, capacity, stolen
}

// Machine is what the machine took. Call it after Run; of a nil Watch nothing is known.
func (w *Watch) Machine() (m metrics.Machine) {
	if w == nil {
		return m
	}
	per := func(n int64, unit float64) *float64 {
		if n == record.None {
			return nil
		}
		v := float64(n) / unit
		return &v
	}
	stolen, waited := grown(w.stolen), grown(w.waited...)
	m.StolenS, m.LaneRunQueueS = per(stolen, tickHz), per(waited, 1e9)
	m.ThrottledS = per(grown(w.throttled...), 1e9)
	if capacity := grown(w.capacity); capacity > 0 {
		m.StolenShare, m.StolenWorst = per(stolen, float64(capacity)), &w.worst.share
	}
	if w.othersNS != record.None {
		m.RunQueueS = per(w.othersNS+max(0, waited), 1e9)
	}
	return m
}

// taskWaits is how long each thread of this process was ever ready and had no core, ns; none where the kernel does not
// tell.
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

// waitedSince adds up the waits between two taskWaits, but for some threads; record.None = unknown. If a thread ended
// between them, its wait is lost.
func waitedSince(before, after map[int]int64, except []int) int64 {
	if len(after) == 0 {
		return record.None
	}
	total := int64(0)
	for thread, ns := range after {
		if !slices.Contains(except, thread) {
			total += max(0, ns-before[thread]) // one id may have had two threads
		}
	}
	return total
}

// tickHz is the unit of /proc/stat, USER_HZ: 100 on every architecture that Go runs on (proc_stat(5)).
const tickHz = 100

// parseCPULine reads the first line of /proc/stat, of all processors together: their time and what of it was stolen, in
// ticks.
func parseCPULine(text []byte) (capacity, stolen int64, ok bool) {
	const times = 8 // user nice system idle iowait irq softirq steal; guest and guest_nice follow, and are in user
	line, _, whole := bytes.Cut(text, []byte("\n"))
	line, named := bytes.CutPrefix(line, []byte("cpu "))
	n := 0
	for field := range bytes.FieldsSeq(line) {
		ticks, err := strconv.ParseUint(string(field), 10, 60) // so that the sum of all is no overflow
		if err != nil {
			return 0, 0, false
		}
		capacity, stolen = capacity+int64(ticks), int64(ticks)
		if n++; n == times {
			return capacity, stolen, named && whole
		}
	}
	return 0, 0, false
}

// parseSchedstat reads a thread's schedstat: time on a core, time that it waited for one, slices (sched-stats.rst).
func parseSchedstat(text []byte) (waitedNS int64, ok bool) { return numberBetween(text, " ", " ", 63) }

// parseThrottled finds how long a group was throttled in its cpu.stat: throttled_usec (version 2) or throttled_time, ns
// (version 1).
func parseThrottled(text []byte) (ns int64, ok bool) {
	if us, ok := numberBetween(text, "\nthrottled_usec ", "\n", 53); ok {
		return us * 1000, true
	}
	return numberBetween(text, "\nthrottled_time ", "\n", 63)
}

// numberBetween reads the number that stands between two texts, the first of each; a number of more bits is refused.
func numberBetween(text []byte, before, after string, bits int) (n int64, ok bool) {
	_, text, found := bytes.Cut(text, []byte(before))
	digits, _, whole := bytes.Cut(text, []byte(after))
	if !found || !whole {
		return 0, false
	}
	u, err := strconv.ParseUint(string(digits), 10, bits)
	return int64(u), err == nil
}
