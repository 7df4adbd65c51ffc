package host

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Describe describes this machine for results. What cannot be read is left out.
func Describe() metrics.Host {
	h := metrics.Host{
		OS:   runtime.GOOS,
		Arch: runtime.GOARCH,
		CPUs: runtime.NumCPU(),
		Go:   runtime.Version(),
	}
	h.Name, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	h.CPU = firstValue("/proc/cpuinfo", "model name")
	if kb, ok := strings.CutSuffix(firstValue("/proc/meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			h.MemoryBytes = n << 10
		}
	}
	return h
}

// firstValue is the value of the first "key : value" line of a file under /proc; "" where there is none.
func firstValue(path, key string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Card is what a network card does to the kernel's instants of what comes.
type Card struct {
	Name    string
	DelayUS *int // how long it may keep what came before it interrupts (rx-usecs); nil = unknown
	Adapts  bool // it changes that by the load (adaptive-rx)
	Joins   bool // the kernel joins segments that come together (GRO)
	Stamps  bool // it has a clock of its own for what comes; the kernel's stamps do not use it
}
