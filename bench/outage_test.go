package bench

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// restart starts a mock anew at the address of one that was killed.
func (m *mockServer) restart(t *testing.T) *mockServer {
	t.Helper()
	return startMockIn(t, nil, filepath.Join(t.TempDir(), "again.jsonl"), "--listen", strings.TrimPrefix(m.url, "http://"))
}

// kill ends a mock as a machine that fails would.
func (m *mockServer) kill(t *testing.T) {
	t.Helper()
	m.signal(t, os.Kill)
	<-m.gone
}

// TestTargetDies: one of three servers is killed in the middle of a run, and comes back. Its own requests fail and no
// others, and each planned request has its line. The page names who failed, from when on, how many and what became of
// the others.
func TestTargetDies(t *testing.T) {
	t.Parallel()
	rows := 400 // which take longer than a quick machine needs until a server is back
	quickEnough(t, func() string {
		rows *= 3
		return targetDies(t, steady(t, rows, 100, 8))
	})
}

// targetDies is a try of TestTargetDies. It returns why the run was over before enough had happened.
func targetDies(t *testing.T, load string) (tooSlow string) {
	t.Helper()
	mocks, urls := startMocks(t, 3)
	dying := mocks[1]
	r := startReplay(t, with(urls, "--trace", load, "--scrape-interval", "200ms")...)
	r.untilRecorded(t, 200, "ok")
	dying.kill(t)
	r.untilRecorded(t, 40, "connect_error")
	dying.restart(t)
	res := r.finish(t)
	res.prove(t)
	res.verdict(t)
	failed := res.failedAt(t, dying.url)
	after := slices.ContainsFunc(res.lines, func(l line) bool {
		return l.Target == dying.url && l.ok() && len(failed) > 0 && l.Sent > failed[len(failed)-1].lastKnown()+2e9
	})
	switch {
	case len(failed) < 40:
		return fmt.Sprintf("the run was over after %d failures", len(failed))
	case !after:
		return "the run was over before the server had answered again for two seconds"
	case res.slowPages(dying.url) != "":
		return res.slowPages(dying.url)
	case res.summary.Servers != nil && (res.summary.Servers.All.Missed == 0 || res.summary.Servers.All.Restarts == 0):
		return "the metrics were not asked for between the server's death and its return, or not soon after"
	}
	if o := res.outage(t, dying.url, failed); o.ToS == nil || !res.okAfter(dying.url, *o.ToS) {
		t.Errorf("the server came back, and requests to it went on failing: %+v", o)
	}
	res.proveDates(t)
	if s := res.summary.Servers; s == nil || s.All.Addresses != 3 || s.All.Incomplete || s.All.Restarts != 1 {
		t.Errorf("what the servers said: %+v", s)
	}
	return ""
}

// slowPages says if a server that lived did not answer for its metrics in time; "" = each did.
func (r *results) slowPages(dead ...string) (tooSlow string) {
	if s := r.summary.Servers; s != nil && slices.ContainsFunc(s.Targets, func(s scrape.Server) bool { return s.Missed > 0 && !slices.Contains(dead, s.Target) }) {
		return "the servers' metrics took too long"
	}
	return ""
}

// failedAt fails unless all failures are of one target, and returns them in order of their instants.
func (r *results) failedAt(t *testing.T, url string) (failed []line) {
	t.Helper()
	for _, l := range r.lines {
		switch {
		case l.ok():
		case l.Target != url:
			t.Errorf("row %d to %s is %s (%s), but %s died", l.Row, l.Target, l.Outcome, l.Error, url)
		case !slices.Contains([]string{"connect_error", "reset", "truncated"}, l.Outcome):
			t.Errorf("row %d is %s (%s)", l.Row, l.Outcome, l.Error)
		default:
			failed = append(failed, l)
		}
	}
	slices.SortFunc(failed, func(a, b line) int { return int(a.Planned - b.Planned) })
	return failed
}

