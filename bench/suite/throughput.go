package main

import (
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

const (
	throughputMock = "throughput/mock"
	throughputBare = "throughput/bare-server"
	requestRate    = "requests"
	requestsPerCPU = "requests a CPU second"
	usOnOneCore    = "fastreplay, one core"
	wrkOnOneCore   = "wrk, one core"
)

// throughputConnections are few enough for the caches of one core, and enough to keep it busy.
const throughputConnections = 64

func throughputScenarios() []scenario {
	const about = "64 connections at full speed, 300-byte requests, whole answers, client and server on a core each, wrk beside it; "
	return []scenario{
		{throughputMock, about + "the mock", func(r *round) error {
			return runThroughput(r, func(prefix []string) (*server, error) {
				return r.serve(prefix, "--ttft", "0s", "--itl", "0s", "--cache-tokens", "0", "--log", "/dev/null")
			})
		}},
		{throughputBare, about + "a server that does next to nothing", func(r *round) error {
			return runThroughput(r, func(prefix []string) (*server, error) {
				return r.listen(append(append([]string{}, prefix...), r.self, answerCommand)...)
			})
		}},
	}
}

// pins are the prefixes that put the client on the first core and the server on the second.
func (r *round) pins() (client, server []string, ok bool) {
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		r.skip("needs taskset and two cores")
		return nil, nil, false
	}
	return []string{"taskset", "-c", "0"}, []string{"taskset", "-c", "1"}, true
}

func runThroughput(r *round, serve func(prefix []string) (*server, error)) error {
	client, server, ok := r.pins()
	if !ok {
		return nil
	}
	rows, d := 400_000, 3*time.Second
	if r.quick {
		rows, d = 10_000, time.Second
	}
	path, err := r.trace("--rows", strconv.Itoa(rows), "--rate", "100000", "--arrival", "constant", "--input-tokens", "16", "--output-tokens", "1", "--seed", "1")
	if err != nil {
		return err
	}
	m, err := serve(server)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	return r.alternate(
		subject{usOnOneCore, func() error { return r.measureClosedLoop(client, m.url, path, d) }},
		subject{wrkOnOneCore, func() error { return r.measureWrk(client, m.url, path, d) }},
	)
}

func (r *round) measureClosedLoop(prefix []string, url, path string, d time.Duration) error {
	o, err := r.replay(prefix, url, "--trace", path, "--no-stream", "--concurrency", strconv.Itoa(throughputConnections), "--duration", d.String())
	if err != nil {
		return err
	}
	s := &o.summary
	r.put(usOnOneCore, requestRate, perSecond, s.Throughput.RequestsPerS)
	r.put(usOnOneCore, requestsPerCPU, perSecond, float64(s.Requests.OK)/s.Client.CPUS)
	r.putClient(usOnOneCore, o)
	return nil
}

func (r *round) measureWrk(prefix []string, url, path string, d time.Duration) error {
	w, err := openWorkload(path, false)
	if err != nil {
		return err
	}
	perS, failed, used, err := r.wrk(prefix, url+w.path, w.bodies[0], throughputConnections, d)
	if err == errNoWrk {
		r.skip("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	r.put(wrkOnOneCore, requestRate, perSecond, perS)
	if failed > 0 {
		r.put(wrkOnOneCore, "failed requests", count, float64(failed))
	}
	r.put(wrkOnOneCore, requestsPerCPU, perSecond, perS*d.Seconds()/used.cpu.Seconds())
	return nil
}
