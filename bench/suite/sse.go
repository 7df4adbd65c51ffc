package main

import (
	"strconv"
	"time"
)

const (
	sseMemoryName = "sse/from-memory"
	sseReadsName  = "sse/own-reads"
	sseLiveName   = "sse/live"
	eventsRate    = "events"
	eventsPerCPU  = "events a CPU second"
	readsPerCPU   = "reads a CPU second"
)

func sseScenarios() []scenario {
	return []scenario{
		{sseMemoryName, "events parsed from memory on one core: Go benchmarks", runSSEMemory},
		{sseReadsName, "1,000 connections, each event in a read of its own, as many as one core can read (CPU time): a Go benchmark", runSSEReads},
		{sseLiveName, "1,000 streams of an event each 8 ms, each event in a write of its own; client on one core, mock on another", runSSELive},
	}
}

func runSSEMemory(r *round) error {
	return r.alternate(
		subject{"codec/sse", func() error {
			return r.putBenchmarks("codec/sse", "./codec/sse", "^BenchmarkNext$", "events/s", 1, perSecond)
		}},
		subject{"codec/api", func() error {
			return r.putBenchmarks("codec/api", "./codec/api", "^BenchmarkParseEvent$", "events/s", 1, perSecond)
		}},
		subject{"engine", func() error {
			return r.putBenchmarks("engine", "./engine", "^BenchmarkReply$", "events/s", 1, perSecond)
		}},
	)
}

// runSSEReads measures a core that always has something to read; what it costs to sleep in between, sse/live shows.
func runSSEReads(r *round) error {
	return r.putBenchmarks("engine", "./engine", "^BenchmarkLoop$", "events/cpu-s", 1, perSecond)
}

// runSSELive measures what an event costs the client in CPU time, which does not depend on how fast the mock can write. A
// client that has to wait for its core reads several events at once, which is cheaper: events that shared a read count as
// one in readsPerCPU.
func runSSELive(r *round) error {
	client, server, ok := r.pins()
	if !ok {
		return nil
	}
	streams, tokens := 1000, 500
	if r.quick {
		streams, tokens = 50, 50
	}
	path, err := r.trace("--rows", strconv.Itoa(streams), "--rate", strconv.Itoa(2*streams), "--arrival", "constant",
		"--input-tokens", "16", "--output-tokens", strconv.Itoa(tokens), "--seed", "1")
	if err != nil {
		return err
	}
	m, err := r.serve(server, "--ttft", "20ms", "--itl", (8 * time.Millisecond).String())
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	return r.alternate(subject{usOnOneCore, func() error {
		o, err := r.replay(client, m.url, "--trace", path)
		if err != nil {
			return err
		}
		s := &o.summary
		chunks := int64(0)
		for i := range o.lines {
			chunks += o.lines[i].Chunks
		}
		r.put(usOnOneCore, eventsRate, perSecond, float64(chunks)/s.Run.DurationS)
		r.put(usOnOneCore, eventsPerCPU, perSecond, float64(chunks)/s.Client.CPUS)
		if stamps := s.Client.Stamps; stamps != nil && stamps.Reads > 0 {
			reads := stamps.Reads + stamps.Unstamped
			r.put(usOnOneCore, readsPerCPU, perSecond, float64(min(reads, chunks))/s.Client.CPUS)
			r.put(usOnOneCore, "events a read", ratio, float64(chunks)/float64(reads))
		} else {
			r.skip("%s: the kernel does not stamp what comes, so that reads are not counted", readsPerCPU)
		}
		r.putReceiveLag(usOnOneCore, o)
		r.putDrift(usOnOneCore, o)
		return nil
	}})
}
