package main

import (
	"fmt"
	"path/filepath"
	"strconv"
)

const (
	firstError = "first token's error"
	gapError   = "gaps' error"
	byReads    = ", by reads" // as it were without the kernel's timestamps
)

// Streams answer with TTFT 50 ms and ITL 10 ms: 100 tokens take 1.04 s.
const (
	accuracyTokens  = 100
	accuracySeconds = 4
)

func accuracyScenarios() []scenario {
	var all []scenario
	for _, n := range []int{100, 500, 1000} {
		all = append(all, scenario{accuracyName(n), fmt.Sprintf("%d live streams, TTFT 50 ms, ITL 10 ms: the client's stamps against the server's", n),
			func(r *round) error { return runAccuracy(r, n) }})
	}
	return all
}

func accuracyName(streams int) string { return fmt.Sprintf("accuracy/%d-streams", streams) }

func runAccuracy(r *round, streams int) error {
	rate := streams * 100 / 104 // a stream lasts 1.04 s
	rows, tokens := rate*accuracySeconds, accuracyTokens
	if r.quick {
		rows, tokens = rows/10, tokens/10
	}
	path, err := r.trace("--rows", strconv.Itoa(rows), "--rate", strconv.Itoa(rate), "--arrival", "constant",
		"--input-tokens", "300", "--output-tokens", strconv.Itoa(tokens), "--seed", "1")
	if err != nil {
		return err
	}
	best := r.best()
	subjects := []subject{{us(best), func() error {
		return r.measureAccuracy(us(best), func(url, log string) (*outcome, error) {
			return r.replay(best.prefix, url, "--trace", path, "--realtime", best.realtime, "--chunk-log", log)
		})
	}}}
	for _, kind := range rivalKinds() {
		subjects = append(subjects, subject{rivalName(kind), func() error {
			return r.measureAccuracy(rivalName(kind), func(url, log string) (*outcome, error) { return r.rival(kind, url, path, "--chunk-log", log) })
		}})
	}
	return r.alternate(subjects...)
}

// measureAccuracy runs a client, which logs chunks, against a mock of its own, which stamps them.
func (r *round) measureAccuracy(who string, client func(url, log string) (*outcome, error)) error {
	dir, remove, err := r.scratch()
	if err != nil {
		return err
	}
	defer remove()
	m, err := r.serve(nil, "--ttft", "50ms", "--itl", "10ms", "--quirk", "stamp")
	if err != nil {
		return err
	}
	log := filepath.Join(dir, "chunks.csv")
	o, err := client(m.url, log)
	if stopped := m.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	chunks, err := readChunks(log)
	if err != nil {
		return err
	}
	r.putErrors(who, "", errorsOf(chunks, o.summary.Run.MonotonicStartNS, func(c chunk) int64 { return c.instantNS }))
	if reads := o.summary.Client.Stamps; reads != nil && reads.Reads > 0 {
		r.putErrors(who, byReads, errorsOf(chunks, o.summary.Run.MonotonicStartNS, func(c chunk) int64 { return c.readNS }))
	}
	r.putReceiveLag(who, o)
	r.putDrift(who, o)
	return nil
}

func (r *round) putErrors(who, suffix string, e chunkErrors) {
	r.putPercentiles(who, firstError+suffix, e.first)
	r.putPercentiles(who, gapError+suffix, e.gaps)
}
