package main

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	firstError = "first token's error"
	spanError  = "error of last − first token"
	gapError   = "gaps' error"
)

// The flags by which client and mock note the instant of every token chunk, as "chunk_ns" in each request's line. Without
// them, the error of a gap is estimated by the error of the time from the first to the last token.
const (
	chunkFlag    = "--chunk-times"
	chunkLogFlag = "--log-chunks"
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
		return r.measureAccuracy(us(best), func(url string) (*outcome, error) {
			args := []string{"--trace", path, "--realtime", best.realtime}
			return r.replay(best.prefix, url, append(args, r.flagIf(chunkFlag)...)...)
		})
	}}}
	if !r.has(chunkFlag) || !r.has(chunkLogFlag) {
		r.skip("%s of fastreplay: needs its %s and the mock's %s", gapError, chunkFlag, chunkLogFlag)
	}
	for _, kind := range rivalKinds() {
		subjects = append(subjects, subject{rivalName(kind), func() error {
			return r.measureAccuracy(rivalName(kind), func(url string) (*outcome, error) { return r.rival(kind, url, path) })
		}})
	}
	return r.alternate(subjects...)
}

// measureAccuracy runs a client against a mock of its own and joins what both noted.
func (r *round) measureAccuracy(who string, client func(url string) (*outcome, error)) error {
	m, err := r.serve(nil, append([]string{"--ttft", "50ms", "--itl", "10ms", "--stamp"}, r.flagIf(chunkLogFlag)...)...)
	if err != nil {
		return err
	}
	o, err := client(m.url)
	if stopped := m.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	served, err := readLines[servedLine](m.log)
	if err != nil {
		return err
	}
	e, err := join(o, served)
	if err != nil {
		return err
	}
	r.putPercentiles(who, firstError, e.first)
	r.putPercentiles(who, gapError, e.gaps)
	r.putPercentiles(who, spanError, e.span)
	r.putDrift(who, o)
	return nil
}

// servedLine is what the suite reads of the mock's log. Its instants are CLOCK_MONOTONIC, just before each write.
type servedLine struct {
	RequestID    string  `json:"request_id"`
	FirstTokenNS int64   `json:"first_token_ns"`
	LastTokenNS  int64   `json:"last_token_ns"`
	ChunkNS      []int64 `json:"chunk_ns"`
}

// errorsOf are differences between a client's stamps and the server's, ascending, ns.
type errorsOf struct {
	first []int64 // of the first token's instant
	span  []int64 // of the time from the first to the last token: one gap's error, over the whole stream
	gaps  []int64 // of each gap between chunks; only of clients that note every chunk
}

// join pairs a client's lines with the server's by request id.
func join(o *outcome, served []servedLine) (errorsOf, error) {
	var e errorsOf
	byID := make(map[string]*servedLine, len(served))
	for i := range served {
		byID[served[i].RequestID] = &served[i]
	}
	start := o.summary.Run.MonotonicStartNS
	for i := range o.lines {
		l := &o.lines[i]
		if l.FirstTokenNS == nil || l.LastTokenNS == nil {
			continue
		}
		s := byID[l.RequestID]
		if s == nil {
			return e, fmt.Errorf("the server does not know request %q", l.RequestID)
		}
		first, last := *l.FirstTokenNS+start-s.FirstTokenNS, *l.LastTokenNS+start-s.LastTokenNS
		e.first = append(e.first, first)
		e.span = append(e.span, max(last-first, first-last))
		e.gaps = append(e.gaps, l.GapErrorNS...)
		if n := len(l.ChunkNS); n > 0 && n == len(s.ChunkNS) {
			for c := 1; c < n; c++ {
				off := l.ChunkNS[c] - l.ChunkNS[c-1] - (s.ChunkNS[c] - s.ChunkNS[c-1])
				e.gaps = append(e.gaps, max(off, -off))
			}
		}
	}
	slices.Sort(e.first)
	slices.Sort(e.span)
	slices.Sort(e.gaps)
	return e, nil
}
