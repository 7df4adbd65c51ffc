package collect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestFailures counts every combination of outcome, status and progress, over several targets, against words.
func TestFailures(t *testing.T) {
	c, want, examples := NewCollector(urls(3)), map[string]int64{}, map[string]string{}
	n := 0
	for o := range record.Outcomes {
		for progress, phase := range []string{metrics.PhaseConnect, metrics.PhaseHeaders, metrics.PhaseStream} {
			for _, status := range []int64{record.None, 200, 429, 503} {
				for range 1 + n%4 {
					var r record.Record
					r.Clear()
					r.Outcome, r.Status, r.PlannedNS, r.Row = record.Outcome(o), status, 0, int64(n)
					if progress > 0 {
						r.SentNS = 1
					}
					if progress > 1 {
						r.HeadersNS = 2
					}
					if n%3 > 0 {
						r.Error = fmt.Sprintf("%s %s %d", r.Outcome, phase, status)
					}
					n++
					c.Add(&r, n%4)
					if r.Outcome == record.OK {
						continue
					}
					if r.Outcome == record.HTTPError && phase == metrics.PhaseStream {
						phase = metrics.PhaseHeaders // the head said it
					}
					key := fmt.Sprintf("%s %s %d", r.Outcome, phase, max(0, status))
					want[key]++
					if r.Error != "" {
						examples[key] = r.Error
					}
				}
			}
		}
	}
	s := planned(c, n)
	got, sum := map[string]int64{}, int64(0)
	for _, f := range s.Requests.Failures {
		key := fmt.Sprintf("%s %s %d", f.Outcome, f.Phase, f.Status)
		got[key] += f.Count
		sum += f.Count
		expect.Equal(t, f.Example == "", examples[key] == "", "%s: example %q", key, f.Example)
	}
	if !maps.Equal(got, want) || sum != s.Requests.Failed {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if !slices.IsSortedFunc(s.Requests.Failures, func(a, b metrics.Failure) int { return int(b.Count - a.Count) }) {
		t.Errorf("not the most frequent first: %v", s.Requests.Failures)
	}
	for _, cut := range []metrics.Run{{Cut: true}, {Partial: true}} {
		for _, f := range c.Summary(metrics.Summary{Run: cut}, Probed{}).Requests.Failures {
			if f.Outcome == "cancelled" || f.Outcome == "not_sent" {
				t.Errorf("%+v: %s is no failure", cut, f.Outcome)
			}
		}
	}
}

// TestFailureWords: a status in place of an outcome, and an example that is safe to print and not too long.
func TestFailureWords(t *testing.T) {
	for want, f := range map[string]metrics.Failure{
		`HTTP 503 "no such \x1b[31mmodel\n"`:        {Outcome: "http_error", Status: 503, Example: "no such \x1b[31mmodel\n"},
		`reset "` + strings.Repeat("é", 200) + `…"`: {Outcome: "reset", Example: strings.Repeat("é", 201)},
		"timeout": {Outcome: "timeout"},
	} {
		expect.Equal(t, f.Words(), want)
	}
}
