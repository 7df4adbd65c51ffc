package host

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
)

// Offer is what the machine offers to this process before a run. A zero says that the system does not report it.
type Offer struct {
	Cores       int     // of the machine
	UsableCores int     // those that affinity and cpusets leave to this process
	QuotaCores  float64 // the CPU limit of its control groups, in cores
	Governor    string  // frequency governor of the first core
}

// ReadOffer reads what the machine offers now.
func ReadOffer() (o Offer) {
	o.UsableCores = runtime.NumCPU()
	o.Cores = max(o.UsableCores, strings.Count(textOf("/proc/stat"), "\ncpu"))
	for _, dir := range cgroupsOf("cpu") {
		quota := textOf(path.Join(dir, "cpu.max")) // version 2; version 1 has two files
		if quota == "" {
			quota = textOf(path.Join(dir, "cpu.cfs_quota_us")) + " " + textOf(path.Join(dir, "cpu.cfs_period_us"))
		}
		if cores := quotaCores(quota); cores > 0 && (o.QuotaCores == 0 || cores < o.QuotaCores) {
			o.QuotaCores = cores
		}
	}
	o.Governor = textOf("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	return o
}

// textOf is a file's text without the spaces around it; empty if it cannot be read.
func textOf(name string) string {
	text, _ := os.ReadFile(name)
	return string(bytes.TrimSpace(text))
}

// quotaCores reads a quota and its period, both in µs; 0 if there is no limit ("max" in version 2, -1 in version 1).
func quotaCores(text string) float64 {
	var quota, period float64
	if n, _ := fmt.Sscan(text, &quota, &period); n != 2 || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// BusyTime is how much processor time everybody on the machine has used since it started, in seconds; false if that is unknown.
func BusyTime() (seconds float64, ok bool) { return parseBusy(textOf("/proc/stat")) }

// parseBusy adds up the first line of /proc/stat, in which idle, iowait and stolen time are not busy.
func parseBusy(stat string) (seconds float64, ok bool) {
	var name string
	var user, nice, system, idle, iowait, irq, softirq int64
	n, _ := fmt.Sscan(stat, &name, &user, &nice, &system, &idle, &iowait, &irq, &softirq)
	return float64(user+nice+system+irq+softirq) / tickHz, n == 8 && name == "cpu"
}
