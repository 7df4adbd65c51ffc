package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

const (
	floorName  = "floor"
	waiterOnly = "waiter alone, "
)

// runFloor measures the waiters one after the other while another fastreplay sends the main load with an ordinary
// thread that never spins. The load beside the waiter is then as the load beside a sender.
func runFloor(r *round) error {
	each := r.lasting(4 * time.Second) // 8,000 instants
	lasting := time.Duration(len(r.modes()))*each + r.lasting(2*time.Second) + 2*time.Second
	load := mainLoad
	path, err := r.trace(load.rate*int(lasting/time.Second), load.rate, load.tokens, answerTokens)
	if err != nil {
		return err
	}
	m, err := r.serve(answerLatencies...)
	if err != nil {
		return err
	}
	results := filepath.Join(r.work, fmt.Sprint("beside-", time.Now().UnixNano()))
	beside := exec.CommandContext(r.ctx, r.fastreplay, "--url", m.url, "--output", results,
		"--model", "mock", "--no-probe", "--cold", "off", "--trace", path, "--realtime", "off", "--spin", "0s")
	if err := beside.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = beside.Wait()
		close(gone)
	}()
	defer func() {
		_ = beside.Process.Kill()
		<-gone
	}()
	if err := m.untilRunning(r.ctx, load.rate/10, gone); err != nil {
		return err
	}
	var subjects []subject
	for _, mode := range r.modes() {
		subjects = append(
			subjects,
			subject{waiterOnly + mode.name, func() error { return r.measureWaiter(mode, each) }},
		)
	}
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

func (r *round) measureWaiter(m mode, each time.Duration) error {
	out, _, err := r.finish("env", "GODEBUG="+sched.LoneGODEBUG,
		r.self, waitCommand, "--realtime", m.realtime, "--duration", each.String())
	if err != nil {
		return err
	}
	var late []int64
	if err := json.Unmarshal(out, &late); err != nil {
		return fmt.Errorf("%s printed %q: %w", waitCommand, out, err)
	}
	slices.Sort(late)
	r.putPercentiles(waiterOnly+m.name, "lateness", late)
	return nil
}

// waitCommand makes a sender's waiter, in a process of its own, wait for 2,000 instants a second, as in the main load.
// It prints how late each was, ns.
const waitCommand = "wait"

func wait(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet(waitCommand, flag.ContinueOnError)
	realtime := f.String("realtime", "auto", "as fastreplay's")
	duration := f.Duration("duration", time.Second, "for how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	rate := float64(mainLoad.rate)
	plan, err := sched.FromArrivals(
		int(rate*duration.Seconds()),
		sched.Arrivals{Rate: sched.Steady(rate), Process: sched.Constant},
		0,
	)
	if err != nil {
		return err
	}
	sched.Alone(1)
	late := make([]int64, plan.Requests)
	done := make(chan error, 1)
	go func() {
		_, err := sched.Place(sched.Realtime(*realtime))
		if err == nil {
			clock := sched.NewMonotonic()
			clock.Start(10 * time.Millisecond)
			w := sched.NewLoneWaiter(clock, sched.AutoSpin, new(atomic.Bool))
			for i, at := range plan.ReleaseNS {
				w.Wait(at)
				late[i] = clock.Now() - at
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(late)
}
