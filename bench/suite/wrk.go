package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// wrkScript makes wrk send one body; Lua runs once, before the start.
const wrkScript = `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Request-Id"] = "wrk"
wrk.body = %s
`

var errNoWrk = errors.New("wrk: not installed (apt-get install wrk)")

// wrk keeps connections busy from one thread; it returns requests/s and what it used.
func (r *round) wrk(prefix []string, url string, body []byte, connections int, d time.Duration) (perS float64, used usage, err error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return 0, usage{}, errNoWrk
	}
	script := filepath.Join(r.work, "wrk.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, strconv.Quote(string(body))), 0o644); err != nil {
		return 0, usage{}, err
	}
	seconds := strconv.Itoa(max(1, int(d/time.Second)))
	out, used, err := r.finish(nil, append(append([]string{}, prefix...), "wrk", "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", seconds+"s", "--script", script, url)...)
	if err != nil {
		return 0, used, err
	}
	perS, err = parseWrk(string(out))
	return perS, used, err
}

// parseWrk reads wrk's report. A response other than 2xx or a broken connection is an error.
func parseWrk(out string) (requestsPerS float64, err error) {
	found := false
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case strings.HasPrefix(name, "Non-2xx"), strings.HasPrefix(name, "Socket errors"):
			return 0, fmt.Errorf("wrk met errors:\n%s", out)
		case name == "Requests/sec":
			requestsPerS, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
			found = true
		}
	}
	if !found && err == nil {
		err = fmt.Errorf("wrk printed no rate:\n%s", out)
	}
	return requestsPerS, err
}
