// Package doctor says what a machine lacks for punctual sending and exact latencies, and the remedy.
//
// Examine measures for some three seconds; it takes threads for good, so a process calls it once and ends. What
// readings mean is a pure function. It prints nothing.
//
// The package is not an API: any release may change it.
package doctor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// How long doctor measures, and how far its deadlines lie apart on average. Two seconds of them are 2,000: enough for
// p99.
const (
	sleepsFor    = 500 * time.Millisecond
	waitsFor     = 2 * time.Second
	deadlineMean = time.Millisecond
)

// What a large replay needs of a machine.
const (
	streamsInFlight   = 10_000
	largeRequestBytes = 1 << 20 // a prompt of 128,000 tokens takes about 0.8 MB as token ids
)

// Where a reading becomes poor or bad.
const (
	latePoorUS, lateBadUS = 1e3, 5e3 // at p99
	sleepPoorUS           = 200      // at p50: a sender spins no longer (sched)
	stolenPoor            = 0.01     // of all cores' time, as in the notes of a run
	othersPoor            = 0.5      // of all cores
	cardPoorUS            = 100      // as exact as an instant should be
)

// readings are what is found out; judge says what they mean. Absent values are unknown here.
type readings struct {
	system        string // GOOS
	offer         host.Offer
	realtime      bool               // SCHED_FIFO was granted
	refused       string             // why it was not
	sleeps        *stats.Percentiles // how late sleeps ended, in µs
	waits         *stats.Percentiles // how late the sender would have sent, in µs: it sleeps, then spins
	machine       stats.Machine      // what the machine took meanwhile
	measuredS     float64
	othersCores   *float64 // that others kept busy meanwhile, on average
	files         int      // that may be open
	sendBuffer    int      // bytes that were granted of largeRequestBytes
	withoutStamps string   // why the kernel stamps nothing; "" if it does
	withoutRing   string   // why there may be no ring of packets; "" if there may
	cards         []host.Card
}

// Grade is how good a reading is for a replay.
type Grade string

// The grades, the best first.
const (
	Fine Grade = "ok"
	Poor Grade = "warn" // it may show in the tails, or it limits large runs
	Bad  Grade = "bad"  // it shows
)

// Diagnosis is what a machine's properties mean for a measurement there.
type Diagnosis struct {
	Checks     []Check `json:"checks"` // in the order of importance
	Conclusion string  `json:"conclusion"`
}

