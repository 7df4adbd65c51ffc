package bench

import (
	"fmt"
	"path/filepath"
	"testing"
)

// targetsFile writes a file for --targets.
func targetsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "targets.txt")
	writeFile(t, path, text)
	return path
}

// TestRoutes sends a trace with conversations to two servers in each way, and asks their logs.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		check func(t *testing.T, lines []line, byTarget map[string]int, urls []string)
	}{
		{[]string{"--route", "round-robin"}, func(t *testing.T, lines []line, byTarget map[string]int, urls []string) {
			if byTarget[urls[0]] != 75 || byTarget[urls[1]] != 225 {
				t.Errorf("%v, want one in four and three in four", byTarget)
			}
		}},
		{[]string{"--route", "random", "--seed", "4"}, func(t *testing.T, lines []line, byTarget map[string]int, urls []string) {
			if n := byTarget[urls[0]]; n < 35 || n > 115 || n == 75 {
				t.Errorf("%v, want about one in four, by chance", byTarget)
			}
		}},
		{[]string{"--route", "session"}, func(t *testing.T, lines []line, _ map[string]int, _ []string) {
			home := map[int64]string{}
			for _, l := range lines {
				if at, known := home[l.Session]; known && at != l.Endpoint {
					t.Errorf("session %d at %s and %s", l.Session, at, l.Endpoint)
				}
				home[l.Session] = l.Endpoint
			}
		}},
	} {
		t.Run(c.args[1], func(t *testing.T) {
			t.Parallel()
			a, b := startMock(t), startMock(t)
			file := targetsFile(t, fmt.Sprintf("# two of them\n\n%s\n %s 3 # the larger one\n", a.url, b.url))
			r := run(t, with(c.args, "samples/bailian.jsonl", "--scale", "8", "--targets", file)...)
			logs := map[string]map[string][]served{a.url: a.stop(t), b.url: b.stop(t)}
			r.only(t, "ok")
			byTarget := map[string]int{}
			for _, l := range r.lines {
				byTarget[l.Target]++
				if len(logs[l.Target][l.ID]) != 1 {
					t.Errorf("row %d: %s has no line of it", l.Row, l.Target)
				}
			}
			c.check(t, r.lines, byTarget, []string{a.url, b.url})
		})
	}
}
