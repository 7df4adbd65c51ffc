package main

import (
	"os"
	"path/filepath"
)

// runAccuracy lasts 4 s. A stream of 100 tokens lasts 1.04 s.
func runAccuracy(r *round, streams int) error {
	rate := streams * 100 / 104
	rows := rate * 4
	tokens := 100
	if r.quick {
		rows /= 10
		tokens /= 10
	}
	path, err := r.trace(rows, rate, 300, tokens)
	if err != nil {
		return err
	}
	best := r.best()
	ours := subject{us(best), func() error {
		return r.measureAccuracy(us(best), func(url, log string) (*outcome, error) {
			return r.replay(nil, url, "--trace", path, "--realtime", best.realtime, "--chunk-log", log)
		})
	}}
	rival := subject{rivalName, func() error {
		return r.measureAccuracy(rivalName, func(url, log string) (*outcome, error) {
			return r.rival(url, path, "--chunk-log", log)
		})
	}}
	return r.alternate(ours, rival)
}

// measureAccuracy runs a client, which logs chunks, against a mock of its own, which stamps them. Errors "-by-read" are
// as they were without the kernel's timestamps.
func (r *round) measureAccuracy(who string, client func(url, log string) (*outcome, error)) error {
	m, err := r.serve("--ttft", "50ms", "--itl", "10ms", "--quirk", "stamp")
	if err != nil {
		return err
	}
	log := filepath.Join(r.work, "chunks.csv")
	o, err := client(m.url, log)
	stopped := m.stop()
	if err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	defer f.Close()
	chunks, err := readChunks(f)
	if err != nil {
		return err
	}
	for suffix, instant := range map[string]func(chunk) int64{
		"": func(c chunk) int64 { return c.instantNS }, "-by-read": func(c chunk) int64 { return c.readNS },
	} {
		first, gaps := errorsOf(chunks, o.Run.MonotonicStartNS, instant)
		r.putPercentiles(who, "first-token-error"+suffix, first)
		r.putPercentiles(who, "gap-error"+suffix, gaps)
	}
	lag := o.Client.ReceiveLagUS
	if lag != nil {
		r.put(who, "receive-lag-p99-ns", lag.P99*1e3)
	}
	r.putDrift(who, o)
	return nil
}