// Check is one property of the machine: what was found, and what to do about it.
type Check struct {
	Name   string `json:"name"`
	Grade  Grade  `json:"grade"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // empty if Grade is Fine
}

// Examine measures this machine for waitsFor, sleepsFor and at most a second more, and says what it lacks.
func Examine() (*Diagnosis, error) {
	r, err := readMachine()
	if err != nil {
		return nil, err
	}
	return judge(r), nil
}

// readMachine takes all readings.
func readMachine() (r readings, err error) {
	r = readings{system: runtime.GOOS, offer: host.ReadOffer()}
	if r.files, err = host.RaiseDescriptors(1 << 20); err != nil {
		return r, err
	}
	if r.sendBuffer, err = wire.ProbeSendBuffer(largeRequestBytes); err != nil {
		return r, fmt.Errorf("nothing can be sent from here: %w", err)
	}
	if err := wire.ProbeStamps(wire.Stamps{Receive: true}); err != nil {
		r.withoutStamps = err.Error()
	}
	if ring, err := wire.OpenRing(nil, 1); err != nil {
		r.withoutRing = err.Error()
	} else {
		ring.Close()
	}
	r.cards = host.Cards()

	clock := sched.NewMonotonic()
	watch := host.NewWatch(clock, nil)
	halt := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		watch.Run(halt)
	}()
	usage := host.UsageNow()
	busy, known := host.BusyTime()
	var measured sync.WaitGroup
	measured.Go(func() { // a goroutine of its own, since Place keeps its thread for good
		p, _ := sched.Place(sched.RealtimeAuto) // auto refuses nothing
		r.realtime = p.FIFO
		r.refused = p.Refused
		r.sleeps = stats.Describe(lateness(clock, 0, sleepsFor), 1e3)
		r.waits = stats.Describe(lateness(clock, sched.AutoSpin, waitsFor), 1e3)
	})
	measured.Wait()
	r.measuredS = float64(clock.Now()) / 1e9
	if now, ok := host.BusyTime(); known && ok {
		r.othersCores = new(max(0, (now-busy-host.UsageNow().Since(usage).CPU.Seconds())/r.measuredS))
	}
	close(halt)
	<-gone
	r.machine = watch.Machine()
	return r, nil
}

// lateness waits for deadlines at random distances, as a sender does, and returns how late each wait ended, in ns. spin
// is that of sched.NewWaiter.
func lateness(clock *sched.Monotonic, spin, length time.Duration) (late []int64) {
	var never atomic.Bool
	w := sched.NewWaiter(clock, spin, &never)
	random := rand.New(rand.NewPCG(1, 2))
	late = make([]int64, 0, 4*length/deadlineMean)
	for end := clock.Now() + int64(length); clock.Now() < end; {
		deadline := clock.Now() + int64(random.ExpFloat64()*float64(deadlineMean))
		w.Wait(deadline)
		late = append(late, clock.Now()-deadline)
	}
	return late
}

// judge returns what readings mean.
func judge(r readings) *Diagnosis {
	d := new(Diagnosis)
	add := func(name string, wrong bool, found, remedy string) {
		c := Check{Name: name, Grade: Fine, Found: found}
		if wrong {
			c.Grade = Poor
			c.Remedy = remedy
		}
		d.Checks = append(d.Checks, c)
	}
	o := r.offer
	linux := r.system == "linux"
	if w := r.waits; w != nil {
		add("punctuality", w.P99 > latePoorUS,
			fmt.Sprintf("requests leave within %s at p50, %s at p99",
				format.Microseconds(w.P50), format.Microseconds(w.P99)),
			"see the lines below; if all are ✓, others were busy: run this again")
		if w.P99 > lateBadUS {
			d.Checks[0].Grade = Bad
		}
	}
	if s := r.machine.StolenShare; s != nil {
		add("stolen time", *s > stolenPoor,
			fmt.Sprintf("the host took %s of all cores' time in %s", format.Share(*s), format.Seconds(r.measuredS)),
			"other guests of the host took it: use an idle or a dedicated host")
	}
	if s := r.machine.ThrottledS; s != nil && *s > 0 {
		add("throttling", true, "a CPU limit stopped this process for "+format.Seconds(*s),
			"raise it (docker --cpus, Kubernetes limits.cpu)")
	}
	cores := float64(o.UsableCores)
	limit := ""
	if o.QuotaCores > 0 {
		cores = min(cores, o.QuotaCores)
		limit = fmt.Sprintf(", with a CPU limit of %s", format.Fixed(o.QuotaCores, 1))
	}
	add("cores", cores < 2, fmt.Sprintf("%d of %d usable%s", o.UsableCores, o.Cores, limit),
		"give it at least 2: one sends, the others read")
	if n := r.othersCores; n != nil {
		add("load of others", *n > othersPoor*float64(o.Cores),
			fmt.Sprintf("others keep %s of %s busy", format.Fixed(*n, 1), format.Many(o.Cores, "core")),
			"stop them, or keep them off the client's cores (taskset, cpuset)")
	}
	switch tails := gravest(d.Checks); tails { // what follows limits runs, or is seen in what stands above
	case Bad:
		d.Conclusion = "Just now p99 would be this machine's, not a server's; a run says what is safe."
	case Poor:
		d.Conclusion = "Good for medians and p90 just now; a run says whether its p99 is safe."
	default:
		d.Conclusion = "This machine would do for p99 of a real server."
	}
	priority := "granted (SCHED_FIFO)"
	grant := "sudo setcap cap_sys_nice+ep FILE, or docker run --cap-add SYS_NICE"
	switch {
	case !linux:
		priority = "on Linux only"
		grant = "quote p99 from a client on Linux"
	case !r.realtime:
		priority = "refused: " + r.refused
	}
	add("real-time priority", !linux || !r.realtime, priority, grant)
	if s := r.sleeps; s != nil {
		add("sleeps", s.P50 > sleepPoorUS,
			fmt.Sprintf("end %s late at p50, %s at p99", format.Microseconds(s.P50), format.Microseconds(s.P99)),
			"timers are coarse, or the machine is busy: no sender spins that long")
	}
	if o.Governor != "" {
		add("frequency", o.Governor != "performance", "the governor is "+o.Governor,
			"sudo cpupower frequency-set -g performance")
	}
	add("kernel timestamps", r.withoutStamps != "", cmp.Or(r.withoutStamps, "the kernel stamps what arrives"),
		"on Linux no lateness in reading would be inside latencies")
	if linux {
		add("packet ring", r.withoutRing != "", cmp.Or(r.withoutRing, "each segment has its instant"),
			"sudo setcap cap_net_raw+ep FILE, or docker run --cap-add NET_RAW")
	}
	for _, c := range r.cards {
		late := c.Adapts || c.DelayUS != nil && *c.DelayUS > cardPoorUS
		add("card "+c.Name, late, describeCard(c),
			fmt.Sprintf("sudo ethtool -C %s adaptive-rx off rx-usecs 10", c.Name))
	}
	need := streamsInFlight + host.DescriptorsBesides
	add("open files", r.files < need,
		fmt.Sprintf("%s, for %s requests in flight", format.Count(r.files),
			format.Count(max(0, r.files-host.DescriptorsBesides))),
		fmt.Sprintf("for %s in flight: ulimit -n %d", format.Count(streamsInFlight), need))
	buffer := map[bool]string{true: "net.core.wmem_max", false: "kern.ipc.maxsockbuf"}[linux]
	add("send buffer", r.sendBuffer < largeRequestBytes,
		fmt.Sprintf("takes %s at once; 128k tokens need up to %s", format.Bytes(r.sendBuffer),
			format.Bytes(largeRequestBytes)),
		"sudo sysctl "+buffer+"=8388608")
	return d
}

// describeCard says what a card does to stamps, in ethtool's words.
func describeCard(c host.Card) string {
	words := []string{"rx-usecs unknown"}
	if c.DelayUS != nil {
		words[0] = fmt.Sprintf("rx-usecs %d", *c.DelayUS)
	}
	if c.Adapts {
		words = append(words, "adaptive-rx")
	}
	if c.Joins {
		words = append(words, "GRO")
	}
	if c.Stamps {
		words = append(words, "own stamps (not used)")
	}
	return strings.Join(words, ", ")
}

// gravest is the worst grade of some checks.
func gravest(checks []Check) Grade {
	worst := Fine
	for _, c := range checks {
		if c.Grade == Bad || worst == Fine {
			worst = c.Grade
		}
	}
	return worst
}
