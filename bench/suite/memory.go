package main

import (
	"strconv"
	"syscall"
)

const (
	memoryName      = "memory/10000-streams"
	memoryPerStream = "memory a stream"
)

func memoryScenarios() []scenario {
	return []scenario{{memoryName, "10,000 live streams against the same requests answered at once: memory each, and drift", runMemory}}
}

func runMemory(r *round) error {
	streams := 10_000
	if r.quick {
		streams = 500
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < uint64(streams)+1000 {
		r.skip("a process may open %d files here; raise `ulimit -n`", limit.Max)
		return nil
	}
	path, err := r.trace("--rows", strconv.Itoa(streams), "--rate", strconv.Itoa(streams*2/5), "--arrival", "constant", // all within 2.5 s
		"--input-tokens", "32", "--output-tokens", "3", "--seed", "1")
	if err != nil {
		return err
	}
	live, err := r.measureStreams(path, "--ttft", "5s", "--itl", "100ms")
	if err != nil {
		return err
	}
	few, err := r.measureStreams(path, "--ttft", "1ms", "--itl", "1ms")
	if err != nil {
		return err
	}
	who := us(r.best())
	r.putDrift(who, live)
	r.put(who, "peak memory", bytes, float64(live.summary.Client.MaxRSSBytes))
	r.put(who, memoryPerStream, bytes, float64(live.summary.Client.MaxRSSBytes-few.summary.Client.MaxRSSBytes)/float64(streams))
	r.putClient(who, live)
	return nil
}

func (r *round) measureStreams(path string, latencies ...string) (*outcome, error) {
	m, err := r.serve(nil, latencies...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.stop() }()
	best := r.best()
	return r.replay(best.prefix, m.url, "--trace", path, "--realtime", best.realtime)
}
