package main

import (
	"syscall"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// runReady reads and builds the whole trace, on all cores.
func runReady(r *round) error {
	path := r.conversation()
	if path == "" {
		return nil
	}
	began := time.Now()
	_, used, err := r.finish(r.fastreplay, "--trace", path, "--dry-run")
	if err != nil {
		return err
	}
	const who = "fastreplay, all cores"
	r.put(who, "ready-ns", float64(time.Since(began)))
	r.put(who, "cpu-ns", float64(used.UserTime()+used.SystemTime()))
	return nil
}

func runMemory(r *round) error {
	// all are sent within 2.5 s
	streams := 10_000
	rate := 4000
	ttft := "5s"
	if r.quick {
		streams = 500
		rate = 2000
		ttft = "500ms"
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < uint64(streams)+1000 {
		r.skip("a process may open %d files here; raise `ulimit -n`", limit.Max)
		return nil
	}
	path, err := r.trace(streams, rate, 32, 3)
	if err != nil {
		return err
	}
	m, err := r.serve("--ttft", ttft, "--itl", "100ms")
	if err != nil {
		return err
	}
	best := r.best()
	o, err := r.measureDrift(us(best), best, m.url, "--trace", path)
	if err != nil {
		return err
	}
	live := float64(liveStreams(o.lines))
	r.put(us(best), "live-streams", live)
	r.put(us(best), "memory-a-stream-B", float64(o.Client.MaxRSSBytes)/live)
	return nil
}

// liveStreams is how many requests were sent and not yet answered whole at any one time.
func liveStreams(lines []record.Record) int {
	var sent, answered []float64
	for _, l := range lines {
		if l.SentNS != record.None && l.LastTokenNS != record.None {
			sent = append(sent, float64(l.SentNS))
			answered = append(answered, float64(l.LastTokenNS))
		}
	}
	return stats.MostAtOnce(sent, answered)
}
