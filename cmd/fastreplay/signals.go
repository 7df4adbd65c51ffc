package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fastreplay/fastreplay/engine/replay"
)

// settles is how long a signal that comes again is the same one. timeout(1) sends its own twice: to the process, and to
// the group that it is in.
const settles = time.Second / 2

// interrupts end a run at SIGINT, SIGTERM and SIGHUP. Without a run, or before its start, the first signal cancels and
// the second one ends the process. During the run, the first one stops sending and drains, and the second one cancels
// what is in flight. SIGHUP counts only if it is the first.
type interrupts struct {
	cancel  context.CancelFunc
	signals chan os.Signal
	done    chan struct{}
	ui      *terminal // where people read what an interrupt does

	mu    sync.Mutex
	count int
	run   *replay.Running
}

// catchSignals returns a context that the first signal ends. The interrupts are to be released.
func catchSignals(ctx context.Context, ui *terminal) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	in := &interrupts{
		cancel:  cancel,
		signals: make(chan os.Signal, 4),
		done:    make(chan struct{}),
		ui:      ui,
	}
	signal.Ignore(syscall.SIGPIPE) // a reader such as head may end before the run
	signal.Notify(in.signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(in.signals, syscall.SIGHUP)
	}
	go in.listen(ctx)
	return ctx, in
}

func (in *interrupts) listen(ctx context.Context) {
	outside := ctx.Done()
	var last os.Signal
	var lastAt time.Time
	for {
		select {
		case <-in.done:
			return
		case s := <-in.signals:
			if s == last && time.Since(lastAt) < settles {
				continue
			}
			last = s
			lastAt = time.Now()
			if s == syscall.SIGHUP { // a terminal that closes sends several: from its shell and from the kernel
				signal.Ignore(s)
			}
			in.interrupt(s == syscall.SIGHUP)
		case <-outside: // cancelled by the caller, or by the first signal
			outside = nil
			in.interrupt(true)
		}
	}
}

// interrupt is a signal or a key; one that counts only as the first does nothing afterwards.
func (in *interrupts) interrupt(onlyFirst bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if onlyFirst && in.count > 0 {
		return
	}
	in.count++
	if in.run == nil { // whatever does not notice the first one is ended by the next
		time.AfterFunc(settles, func() { signal.Stop(in.signals) })
	}
	in.cancel()
	in.apply()
}

// apply prints what an interrupt does to the run, and does it.
func (in *interrupts) apply() {
	if in.run == nil || in.count == 0 {
		return
	}
	switch in.count {
	case 1:
		in.ui.alert(
			"interrupted: nothing more is sent; requests in flight may end (--grace); another interrupt cancels them",
		)
	default:
		in.ui.alert("interrupted again: cancelling requests in flight")
		in.run.Abort()
	}
}

// onRun sets the run that interrupts stop.
func (in *interrupts) onRun(run *replay.Running) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.run = run
	in.apply()
}

func (in *interrupts) release() {
	signal.Stop(in.signals)
	close(in.done)
	in.cancel()
}
