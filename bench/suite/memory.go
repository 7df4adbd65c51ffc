package main

import (
	"cmp"
	"slices"
	"strconv"
	"syscall"
)

const (
	memoryName      = "memory/10000-streams"
	memoryPerStream = "memory a stream"
)

func memoryScenarios() []scenario {
	return []scenario{{memoryName, "10,000 live streams: memory of the whole client for each, and drift", runMemory}}
}

func runMemory(r *round) error {
	streams, rate, ttft := 10_000, 4000, "5s" // all are sent within 2.5 s
	if r.quick {
		streams, rate, ttft = 500, 2000, "500ms"
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < uint64(streams)+1000 {
		r.skip("a process may open %d files here; raise `ulimit -n`", limit.Max)
		return nil
	}
	path, err := r.trace("--rows", strconv.Itoa(streams), "--rate", strconv.Itoa(rate), "--arrival", "constant",
		"--input-tokens", "32", "--output-tokens", "3", "--seed", "1")
	if err != nil {
		return err
	}
	m, err := r.serve(nil, "--ttft", ttft, "--itl", "100ms")
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	best := r.best()
	who := us(best)
	return r.alternate(subject{who, func() error {
		o, err := r.replay(best.prefix, m.url, "--trace", path, "--realtime", best.realtime)
		if err != nil {
			return err
		}
		live := liveStreams(o.lines)
		r.put(who, "live streams at once", count, float64(live))
		r.put(who, "peak memory", bytes, float64(o.summary.Client.MaxRSSBytes))
		r.put(who, memoryPerStream, bytes, float64(o.summary.Client.MaxRSSBytes)/float64(live))
		r.putDrift(who, o)
		r.putClient(who, o)
		return nil
	}})
}

// liveStreams is how many requests were sent and not yet answered whole at any one time.
func liveStreams(lines []line) int {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for i := range lines {
		if l := &lines[i]; l.SentNS != nil && l.LastTokenNS != nil {
			edges = append(edges, edge{*l.SentNS, 1}, edge{*l.LastTokenNS, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	now, most := 0, 0
	for _, e := range edges {
		now += e.delta
		most = max(most, now)
	}
	return most
}
