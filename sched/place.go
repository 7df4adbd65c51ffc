package sched

// Realtime is whether threads get priority: those that send SCHED_FIFO, those that read nice −10.
type Realtime string

// The values of --realtime.
const (
	RealtimeAuto Realtime = "auto" // SCHED_FIFO if the process may, else a short slice
	RealtimeOn   Realtime = "on"   // SCHED_FIFO or an error, for those that send
	RealtimeOff  Realtime = "off"  // the short slice only
)

// Placement is how the kernel schedules a placed thread.
type Placement struct {
	FIFO       bool   // SCHED_FIFO
	ShortSlice bool   // SCHED_OTHER with a slice of 100 µs (Linux 6.12 and later)
	Refused    string // why SCHED_FIFO was not granted; "" if it was, or was not wanted
}

// String returns the placement as the terminal has it.
func (p Placement) String() string {
	switch {
	case p.FIFO:
		return "SCHED_FIFO"
	case p.ShortSlice:
		return "SCHED_OTHER, 100 µs slice"
	default:
		return "default scheduling"
	}
}
