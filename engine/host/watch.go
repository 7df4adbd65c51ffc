package host

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// machineTick is the time between two samples. If a sending thread ends, its wait since the last sample is lost. A
// sample takes 5 µs on 2 cores. The kernel builds /proc/stat anew for each sample, which takes longer on more cores.
const machineTick = 100 * time.Millisecond

// unknown stands for a counter that could not be read.
const unknown = math.MinInt64

// meter is a counter that a file of the kernel contains. It only grows: a reading that fails, or is lower, is ignored.
type meter struct {
	file        *os.File // nil = there is none
	first, last int64    // unknown before the first reading
}

func newMeter(name string) meter {
	f, _ := os.Open(name) // nil if there is none, as on macOS; reading or closing nil fails, too
	return meter{f, unknown, unknown}
}

func (m *meter) observe(value int64, ok bool) {
	if !ok {
		return
	}
	if m.last == unknown {
		m.first = value
	}
	m.last = max(m.last, value)
}

// growth is how much meters have grown since their first readings, in total; unknown = unknown.
func growth(meters ...meter) int64 {
	total := int64(unknown)
	for _, m := range meters {
		if m.last != unknown {
			total = max(0, total) + m.last - m.first
		}
	}
	return total
}

// Watch measures the processor time that this process did not get during a run. The hypervisor stole it, a control
// group throttled the process, or a thread waited for a core. One goroutine uses it. A sample allocates nothing.
type Watch struct {
	clock            sched.Clock
	capacity, stolen meter // of all cores, in ticks; both are in capacity's file
	worst            worstSecond
	byTime           stolenSteps
	throttled        []meter // ns, of each control group that the process is in
	waited           []meter // ns, of each sending thread

	senders  []int
	began    map[int]int64 // threadWaits
	othersNS int64         // how long all other threads waited; unknown = unknown, as before the end
	buf      [512]byte
}

