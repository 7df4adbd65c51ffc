package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine is where and when the numbers were measured.
type machine struct {
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"`
	System  string    `json:"system"` // kernel and architecture
	Go      string    `json:"go"`
	Commit  string    `json:"commit"` // with "+" if the checkout had changes
	Date    time.Time `json:"date"`   // UTC, of the start
	Load    string    `json:"load"`   // load averages before the start; "" = unknown
	Command string    `json:"command"`
}

func thisMachine(args []string) machine {
	m := machine{
		Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Date: time.Now().UTC().Truncate(time.Second),
		Command: strings.Join(append([]string{"scripts/bench.sh"}, args...), " "), CPU: "unknown CPU",
	}
	if out, err := exec.Command("uname", "-srm").Output(); err == nil {
		m.System = strings.TrimSpace(string(out))
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(info), m.CPU)
	} else if out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		m.CPU = strings.TrimSpace(string(out))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
		if changes, err := exec.Command("git", "status", "--porcelain").Output(); err == nil && len(changes) > 0 {
			m.Commit += "+"
		}
	}
	return m
}

// cpuModel finds the model in the text of /proc/cpuinfo.
func cpuModel(info, otherwise string) string {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

// String is the line above the tables.
func (m machine) String() string {
	text := fmt.Sprintf("`%s` on %d cores of %s, %s, %s, %s", m.Command, m.Cores, m.CPU, m.System, m.Go, m.Date.Format(time.DateOnly))
	if m.Commit != "" {
		text += ", commit " + m.Commit
	}
	if m.Load != "" {
		text += ", load before " + m.Load
	}
	return text
}
