package bench

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSeveralTargets: requests go round robin, and each target is counted by itself.
func TestSeveralTargets(t *testing.T) {
	t.Parallel()
	a, b := startMock(t), startMock(t)
	r := run(t, with(chat, "--url", a.url, "--url", b.url+"/v1")...)
	logs := []map[string][]served{a.stop(t), b.stop(t)}
	r.sound(t)
	for i, target := range r.summary.Targets {
		here := &results{summary: r.summary}
		for _, l := range r.lines {
			if l.Target == target.URL {
				here.lines = append(here.lines, l)
			}
		}
		if len(here.lines) != 30 || target.Requests != 30 {
			t.Errorf("%s got %d lines and counts %d, want 30", target.URL, len(here.lines), target.Requests)
		}
		here.join(t, logs[i])
	}
}

// TestPlans checks when requests were planned, and how many.
func TestPlans(t *testing.T) {
	t.Parallel()
	load := steady(t, 120, 100, 5)
	planned := func(r *results) []int64 {
		slices.SortFunc(r.lines, func(a, b line) int { return int(a.Row - b.Row) })
		var list []int64
		for _, l := range r.lines {
			list = append(list, l.Planned)
		}
		return list
	}
	every := func(n int, gapNS int64) []int64 {
		list := make([]int64, n)
		for i := range list {
			list[i] = int64(i) * gapNS
		}
		return list
	}
	for _, c := range []struct {
		name string
		args []string
		want []int64
	}{
		{"trace times", nil, every(120, 10e6)},
		{"scale", []string{"--scale", "2.5"}, every(120, 4e6)},
		{"rate", []string{"--rate", "250"}, every(120, 4e6)},
		{"rate in place of a schedule", []string{"--no-fixed-schedule", "--rate", "250"}, every(120, 4e6)},
		{"all at once", []string{"--rate", "max", "--limit", "30"}, every(30, 0)},
		{"ramp", []string{"--ramp", "0:100:1s", "--limit", "3"}, []int64{0, 141_421_356, 200_000_000}},
		{"poisson", []string{"--rate", "800", "--arrival", "poisson", "--seed", "1", "--limit", "4"}, []int64{0, 328_000, 933_000, 1_237_000}},
		{"limit", []string{"--limit", "7"}, every(7, 10e6)},
		{"duration", []string{"--duration", "300ms"}, every(30, 10e6)},
		{"rate and duration", []string{"--rate", "1000", "--duration", "50ms"}, every(50, 1e6)},
		{"from and to", []string{"--from", "200ms", "--to", "400ms"}, every(20, 10e6)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, append(c.args, "--trace", load, "--url", startMock(t).url)...)
			r.sound(t)
			if got := planned(r); !slices.Equal(got, c.want) {
				t.Errorf("planned %v, want %v", got, c.want)
			}
		})
	}
}

// TestConcurrency: a closed loop never has more in flight than it may, and uses what it may.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	load := steady(t, 120, 1000, 5)
	m := startMock(t, "--ttft", "25ms")
	for _, c := range []struct {
		name string
		args []string
		most int
	}{
		{"one by one", []string{"--concurrency", "1", "--limit", "20"}, 1},
		{"five", []string{"--concurrency", "5"}, 5},
		{"for a while", []string{"--concurrency", "3", "--duration", "400ms"}, 3},
		{"more than there are", []string{"--concurrency", "500"}, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			quickEnough(t, func() string {
				r := run(t, append(c.args, "--trace", load, "--url", m.url)...)
				r.sound(t)
				peak := r.peak()
				if peak > c.most {
					t.Errorf("%d requests in flight, want %d", peak, c.most)
				}
				if c.most <= 5 && peak < c.most {
					return fmt.Sprintf("at most %d of %d requests were in flight", peak, c.most)
				}
				return ""
			})
		})
	}
	r := run(t, "--concurrency", "1", "--duration", "1s", "--trace", load, "--url", m.url) // 40 at most
	if n := len(r.lines); n == 0 || n > 40 {
		t.Errorf("a closed loop of one made %d requests of 25 ms in a second", n)
	}
}

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
		if l.Planned != l.Row*1e6 {
			t.Errorf("row %d planned at %d ns", l.Row, l.Planned)
		}
		if l.Sent-l.Planned > 5e6 {
			held++
		}
	}
	c := r.summary.Cap
	const unheld = 5 // the first ones may be late for want of a core
	if c == nil || c.InFlight != 5 || c.Held < held-unheld || c.HeldMS == nil || c.HeldMS.Max < 100 {
		t.Errorf("cap %+v, want %d held back for 100 ms and more", c, held)
	}
	if !strings.Contains(r.stderr, "5 in flight") {
		t.Errorf("the page does not tell of the cap:\n%s", r.stderr)
	}
	late := start(t, nil, "--trace", load, "--url", m.url, "--rate", "1000", "--concurrency", "5", "--output", t.TempDir()+"/late")
	if code := late.wait(t); code != 1 || !strings.Contains(strings.Join(strings.Fields(late.stderr.String()), " "), "the cap of 5 in flight held") {
		t.Errorf("exit %d, want 1 and the cap named:\n%s", code, late.stderr.String())
	}
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

// TestRepeat: the same content again, at the same distances, and all of it expected in the cache.
func TestRepeat(t *testing.T) {
	t.Parallel()
	load := steady(t, 40, 400, 5) // 97.5 ms and a gap of 2.5 ms
	m := startMock(t)
	r := run(t, "--trace", load, "--url", m.url, "--repeat", "3")
	r.only(t, "ok")
	r.verdict(t)
	if len(r.lines) != 120 || r.summary.Workload.Repeat != 3 {
		t.Fatalf("%d lines, repeated %d times; want 120 and 3", len(r.lines), r.summary.Workload.Repeat)
	}
	slices.SortFunc(r.lines, func(a, b line) int { return int(a.Planned - b.Planned) })
	for i, l := range r.lines {
		if l.Row != int64(i%40) || l.Planned != int64(i)*25e5 {
			t.Fatalf("request %d is row %d at %d ns", i, l.Row, l.Planned)
		}
	}
	if hits := *r.summary.PrefixCache.ExpectedHitRatio; hits < 0.6 || hits > 0.667 { // two of three times, but for partial blocks
		t.Errorf("%.3f of the tokens are expected in the cache, want about two thirds", hits)
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
	onDisk, err := os.ReadFile(filepath.Join(r.dir, "summary.json"))
	if err != nil || !bytes.Equal(onDisk, []byte(r.stdout)) {
		t.Errorf("standard output differs from summary.json (%v):\n%s", err, r.stdout)
	}
	report := start(t, nil, "report", r.dir)
	if code := report.wait(t); code != r.code {
		t.Errorf("report: exit %d, the run's was %d\n%s", code, r.code, report.stderr.String())
	}
	if !strings.Contains(report.stdout.String(), "60 ok") {
		t.Errorf("report shows:\n%s", report.stdout.String())
	}
}

// TestDryRun sends nothing and writes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := run(t, with(chat, "--url", m.url, "--dry-run")...)
	if r.code != 0 || len(r.lines) != 0 || !strings.Contains(r.stderr, "60 requests") {
		t.Errorf("exit %d, %d lines:\n%s", r.code, len(r.lines), r.stderr)
	}
	if _, err := os.Stat(r.dir); err == nil {
		t.Error("an output directory was made")
	}
	if log := m.stop(t); len(log) != 0 {
		t.Errorf("the server was asked %d times", len(log))
	}
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
