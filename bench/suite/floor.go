package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

const (
	floorName  = "floor"
	waiterOnly = "waiter alone, "
)

func floorScenarios() []scenario {
	return []scenario{{floorName, "lateness of the same waiter without I/O at 2,000/s, beside the main load; cyclictest too", runFloor}}
}

// floorTime is how long each waiter waits: 8,000 instants. floorSlack is for starting them.
const (
	floorTime  = 4 * time.Second
	floorSlack = 4 * time.Second
)

// runFloor measures the waiters one after the other while another fastreplay sends the main load with an ordinary
// thread that never spins: the load beside the waiter is then as the load beside a lane.
func runFloor(r *round) error {
	modes := r.modes()
	each := r.lasting(floorTime)
	load := mainLoad
	lasting := time.Duration(len(modes)+1)*each + floorSlack/2 + r.lasting(floorSlack)/2
	path, err := r.trace(load.gen(load.rate * int(lasting/time.Second))...)
	if err != nil {
		return err
	}
	m, err := r.serve(nil, load.mock()...)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	stop, gone, err := r.background(m.url, "--trace", path, "--realtime", "off", "--spin", "0s")
	if err != nil {
		return err
	}
	defer stop()
	if err := m.untilRunning(r.ctx, load.streams()/2, gone); err != nil {
		return err
	}
	var subjects []subject
	for _, mode := range modes {
		subjects = append(subjects, subject{waiterOnly + mode.name, func() error { return r.measureWaiter(mode, each) }})
	}
	subjects = append(subjects, subject{"cyclictest", func() error { return r.measureCyclictest(each) }})
	if err := r.alternate(subjects...); err != nil {
		return err
	}
	select {
	case <-gone:
		r.skip("run %d: the load beside the waiters ended before they did", r.number+1)
	default:
	}
	return nil
}

// background starts a replay that stop ends; gone is closed when it has ended.
func (l *lab) background(url string, args ...string) (stop func(), gone <-chan struct{}, err error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	line := []string{"--url", url, "--output", filepath.Join(dir, "results"), "--model", "mock", "--no-probe", "--cold", "off"}
	cmd := exec.CommandContext(l.ctx, l.fastreplay, append(line, args...)...)
	if err := cmd.Start(); err != nil {
		remove()
		return nil, nil, err
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	return func() {
		_ = cmd.Process.Kill()
		<-ended
		remove()
	}, ended, nil
}

func (r *round) measureWaiter(m mode, each time.Duration) error {
	line := append(append([]string{}, m.prefix...), "env", "GODEBUG="+sched.LoneGODEBUG, r.self, waitCommand, "--realtime", m.realtime, "--duration", each.String(), "--rate", strconv.Itoa(mainLoad.rate))
	out, _, err := r.finish(nil, line...)
	if err != nil {
		return err
	}
	var w waited
	if err := json.Unmarshal(out, &w); err != nil {
		return fmt.Errorf("%s said %q: %w", waitCommand, out, err)
	}
	slices.Sort(w.LateNS)
	r.putPercentiles(waiterOnly+m.name, "lateness", w.LateNS)
	return nil
}

func (r *round) measureCyclictest(each time.Duration) error {
	if _, err := exec.LookPath("cyclictest"); err != nil {
		r.skip("cyclictest: not installed (apt-get install rt-tests)")
		return nil
	}
	// 500 µs apart as the main load; a histogram in µs; 100 ms is far beyond what is seen.
	out, _, err := r.finish(nil, "cyclictest", "--quiet", "--mlockall", "--priority=10", "--interval=500", "--threads=1", "--histogram=100000",
		fmt.Sprintf("--loops=%d", each/(500*time.Microsecond)))
	if err != nil {
		r.skip("cyclictest: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	late, err := parseCyclictest(string(out))
	if err != nil {
		return err
	}
	r.putPercentiles("cyclictest", "lateness", late)
	return nil
}

// parseCyclictest reads the histogram of one thread: lines "µs count". The result is ascending, in ns.
func parseCyclictest(out string) ([]int64, error) {
	var late []int64
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 2 || strings.HasPrefix(line, "#") {
			continue
		}
		us, err1 := strconv.ParseInt(fields[0], 10, 64)
		n, err2 := strconv.Atoi(fields[1])
		if err1 != nil || err2 != nil {
			continue
		}
		for range n {
			late = append(late, us*1000)
		}
	}
	if len(late) == 0 {
		return nil, fmt.Errorf("cyclictest printed no histogram:\n%s", tail(out, 10))
	}
	return late, nil
}