// NewWatch takes the first sample. senders are the ids of the threads that send, in this process or another. If there
// are none, SenderRunQueueS stays unknown.
func NewWatch(clock sched.Clock, senders []int) *Watch {
	w := &Watch{
		clock:    clock,
		worst:    worstSecond{fromNS: clock.Now()},
		byTime:   stolenSteps{fromNS: clock.Now()},
		capacity: newMeter("/proc/stat"),
		stolen:   meter{nil, unknown, unknown},
		senders:  senders,
		began:    threadWaits(),
		othersNS: unknown,
	}
	for _, group := range cgroupsOf("cpu") {
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

// Run samples until halt is closed. Then it closes the files.
func (w *Watch) Run(halt <-chan struct{}) {
	defer w.close()
	tick := time.NewTicker(machineTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			w.sample(true)
			w.othersNS = waitedSince(w.began, threadWaits(), w.senders)
			return
		case <-tick.C:
			w.sample(false)
		}
	}
}

// sample reads all counters. last ends the current second of worstSecond.
func (w *Watch) sample(last bool) {
	capacity, stolen, ok := parseCPULine(w.text(w.capacity.file))
	w.capacity.observe(capacity, ok)
	w.stolen.observe(stolen, ok)
	now := w.clock.Now()
	capacity = max(0, growth(w.capacity))
	stolen = max(0, growth(w.stolen))
	w.worst.add(now, capacity, stolen, last)
	w.byTime.add(now, capacity, stolen)
	for i := range w.throttled {
		w.throttled[i].observe(parseThrottled(w.text(w.throttled[i].file)))
	}
	for i := range w.waited {
		w.waited[i].observe(parseSchedstat(w.text(w.waited[i].file)))
	}
}

// text is the beginning of a file, valid until the next call; empty if there is no file.
func (w *Watch) text(f *os.File) []byte {
	n, _ := f.ReadAt(w.buf[:], 0) // the kernel builds a file of /proc anew if it is read from its beginning
	return w.buf[:n]
}

func (w *Watch) close() {
	for _, c := range slices.Concat(w.throttled, w.waited, []meter{w.capacity}) {
		_ = c.file.Close()
	}
}

// worstSecond finds the second with the largest share of stolen time.
type worstSecond struct {
	fromNS, capacity, stolen int64 // when the second began, and the counters at that time
	share                    float64
}

// add takes the counters at atNS. The first reading at least a second after the beginning ends the second. The last
// reading always ends it; a part of a second then counts as a whole one.
func (s *worstSecond) add(atNS, capacity, stolen int64, last bool) {
	length := atNS - s.fromNS
	if length < int64(time.Second) && !last {
		return
	}
	whole := float64(capacity-s.capacity) * max(1, float64(time.Second)/float64(max(1, length)))
	if whole > 0 {
		s.share = max(s.share, float64(stolen-s.stolen)/whole)
	}
	s.fromNS = atNS
	s.capacity = capacity
	s.stolen = stolen
}

// firstStepNS is the length of the steps of a short run: the kernel counts in ticks of 10 ms.
const firstStepNS = int64(200 * time.Millisecond)

// stolenSteps counts all cores' time, and the stolen part of it, by step of time. If a run outlasts the steps, two of
// them become one.
type stolenSteps struct {
	fromNS, lengthNS int64
	capacity, stolen [120]int64 // ticks of each step
	used             int        // steps
	sum, sumStolen   int64      // of all steps
}

// add takes the counters at atNS.
func (s *stolenSteps) add(atNS, capacity, stolen int64) {
	s.lengthNS = max(s.lengthNS, firstStepNS)
	for atNS-s.fromNS >= s.lengthNS*int64(len(s.capacity)) {
		half := len(s.capacity) / 2
		for i := range half {
			s.capacity[i] = s.capacity[2*i] + s.capacity[2*i+1]
			s.stolen[i] = s.stolen[2*i] + s.stolen[2*i+1]
		}
		clear(s.capacity[half:])
		clear(s.stolen[half:])
		s.lengthNS *= 2
		s.used = (s.used + 1) / 2
	}
	at := int((atNS - s.fromNS) / s.lengthNS)
	s.capacity[at] += capacity - s.sum
	s.stolen[at] += stolen - s.sumStolen
	s.sum = capacity
	s.sumStolen = stolen
	s.used = max(s.used, at+1)
}

// shares is the stolen share of each step.
func (s *stolenSteps) shares() *stats.Shares {
	out := &stats.Shares{
		StepS:  float64(s.lengthNS) / 1e9,
		Shares: make([]float64, s.used),
	}
	for i := range out.Shares {
		out.Shares[i] = float64(s.stolen[i]) / float64(max(1, s.capacity[i]))
	}
	return out
}

// Machine is what the machine took. Call it after Run. If w is nil, nothing is known.
func (w *Watch) Machine() (m stats.Machine) {
	if w == nil {
		return m
	}
	per := func(n int64, unit float64) *float64 {
		if n == unknown {
			return nil
		}
		return new(float64(n) / unit)
	}
	stolen := growth(w.stolen)
	waited := growth(w.waited...)
	m.StolenS = per(stolen, tickHz)
	m.SenderRunQueueS = per(waited, 1e9)
	m.ThrottledS = per(growth(w.throttled...), 1e9)
	if capacity := growth(w.capacity); capacity > 0 {
		m.StolenShare = per(stolen, float64(capacity))
		m.StolenWorst = &w.worst.share
		if m.StolenShare != nil {
			m.StolenByTime = w.byTime.shares()
		}
	}
	if w.othersNS != unknown {
		m.RunQueueS = per(w.othersNS+max(0, waited), 1e9)
	}
	return m
}

// threadWaits returns how long each thread of this process has waited for a core since it began, in ns by thread id. It
// is empty if the kernel does not count it.
func threadWaits() map[int]int64 {
	waits := map[int]int64{}
	addThreadWaits(waits, "/proc/self/task")
	return waits
}

// addThreadWaits adds those of the threads in a process's directory of tasks.
func addThreadWaits(waits map[int]int64, tasks string) {
	entries, _ := os.ReadDir(tasks)
	for _, entry := range entries {
		text, _ := os.ReadFile(path.Join(tasks, entry.Name(), "schedstat")) // fails if the thread has ended
		thread, err := strconv.Atoi(entry.Name())
		if ns, ok := parseSchedstat(text); ok && err == nil {
			waits[thread] = ns
		}
	}
}

// waitedSince is how long all threads but some waited between two calls of threadWaits; unknown = unknown. If a thread
// ended between them, its wait is lost.
func waitedSince(before, after map[int]int64, except []int) int64 {
	if len(after) == 0 {
		return unknown
	}
	total := int64(0)
	for thread, ns := range after {
		if !slices.Contains(except, thread) {
			total += max(0, ns-before[thread]) // two threads may have had the same id
		}
	}
	return total
}

// tickHz is the unit of /proc/stat, USER_HZ: 100 on every architecture that Go runs on (proc_stat(5)).
const tickHz = 100

// parseCPULine reads the first line of /proc/stat, which is the sum of all processors: all their time, and the stolen
// part, in ticks.
func parseCPULine(text []byte) (capacity, stolen int64, ok bool) {
	const times = 8 // user nice system idle iowait irq softirq steal; user contains guest and guest_nice, which follow
	line, _, whole := bytes.Cut(text, []byte("\n"))
	line, named := bytes.CutPrefix(line, []byte("cpu "))
	n := 0
	for field := range bytes.FieldsSeq(line) {
		ticks, err := strconv.ParseUint(string(field), 10, 60) // 60 bits, so that the sum does not overflow
		if err != nil {
			return 0, 0, false
		}
		capacity += int64(ticks)
		stolen = int64(ticks)
		if n++; n == times {
			return capacity, stolen, named && whole
		}
	}
	return 0, 0, false
}

// parseSchedstat reads a thread's schedstat: time on a core, time that it waited for one, number of slices
// (sched-stats.rst).
func parseSchedstat(text []byte) (waitedNS int64, ok bool) {
	return numberBetween(text, " ", " ", 63)
}

// parseThrottled finds how long a group was throttled in its cpu.stat: throttled_usec (version 2) or throttled_time, ns
// (version 1).
func parseThrottled(text []byte) (ns int64, ok bool) {
	if us, ok := numberBetween(text, "\nthrottled_usec ", "\n", 53); ok {
		return us * 1000, true
	}
	return numberBetween(text, "\nthrottled_time ", "\n", 63)
}

// numberBetween reads the number between the first before and the next after. It refuses a number of more bits.
func numberBetween(text []byte, before, after string, bits int) (n int64, ok bool) {
	_, text, found := bytes.Cut(text, []byte(before))
	digits, _, whole := bytes.Cut(text, []byte(after))
	if !found || !whole {
		return 0, false
	}
	u, err := strconv.ParseUint(string(digits), 10, bits)
	return int64(u), err == nil
}
