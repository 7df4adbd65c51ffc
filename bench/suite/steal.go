package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTimes are the machine's processor times since it started, in ticks.
type cpuTimes struct{ all, stolen float64 }

// readCPUTimes reads the first line of /proc/stat (proc_stat(5)); zero where there is none.
func readCPUTimes() cpuTimes {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}
	}
	return parseCPUTimes(string(text))
}

func parseCPUTimes(text string) (t cpuTimes) {
	first, _, _ := strings.Cut(text, "\n")
	const steal = 8 // fields: cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are in user
	for i, field := range strings.Fields(first) {
		v, err := strconv.ParseFloat(field, 64)
		if i == 0 || i > steal || err != nil {
			continue
		}
		t.all += v
		if i == steal {
			t.stolen = v
		}
	}
	return t
}

// since is which share of the processors the hypervisor gave to others: lateness that no program can help.
func (t cpuTimes) since(before cpuTimes) float64 {
	if t.all <= before.all {
		return 0
	}
	return (t.stolen - before.stolen) / (t.all - before.all)
}

const (
	// mostStolen of a measurement's time may be stolen before it is repeated: two requests in a hundred would be late by that
	// alone.
	mostStolen = 0.02
	// mostRepeats bounds that: some hosts are never quiet.
	mostRepeats = 2
	// restTime lets a host that counts credits give more.
	restTime = 15 * time.Second
)

// undisturbed measures a scenario, again where the host took too much; the last measurement counts.
func undisturbed(r *round, s scenario) error {
	for repeats := 0; ; repeats++ {
		before := readCPUTimes()
		err := s.run(r)
		stolen := readCPUTimes().since(before)
		r.put("machine", "stolen time", ratio, stolen)
		r.put("machine", "repeated", count, float64(repeats))
		if err != nil || stolen <= mostStolen || repeats == mostRepeats || r.quick {
			return err
		}
		fmt.Fprintf(r.log, "  %s, run %d: again, for the host took %.1f %% of the CPU time\n", r.scenario, r.number+1, 100*stolen)
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(restTime):
		}
	}
}
