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

// wrk keeps connections busy from one thread; it returns requests/s, how many failed, and what it used.
func (r *round) wrk(prefix []string, url string, body []byte, connections int, d time.Duration) (perS float64, failed int, used usage, err error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return 0, 0, usage{}, errNoWrk
	}
	script := filepath.Join(r.work, "wrk.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, strconv.Quote(string(body))), 0o644); err != nil {
		return 0, 0, usage{}, err
	}
	seconds := strconv.Itoa(max(1, int(d/time.Second)))
	out, used, err := r.finish(nil, append(append([]string{}, prefix...), "wrk", "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", seconds+"s", "--script", script, url)...)
	if err != nil {
		return 0, 0, used, err
	}
	perS, failed, err = parseWrk(string(out))
	return perS, failed, used, err
}

// parseWrk reads wrk's report: "Requests/sec: 1234.5" and, where there were any, "Non-2xx or 3xx responses: 3" and
// "Socket errors: connect 0, read 1, write 0, timeout 2".
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
