package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
)

// grade is how good a reading is for a replay.
type grade string

const (
	fine grade = "ok"
	poor grade = "warn" // it may show in the tails, or it limits large runs
	bad  grade = "bad"  // it shows, or nothing can be sent
)

// check is one property of the machine: what was found, and what to do about it.
type check struct {
	Name   string `json:"name"`
	Grade  grade  `json:"grade"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // empty if Grade is fine
}

// Where a reading becomes poor or bad.
const (
	latePoorUS, lateBadUS = 1e3, 5e3 // at p99; --max-drift is 5 ms
	sleepPoorUS           = 200      // at p50: a sender spins no longer (sched)
	stolenPoor            = 0.01     // of all cores' time, as in the notes of a run
	othersPoor            = 0.5      // of all cores
	memoryPoor            = 1 << 30  // bytes
	filesBad              = 64       // the program itself needs some 20
)

// judge returns what readings mean, in the order of importance.
func judge(r readings) (checks []check) {
	add := func(name string, g grade, found, remedy string) {
		if g == fine {
			remedy = ""
		}
		checks = append(checks, check{name, g, found, remedy})
	}
	linux, m, o := r.System == "linux", r.Machine, r.Offer
	if w := r.Waits; w != nil {
		g := when(w.P99 > latePoorUS, poor)
		if w.P99 > lateBadUS {
			g = bad
		}
		add("punctuality", g, fmt.Sprintf("requests leave within %s at p50, %s at p99", micros(w.P50), micros(w.P99)), r.whyLate())
	}
	if s := m.StolenShare; s != nil {
		add("stolen time", when(*s > stolenPoor, poor), fmt.Sprintf("the host took %s of all cores' time in %s", format.Share(*s), format.Seconds(r.MeasuredS)),
			"other guests of the host took it: use an idle or a dedicated host")
	}
	if s := m.ThrottledS; s != nil && *s > 0 {
		add("throttling", poor, "a CPU limit stopped this process for "+format.Seconds(*s), "raise it (docker --cpus, Kubernetes limits.cpu)")
	}
	cores, limit := float64(o.UsableCores), ""
	if o.QuotaCores > 0 {
		cores, limit = min(cores, o.QuotaCores), fmt.Sprintf(", with a CPU limit of %s", format.Fixed(o.QuotaCores, 1))
	}
	add("cores", when(cores < 2, poor), fmt.Sprintf("%d of %d usable%s", o.UsableCores, o.Cores, limit), "give it at least 2: one sends, the others read")
	if n := r.OthersCores; n != nil {
		add("load of others", when(*n > othersPoor*float64(o.Cores), poor), fmt.Sprintf("others keep %s of %s busy", format.Fixed(*n, 1), format.Many(int64(o.Cores), "core")),
			"stop them, or keep them off the client's cores (taskset, cpuset)")
	}
	switch {
	case !linux:
		add("real-time priority", poor, "on Linux only", "quote p99 from a client on Linux")
	case r.Realtime:
		add("real-time priority", fine, "granted (SCHED_FIFO)", "")
	default:
		add("real-time priority", poor, "refused: "+r.Refused,
			"sudo setcap cap_sys_nice+ep FILE, or docker run --cap-add SYS_NICE")
	}
	if s := r.Sleeps; s != nil {
		add("sleeps", when(s.P50 > sleepPoorUS, poor), fmt.Sprintf("end %s late at p50, %s at p99", micros(s.P50), micros(s.P99)),
			"timers are coarse, or the machine is busy: no sender spins that long")
	}
	if o.Governor != "" {
		add("frequency", when(o.Governor != "performance", poor), "the governor is "+o.Governor, "sudo cpupower frequency-set -g performance")
	}
	add("kernel timestamps", when(r.NoStamps != "", poor), cmp.Or(r.NoStamps, "the kernel stamps what arrives"), "on Linux no lateness in reading would be inside latencies")
	r.sockets(add, linux)
	return checks
}

// whyLate is the likeliest cause of late waits, and its remedy.
func (r readings) whyLate() string {
	switch s := r.Machine.StolenShare; {
	case s != nil && *s > stolenPoor:
		return "the host takes the cores away, see below"
	case r.Offer.UsableCores < 2:
		return "a single core is too few, see below"
	case r.System != "linux":
		return "timers are coarse here: quote p99 from a client on Linux"
	case !r.Realtime:
		return "others run on the sender's core: real-time priority keeps them off, see below"
	}
	return "the machine is busy: run this again, then look for who is"
}

// sockets adds what limits many or large requests.
func (r readings) sockets(add func(name string, g grade, found, remedy string), linux bool) {
	if r.NoSocket != "" {
		add("sockets", bad, r.NoSocket, "let this process make TCP sockets")
		return
	}
	need, remedy := streamsInFlight+descriptorsBesides, "sudo sysctl net.core.wmem_max=8388608"
	g := when(r.Files < need, poor)
	if r.Files < filesBad {
		g = bad
	}
	if !linux {
		remedy = "sudo sysctl kern.ipc.maxsockbuf=8388608"
	}
	add("open files", g, fmt.Sprintf("%s, for %s requests in flight", format.Count(int64(r.Files)), format.Count(int64(max(0, r.Files-descriptorsBesides)))),
		fmt.Sprintf("for %s in flight: ulimit -n %d", format.Count(streamsInFlight), need))
	add("send buffer", when(r.SendBuffer < largeRequestBytes, poor), fmt.Sprintf("takes %s at once; 128k tokens need up to %s", format.Bytes(int64(r.SendBuffer)), format.Bytes(largeRequestBytes)), remedy)
	if n := r.Offer.Ports; n > 0 {
		add("local ports", when(n < streamsInFlight, poor), fmt.Sprintf("%s connections to one address", format.Count(int64(n))), `sudo sysctl net.ipv4.ip_local_port_range="1024 65535"`)
	}
	if free := r.Offer.FreeBytes; free > 0 {
		add("memory", when(free < memoryPoor, poor), format.Bytes(free)+" ("+r.Offer.FreeOf+")", "free some; larger traces are built during the run (--max-memory)")
	}
}

// unable reports whether nothing can be sent.
func unable(checks []check) bool {
	return slices.ContainsFunc(checks, func(c check) bool { return c.Grade == bad && (c.Name == "sockets" || c.Name == "open files") })
}

// conclusion is what the checks mean for a measurement here.
func conclusion(checks []check) string {
	worst, tails := fine, []string{"punctuality", "stolen time", "throttling", "cores", "load of others"}
	for _, c := range checks {
		if slices.Contains(tails, c.Name) && (c.Grade == bad || worst == fine) {
			worst = c.Grade
		}
	}
	switch {
	case unable(checks):
		return "Nothing can be sent from here."
	case worst == bad:
		return "Just now p99 would be this machine's, not a server's; a run says what is safe."
	case worst == poor:
		return "Good for medians and p90 just now; a run says whether its p99 is safe."
	}
	return "This machine would do for p99 of a real server."
}

func when(is bool, g grade) grade {
	if is {
		return g
	}
	return fine
}

func micros(us float64) string { return format.Duration(us*1e3, 3) }
