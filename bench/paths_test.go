package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestCap: beside trace times a concurrency is a cap. What it holds back keeps its planned instants and is counted.
func TestCap(t *testing.T) {
	t.Parallel()
	load := steady(t, 120, 1000, 5)
	m := startMock(t, "--ttft", "20ms")
	var r *results
	quickEnough(t, func() string {
		r = run(t, "--trace", load, "--url", m.url, "--fixed-schedule", "--concurrency", "5")
		r.sound(t)
		peak := r.peak()
		if peak > 5 {
			t.Errorf("%d requests in flight, want 5", peak)
		}
		if peak < 5 {
			return fmt.Sprintf("at most %d of 5 requests were in flight", peak)
		}
		return ""
	})
	held := int64(0)
	for _, l := range r.lines {
		expect.Equal(t, l.Planned, l.Row*1e6, "row %d planned at", l.Row)
		if l.Sent-l.Planned > 5e6 {
			held++
		}
	}
	c := r.summary.Cap
	const unheld = 5 // the first ones may be late for want of a core
	if c == nil || c.InFlight != 5 || c.Held < held-unheld || c.HeldMS == nil || c.HeldMS.Max < 100 {
		t.Errorf("cap %+v, want %d held back for 100 ms and more", c, held)
	}
	expect.Contains(t, r.stderr, "5 in flight", "the page does not tell of the cap")
	late := run(t, "--trace", load, "--url", m.url, "--rate", "1000", "--concurrency", "5", "--max-drift", "1ms")
	expect.Equal(t, late.code, 1, "exit code of a run that the cap makes late")
	expect.Contains(t, unwrapped(late.stderr), "the cap of 5 in flight held")
}

// TestWarmUp: its requests reach the server, and nothing else knows of them.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	plain := run(t, with(chat, "--url", m.url)...)
	r := run(t, with(chat, "--url", m.url, "--warmup", "7")...)
	r.sound(t)
	if len(r.lines) != len(plain.lines) || r.summary.Requests.Planned != plain.summary.Requests.Planned || r.summary.Run.Warmup != 7 {
		t.Errorf("%d records, %d planned, %d to warm up; want %d, %d and 7", len(r.lines), r.summary.Requests.Planned, r.summary.Run.Warmup, len(plain.lines), plain.summary.Requests.Planned)
	}
	if r.summary.PrefixCache.AboveIdealTokens > r.summary.PrefixCache.OvertakenTokens || r.summary.Workload.Fingerprint != plain.summary.Workload.Fingerprint {
		t.Errorf("the warm-up shows in the measurement: %+v", r.summary.PrefixCache)
	}
}

// peak is the largest number of requests that were in flight at once, by the lines.
func (r *results) peak() int {
	type event struct{ at, delta int64 }
	var events []event
	for _, l := range r.lines {
		if l.Sent != absent && l.Done != absent {
			events = append(events, event{l.Sent, 1}, event{l.Done, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.delta - b.delta)
	})
	now, peak := int64(0), int64(0)
	for _, e := range events {
		now += e.delta
		peak = max(peak, now)
	}
	return int(peak)
}

// TestJSON: the summary on standard output is the one on disk, and nothing else is there.
func TestJSON(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := run(t, with(chat, "--url", m.url, "--json")...)
	expect.Equal(t, r.stdout, string(readFile(t, filepath.Join(r.dir, "summary.json"))), "standard output")
	report := start(t, nil, "report", r.dir)
	report.ends(t, r.code)
	expect.Contains(t, report.stdout.String(), "30 ok", "report")
	steady := start(t, nil, "report", r.dir, "--steady=99%")
	steady.wait(t)
	expect.Contains(t, steady.stdout.String(), "within 99 % of the median", "report of the steady part: %s", &steady.stderr)
}

// TestDryRun sends nothing and writes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := run(t, with(chat, "--url", m.url, "--dry-run")...)
	if r.code != 0 || len(r.lines) != 0 || !strings.Contains(r.stderr, "30 requests") {
		t.Errorf("exit %d, %d lines:\n%s", r.code, len(r.lines), r.stderr)
	}
	expect.Refused(os.Stat(r.dir))(t, "", "an output directory was made")
	expect.Equal(t, len(m.stop(t)), 0, "requests that reached the server")
}

// TestEmbeddedMock: without --url the program brings its own server, and takes it away again.
func TestEmbeddedMock(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"samples/mooncake-small.jsonl", "samples/bailian.jsonl"} {
		r := run(t, sample, "--limit", "60", "--scale", "4")
		r.sound(t)
		_, url, _ := strings.Cut(r.stderr, "embedded mock, http://")
		address, _, _ := strings.Cut(url, ",")
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Errorf("the embedded mock at %s outlived the run", address)
		}
	}
}
