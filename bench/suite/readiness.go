package main

import (
	"regexp"
	"strconv"
)

const (
	decodeName  = "readiness/decode"
	buildName   = "readiness/build"
	wholeName   = "readiness/conversation"
	readyTime   = "process start to ready"
	memoryAbove = "peak memory above 1.1 × wire bytes"
)

func readinessScenarios() []scenario {
	return []scenario{
		{decodeName, "trace files decoded on one core: Go benchmarks", runDecode},
		{buildName, "tokens of prompts and of whole request images (fingerprint included) built on one core: Go benchmarks", runBuild},
		{wholeName, "the whole conversation trace read and built, fingerprint included: fastreplay --dry-run", runReady},
	}
}

func runDecode(r *round) error {
	return r.putBenchmarks("codec/trace", "./codec/trace", "^BenchmarkRead", "MB/s", 1e6, bytesPerS)
}

func runBuild(r *round) error {
	if err := r.putBenchmarks("codec/prompt", "./codec/prompt", "^Benchmark(TokenIDs|Text)$", "Mtokens/s", 1e6, perSecond); err != nil {
		return err
	}
	return r.putBenchmarks("engine", "./engine", "^BenchmarkFill$", "tokens/s", 1, perSecond)
}

func runReady(r *round) error {
	path := r.conversation()
	if path == "" {
		r.skip(noConversation)
		return nil
	}
	out, used, err := r.finish(nil, "sh", "-c", `exec "$0" "$@" 2>&1`, r.fastreplay, "--trace", path, "--dry-run")
	if err != nil {
		return err
	}
	const who = "fastreplay, all cores"
	r.put(who, readyTime, nanoseconds, float64(used.wall))
	r.put(who, "CPU time", nanoseconds, float64(used.cpu))
	if wire, ok := wireBytes(string(out)); ok {
		r.put(who, memoryAbove, bytes, float64(used.rssBytes)-1.1*wire)
	}
	return nil
}

// wireSize is in the line "873 MB on the wire, built in memory" of a dry run.
var wireSize = regexp.MustCompile(`([0-9.]+) ([kMG]?B) on the wire`)

func wireBytes(said string) (float64, bool) {
	found := wireSize.FindStringSubmatch(said)
	if found == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(found[1], 64)
	for _, s := range scales(bytes) {
		if s.name == " "+found[2] {
			return v * s.from, err == nil
		}
	}
	return 0, false
}
