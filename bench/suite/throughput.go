package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	requestRate  = "requests/s"
	usOnOneCore  = "fastreplay, one core"
	wrkOnOneCore = "wrk, one core"
)

// throughputConnections are few enough for the caches of one core, and enough to keep it busy.
const throughputConnections = 64

func runThroughput(r *round, serve ...string) error {
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		r.skip("needs taskset and two cores")
		return nil
	}
	client := []string{"taskset", "-c", "0"}
	rows := 400_000
	d := 3 * time.Second
	if r.quick {
		rows = 10_000
		d = time.Second
	}
	path, err := r.trace(rows, 100_000, 16, 1)
	if err != nil {
		return err
	}
	m, err := r.listen(append([]string{"taskset", "-c", "1"}, serve...)...)
	if err != nil {
		return err
	}
	return r.alternate(
		subject{usOnOneCore, func() error {
			o, err := r.replay(client, m.url, "--trace", path, "--no-stream",
				"--concurrency", strconv.Itoa(throughputConnections), "--duration", d.String())
			if err == nil {
				r.put(usOnOneCore, requestRate, o.Throughput.RequestsPerS)
				r.putClient(usOnOneCore, o)
			}
			return err
		}},
		subject{wrkOnOneCore, func() error { return r.wrk(client, m.url, path, d) }},
	)
}

// wrkScript makes wrk send one body; Lua runs once, before the start.
const wrkScript = `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Request-Id"] = "wrk"
wrk.body = %s
`

// wrk keeps the connections busy from one thread with the trace's first request.
func (r *round) wrk(prefix []string, url, path string, d time.Duration) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		r.skip("wrk: not installed (apt-get install wrk)")
		return nil
	}
	w, err := openWorkload(path, false)
	if err != nil {
		return err
	}
	script := filepath.Join(r.work, "wrk.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, strconv.Quote(string(w.bodies[0]))), 0o644); err != nil {
		return err
	}
	wrk := []string{"wrk", "--threads", "1", "--connections", strconv.Itoa(throughputConnections),
		"--duration", strconv.Itoa(max(1, int(d.Seconds()))) + "s", "--script", script, url + w.path}
	out, used, err := r.finish(slices.Concat(prefix, wrk)...)
	if err != nil {
		return err
	}
	perS, failed, err := parseWrk(string(out))
	if err != nil {
		return err
	}
	r.put(wrkOnOneCore, requestRate, perS)
	r.put(wrkOnOneCore, "cpu-a-request-ns", float64(used.UserTime()+used.SystemTime())/(perS*d.Seconds()))
	r.put(wrkOnOneCore, "failed", float64(failed))
	return nil
}

// parseWrk reads wrk's report: "Requests/sec: 1234.5" and, if there were any, "Non-2xx or 3xx responses: 3". Its errors
// are in "Socket errors: connect 0, read 1, write 0, timeout 2".
func parseWrk(out string) (perS float64, failed int, err error) {
	found := false
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "Non-2xx or 3xx responses", "Socket errors":
			for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return r < '0' || r > '9' }) {
				n, _ := strconv.Atoi(word)
				failed += n
			}
		case "Requests/sec":
			perS, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
			found = err == nil
		}
	}
	if !found {
		return 0, 0, fmt.Errorf("wrk printed no rate:\n%s", out)
	}
	return perS, failed, nil
}

// answerCommand is a server that does next to nothing: it takes any POST and answers what a mock would to a request for
// one token. It shows a client's own limit where the mock's would come first.
const answerCommand = "answer"

const answerBody = `{"id":"x","object":"text_completion","created":1,"model":"mock",` +
	`"choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length"}],` +
	`"usage":{"prompt_tokens":16,"completion_tokens":1,"total_tokens":17}}`

// answerAll serves until the process is killed, or its standard input ends.
func answerAll(stdin io.Reader, stdout io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = ln.Close()
	}()
	fmt.Fprintf(stdout, "listening on http://%s\n", ln.Addr())
	for {
		c, err := ln.Accept()
		if err != nil {
			return nil // closed
		}
		go answer(c)
	}
}

func answer(c net.Conn) {
	defer c.Close()
	response := fmt.Appendf(
		nil,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(answerBody),
		answerBody,
	)
	r := bufio.NewReader(c)
	for {
		length, err := skipHead(r)
		if err != nil {
			return
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}

// skipHead reads a request head and returns its Content-Length.
func skipHead(r *bufio.Reader) (length int, err error) {
	const name = "Content-Length: "
	for {
		text, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(text) <= len("\r\n") {
			return length, nil
		}
		if len(text) > len(name) && string(text[:len(name)]) == name {
			if length, err = strconv.Atoi(string(text[len(name) : len(text)-len("\r\n")])); err != nil {
				return 0, err
			}
		}
	}
}
