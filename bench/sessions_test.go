package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSessionsEndWithDuration: a turn whose time would come after --duration is no part of the run, in which all else
// is as planned.
func TestSessionsEndWithDuration(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"--sessions", "think", "--scale", "4"},
		{"--sessions", "gated", "--scale", "4"},
		{"--sessions", "gated", "--concurrency", "8"},
		{"--sessions", "gated", "--scale", "4", "--grace", "0s"},
	} {
		t.Run(strings.Join(c, " "), func(t *testing.T) {
			t.Parallel()
			var r *results
			var logs map[string][]served
			quickEnough(t, func() string {
				m := startMock(t, "--ttft", "600ms")
				r = run(t, with(c, "samples/bailian.jsonl", "--url", m.url, "--duration", "1s")...)
				logs = m.stop(t)
				for _, l := range r.lines {
					if slices.Contains(c, "--grace") && len(logs[l.ID]) == 0 {
						return fmt.Sprintf("row %d, planned at %d ns, did not leave before the end", l.Row, l.Planned)
					}
				}
				return ""
			})
			planned := int64(len(r.lines))
			if got := r.summary.Requests; got.Planned != planned || got.Sent != planned || r.summary.Workload.Requests != planned || got.ByOutcome["not_sent"] != 0 {
				t.Errorf("%+v of a workload of %d, %d lines", got, r.summary.Workload.Requests, planned)
			}
			for _, l := range r.lines {
				if l.Planned >= 1e9 || len(logs[l.ID]) != 1 {
					t.Errorf("row %d was released at %d ns, and came %d times", l.Row, l.Planned, len(logs[l.ID]))
				}
			}
			if notes := strings.Join(r.summary.Notes, "\n"); strings.Count(notes, "--duration 1s was over before") != 1 {
				t.Errorf("the notes are\n%s", notes)
			}
		})
	}
}
