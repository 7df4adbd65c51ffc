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
