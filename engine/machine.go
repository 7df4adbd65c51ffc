package engine

import (
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// machineTick is how often the machine is asked what it took. A fifth of it joined fewer late requests with what made them
// late (23 of 44 in one of three runs), for a wait also delays those whose instants come after it. A sample takes 9 µs on 2
// cores; the kernel makes /proc/stat anew for each, which takes longer the more cores there are.
const machineTick = 100 * time.Millisecond

// meters are readings of counters that only grow, ns; record.None = unknown. The zero value is no reading.
type meters struct {
	capacity, stolen int64 // the machine's processor time, all cores; what the hypervisor gave to others of it
	throttled        int64 // by limits of control groups, all cores
	waited           int64 // how long the sending threads were ready and had no core, all together
}

// machineWatch samples what the machine takes from the client while it replays. One goroutine uses it. A sample allocates
// nothing, but for the list of intervals to grow.
type machineWatch struct {
	clock   sched.Clock
	machine *machineMeters
	loss    *metrics.MachineLoss
	last    meters

	senders  []int
	began    map[int]int64 // taskWaits
	othersNS int64         // how long all threads but the senders waited; record.None = unknown, as it is before the end
}

// newMachineWatch begins to count now. senders are the threads that send, of whichever process; none: nothing is known of them.
func newMachineWatch(clock sched.Clock, senders []int) *machineWatch {
	w := &machineWatch{
		clock: clock, machine: openMachine(senders), loss: metrics.NewMachineLoss(clock.Now()),
		senders: senders, began: taskWaits(), othersNS: record.None,
	}
	w.last = w.machine.read()
	w.loss.Known = [metrics.Causes]bool{
		metrics.Stolen: w.last.stolen != record.None, metrics.Throttled: w.last.throttled != record.None,
		metrics.Waited: w.last.waited != record.None,
	}
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
			w.othersNS = waitedSince(w.began, taskWaits(), w.senders)
			return
		case <-tick.C:
			w.sample()
		}
	}
}

// sample adds an interval.
func (w *machineWatch) sample() {
	i := metrics.Interval{EndNS: w.clock.Now()}
	now := w.machine.read()
	i.CapacityNS = grown(&w.last.capacity, now.capacity)
	i.LostNS[metrics.Stolen] = grown(&w.last.stolen, now.stolen)
	i.LostNS[metrics.Throttled] = grown(&w.last.throttled, now.throttled)
	i.LostNS[metrics.Waited] = grown(&w.last.waited, now.waited)
	w.loss.Add(i)
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

// waitedSince adds up the waits between two taskWaits, but for some threads; record.None = unknown. What a thread waited that
// ended between them is lost.
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

// Machine is what the machine took from the run. Call it after Do; nil where that sent nothing.
func (r *Run) Machine() *metrics.Machine {
	if r.machine == nil {
		return nil
	}
	return &metrics.Machine{Loss: r.machine.loss, OthersWaitedNS: r.machine.othersNS}
}

// Late joins the requests that left more than so many ms after their instants with what the machine took at that time.
// Call it after Do.
func (r *Run) Late(limitMS float64) *metrics.Late {
	if r.machine == nil {
		return nil
	}
	return r.machine.loss.Late(int64(limitMS*1e6), r.records)
}

// soleSenders are the threads that do nothing but send. There are none in a closed loop or with a cap, where those that receive send too.
func (r *Run) soleSenders() []int {
	switch {
	case !r.work.Plan.Open() || r.limiter != nil || r.turns != nil:
		return nil
	case r.remote != nil:
		return r.remote.threads()
	}
	return r.senders
}
