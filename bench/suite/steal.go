package main

import (
	"os"
	"strconv"
	"strings"
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

// putSteal notes which share of the processors the hypervisor gave to others: lateness that no program can help.
func (r *round) putSteal(before cpuTimes) {
	if now := readCPUTimes(); now.all > before.all {
		r.put("machine", "stolen time", ratio, (now.stolen-before.stolen)/(now.all-before.all))
	}
}
