package engine

import (
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

const (
	// machineTick is how often the machine is asked what it took. A fifth of it joined fewer late requests with what made
	// them late (23 of 44 in one of three runs), for a wait also delays those whose instants come after it. A sample takes 9 µs
	// on 2 cores; the kernel makes /proc/stat anew for each, which takes longer the more cores there are.
	machineTick = 100 * time.Millisecond
	// threadsEvery ticks all threads are asked how long they waited: 3 µs a thread.
	threadsEvery = 10
)

// meters are readings of counters that only grow, ns; record.None = unknown. The zero value is no reading.
type meters struct {
	capacity, stolen int64 // the machine's processor time, all cores; what the hypervisor gave to others of it
	throttled        int64 // by limits of control groups, all cores
	waited           int64 // how long the sending threads were ready and had no core, all together
}

// machineWatch samples what the machine takes from the client while it replays. One goroutine uses it. After newMachineWatch it
// allocates nothing, but for its timeline to grow and for more threads than it has met before.
type machineWatch struct {
	clock    sched.Clock
	machine  *machineMeters
	timeline *metrics.Timeline
	last     meters
	ticks    int
}

// newMachineWatch begins to count now. senders are the threads that send, of whichever process; none: nothing is known of them.
func newMachineWatch(clock sched.Clock, senders []int) *machineWatch {
	w := &machineWatch{clock: clock, machine: openMachine(senders), timeline: metrics.NewTimeline(clock.Now())}
	w.last = w.machine.read()
	w.timeline.Known = [metrics.Causes]bool{
		metrics.Stolen: w.last.stolen != record.None, metrics.Throttled: w.last.throttled != record.None,
		metrics.Waited: w.last.waited != record.None,
	}
	w.machine.tasks.read()
	return w
}

// watch samples until halt is closed, and then closes its files.
func (w *machineWatch) watch(halt <-chan struct{}) {
	defer w.machine.close()
	tick := time.NewTicker(machineTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			w.sample()
			w.machine.tasks.read()
			return
		case <-tick.C:
			w.sample()
			if w.ticks++; w.ticks%threadsEvery == 0 {
				w.machine.tasks.read()
			}
		}
	}
}

// sample adds an interval to the timeline.
func (w *machineWatch) sample() {
	i := metrics.Interval{EndNS: w.clock.Now()}
	now := w.machine.read()
	i.CapacityNS = grown(&w.last.capacity, now.capacity)
	i.LostNS[metrics.Stolen] = grown(&w.last.stolen, now.stolen)
	i.LostNS[metrics.Throttled] = grown(&w.last.throttled, now.throttled)
	i.LostNS[metrics.Waited] = grown(&w.last.waited, now.waited)
	w.timeline.Add(i)
}

// grown moves a counter on and returns by how much; a reading that fails, or falls back, counts nothing.
func grown(last *int64, now int64) int64 {
	before := *last
	if before == record.None || now == record.None || now <= before {
		return 0
	}
	*last = now
	return now - before
}

// Machine is what the machine took from the run. Call it after Do; nil where that sent nothing.
func (r *Run) Machine() *metrics.Machine {
	if r.machine == nil {
		return nil
	}
	return &metrics.Machine{Timeline: r.machine.timeline, OthersWaitedNS: r.machine.machine.tasks.total}
}

// Late joins the requests that left more than so many ms after their instants with what the machine took at that time.
// Call it after Do.
func (r *Run) Late(limitMS float64) *metrics.Late {
	if r.machine == nil {
		return nil
	}
	return r.machine.timeline.Late(int64(limitMS*1e6), r.records)
}

// soleSenders are the threads that do nothing but send. There are none in a closed loop, where those that receive send too.
func (r *Run) soleSenders() []int {
	switch {
	case !r.work.Plan.Open():
		return nil
	case r.remote != nil:
		return r.remote.threads()
	}
	return r.senders
}
