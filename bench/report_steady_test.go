package bench

import (
	"cmp"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestSteady: the steady part of a run whose rate rises is the one that all its parts, tried one by one, show from the requests alone.
func TestSteady(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "100ms")
	const rows, band = 400, 0.3
	res := run(t, "--trace", steady(t, rows, 100, 2), "--url", m.url, "--no-fixed-schedule", "--ramp", "20:200:1s", "--arrival", "constant", "--max-drift", "1h", "--max-receive-lag", "1h")
	p := start(t, nil, "report", res.dir, "--steady=30%", "--json")
	if code := p.wait(t); code != 0 || len(res.lines) != rows {
		t.Fatalf("exit %d, %d requests\n%s", code, len(res.lines), p.stderr.String())
	}
	var got metrics.Summary
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil || got.Window == nil {
		t.Fatal(err, got.Window)
	}

	steps := readLines[struct {
		From float64 `json:"from_s"`
		To   float64 `json:"to_s"`
	}](t, filepath.Join(res.dir, "timeline.jsonl"))
	var level []float64 // requests in flight: mean of each step until the last one is sent
	last := slices.MaxFunc(res.lines, func(a, b line) int { return cmp.Compare(a.Sent, b.Sent) }).Sent
	for _, s := range steps {
		if s.From*1e9 > float64(last) {
			break
		}
		sum := 0.0
		for _, l := range res.lines {
			sum += max(0, min(float64(l.Done)/1e9, s.To)-max(float64(l.Sent)/1e9, s.From))
		}
		level = append(level, sum/(s.To-s.From))
	}
	from, n := 0, 0
	for i := range level {
		for k := len(level); k > i+n; k-- {
			part := slices.Sorted(slices.Values(level[i:k]))
			median := (part[(len(part)-1)/2] + part[len(part)/2]) / 2
			if part[0] >= (1-band)*median && part[len(part)-1] <= (1+band)*median {
				from, n = i, k-i
			}
		}
	}
	begin, end, planned := steps[from].From, min(steps[from+n-1].To, res.summary.Run.DurationS), int64(0)
	for _, l := range res.lines {
		if at := float64(l.Planned) / 1e9; at >= begin && at < end {
			planned++
		}
	}
	if w := got.Window; math.Abs(w.FromS-begin) > 1e-9 || math.Abs(w.ToS-end) > 1e-9 || got.Requests.Planned != planned {
		t.Errorf("%d requests in %+v, want %d from %v to %v", got.Requests.Planned, w, planned, begin, end)
	}
	quiet := !slices.ContainsFunc(res.lines, func(l line) bool { return l.Sent-l.Planned > 20e6 || l.Done-l.Sent > 150e6 })
	if w := got.Window; !quiet {
		t.Logf("this machine is too busy for the rate that was planned: window %+v", w)
	} else if w.FromS < 0.5 || w.ToS-w.FromS < 0.3 || w.Level < 10 || w.Level > 40 { // the rise is no part of it; 200/s for 0.1 s are 20
		t.Errorf("window %+v of %d steps, levels %.0f", w, len(steps), level)
	}
}