// outage is the only one. It must be of url and hold the failures, but perhaps some of those in flight at its ends,
// which stand among answers. The page must name it.
func (r *results) outage(t *testing.T, url string, failed []line) metrics.Outage {
	t.Helper()
	must.Equal(t, len(r.summary.Outages), 1, "outages %+v, of %s", r.summary.Outages, url)
	o := r.summary.Outages[0]
	if o.Target != url || o.Failed > int64(len(failed)) || 4*o.Failed < 3*int64(len(failed)) || o.Outcome != "connect_error" || !strings.Contains(o.Error, "connection refused") {
		t.Errorf("%+v, want about %d failures of %s", o, len(failed), url)
	}
	// It begins where one of them ended, and those that ended earlier are not in it.
	var since int64
	begins := false
	for _, l := range failed {
		end := float64(l.lastKnown()) / 1e9
		begins = begins || math.Abs(end-o.FromS) < 1e-6
		if end >= o.FromS-1e-6 {
			since++
		}
	}
	if !begins || since < o.Failed {
		t.Errorf("from %v s on: a failure ended then %t, %d since, want %d", o.FromS, begins, since, o.Failed)
	}
	said := unwrapped(r.stderr)
	if want := fmt.Sprintf("%s failed from ", url); !strings.Contains(said, want) || !strings.Contains(said, fmt.Sprintf("(%d of %d requests, %s by connect_error, ", o.Failed, o.Requests, map[bool]string{true: "all", false: "most"}[o.Alike == o.Failed])) {
		t.Errorf("the page does not say %q:\n%s", want, r.stderr)
	}
	return o
}

// lastKnown is the last instant that the line has.
func (l *line) lastKnown() int64 {
	at := l.Sent
	if at == absent {
		at = l.Planned
	}
	return max(at, l.Headers, l.FirstToken, l.LastToken, l.Done)
}

// okAfter tells whether all requests to url that were planned a second after that and later succeeded, and there were
// some.
func (r *results) okAfter(url string, s float64) bool {
	n := 0
	for _, l := range r.lines {
		if l.Target == url && float64(l.Planned)/1e9 > s+1 {
			if n++; !l.ok() {
				return false
			}
		}
	}
	return n > 0
}

// proveDates: each request that was sent has its date, within the microsecond to which dates are cut.
func (r *results) proveDates(t *testing.T) {
	t.Helper()
	type dated struct {
		Sent   *int64     `json:"sent_ns"`
		SentAt *time.Time `json:"sent_at"`
	}
	for _, l := range readLines[dated](t, requestsFile(r.dir)) {
		if (l.Sent == nil) != (l.SentAt == nil) {
			t.Fatalf("sent_ns %v, sent_at %v", l.Sent, l.SentAt)
		}
		if l.Sent == nil {
			continue
		}
		if off := r.summary.Run.StartedAt.Add(time.Duration(*l.Sent)).Sub(*l.SentAt); off < 0 || off >= time.Microsecond {
			t.Fatalf("sent_at is %v off", off)
		}
	}
}

// TestShutDown: a server that is shut down refuses new connections while those in flight end well; one that is killed
// cuts them off. The page tells the two apart.
func TestShutDown(t *testing.T) {
	t.Parallel()
	load := steady(t, lasting, 40, 200)
	for name, killed := range map[string]bool{"shut down": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quickEnough(t, func() string { return shutDown(t, load, killed) })
		})
	}
}

// shutDown is a try of TestShutDown. It returns why the answers that were read after the first refusal do not tell how
// the server ended.
func shutDown(t *testing.T, load string, killed bool) (tooSlow string) {
	t.Helper()
	m := startMock(t, append(map[bool][]string{true: {"--fault", "stall:3@0.5"}}[killed], "--itl", "5ms")...) // whom it cuts off
	front := forward(t, func(*http.Request) int { return 0 }, m.url)
	target := front.URL
	if killed {
		target = m.url
	}
	r := startReplay(t, "--trace", load, "--url", target, "--no-probe")
	r.untilRecorded(t, 40, "ok")
	if killed {
		m.kill(t)
	} else {
		must.Do(t, front.Config.Shutdown(t.Context()))
	}
	r.untilRecorded(t, 40, "connect_error")
	res := r.endedEarly(t)
	res.prove(t)
	refused := int64(math.MaxInt64)
	for i := range res.lines {
		if l := &res.lines[i]; l.Outcome == "connect_error" {
			refused = min(refused, l.lastKnown())
		}
	}
	if after := slices.ContainsFunc(res.lines, func(l line) bool { return l.ok() && l.Sent < refused && l.Done > refused+200e6 }); after == killed {
		return fmt.Sprintf("answers were read long after the first refusal: %t", after)
	}
	must.Equal(t, len(res.summary.Outages), 1, res.summary.Outages)
	o, said := res.summary.Outages[0], unwrapped(res.stderr)
	want := "it was shut down, not killed"
	if killed {
		want = "it died or was killed"
	}
	if !strings.Contains(said, want) || killed != (o.CutOff > 0) || killed != (o.FinishedAfter == 0) {
		t.Errorf("want %q; %+v\n%s", want, o, res.stderr)
	}
	return ""
}
