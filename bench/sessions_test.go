package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// parents is for each row of a trace the row that it follows, -1 for none.
func parents(t *testing.T, path string) map[int64]int64 {
	t.Helper()
	tr, err := trace.Open(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rowOf, of := map[int64]int64{}, map[int64]int64{}
	for i := range tr.Len() {
		rowOf[tr.Chat[i]] = int64(tr.Row[i])
	}
	for i := range tr.Len() {
		if parent, known := rowOf[tr.Parent[i]]; known && tr.Parent[i] >= 0 {
			of[int64(tr.Row[i])] = parent
		}
	}
	return of
}

// TestSessions replays real parent chains in each mode, and asks the server's log too whether a turn came before its time.
func TestSessions(t *testing.T) {
	t.Parallel()
	const sample = "samples/bailian.jsonl"
	of := parents(t, sample)
	if len(of) < 100 {
		t.Fatalf("only %d follow-up turns", len(of))
	}
	for _, c := range []struct {
		path string
		args []string
	}{
		{sample, []string{"--sessions", "strict", "--scale", "8"}},
		{sample, []string{"--sessions", "gated", "--scale", "8"}},
		{sample, []string{"--sessions", "think", "--scale", "8"}},
		{sample, []string{"--sessions", "gated", "--concurrency", "20"}},
		{"samples/multi_turn.jsonl", []string{"--sessions", "gated", "--no-fixed-schedule", "--concurrency", "6"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--ttft", "25ms", "--itl", "3ms")
			r := run(t, with(c.args, c.path, "--url", m.url)...)
			logs := m.stop(t)
			r.only(t, "ok")
			rows := map[int64]line{}
			for _, l := range r.lines {
				rows[l.Row] = l
			}
			turns := r.summary.Turns
			if turns == nil || turns.Sessions != c.args[1] {
				t.Fatalf("%+v", turns)
			}
			overtaking, followUps := int64(0), int64(0)
			for row, parent := range parents(t, c.path) {
				turn, before := rows[row], rows[parent]
				followUps++
				if turn.Sent < before.Done {
					overtaking++
				}
				if c.args[1] == "strict" {
					continue
				}
				if turn.Planned < before.Done {
					t.Errorf("row %d was released before row %d had ended", row, parent)
				}
				if logs[turn.ID][0].Arrival < logs[before.ID][0].Last {
					t.Errorf("the server had row %d before it had answered row %d", row, parent)
				}
			}
			if turns.FollowUps != followUps || turns.Overtaking != overtaking || (c.args[1] == "strict") != (overtaking > 0) {
				t.Errorf("%+v, want %d of %d", turns, overtaking, followUps)
			}
			if !strings.Contains(r.stderr, "sessions "+c.args[1]) {
				t.Errorf("the page has no line on turns:\n%s", r.stderr)
			}
			open := !slices.Contains(c.args, "--concurrency")
			if (turns.LaterMS != nil) != (open && c.args[1] != "strict") {
				t.Errorf("later: %+v", turns.LaterMS)
			}
		})
	}
}

// TestSessionsEndWithDuration: a turn whose time would come after --duration is no part of the run, in which all else is as planned.
func TestSessionsEndWithDuration(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"--sessions", "think", "--scale", "4"},
		{"--sessions", "gated", "--scale", "4"},
		{"--sessions", "gated", "--rate", "max"},
		{"--sessions", "gated", "--concurrency", "8"},
		{"--sessions", "gated", "--scale", "4", "--max-memory", "200kB"},
		{"--sessions", "gated", "--scale", "4", "--drain", "0s"},
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
					if slices.Contains(c, "--drain") && len(logs[l.ID]) == 0 {
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
