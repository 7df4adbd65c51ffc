package bench

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestFaults: whatever the server does, each planned request has one line with the outcome that the server's log
// explains, and the server's own words. What a client must tolerate is no failure. The sweep commits more of them, in
// every phase.
func TestFaults(t *testing.T) {
	t.Parallel()
	load := steady(t, 32, 400, 6)
	for _, c := range []struct {
		fault, outcome string
		error          string // words of it; of an answer that is ok, its tokens_from
		status         int64  // absent = none was seen
		reason         string // of the verdict; "" = valid
		args           []string
	}{
		{"status:503", "http_error", "injected fault: status", 503, "", nil},
		{"close-before", "reset", "closed the connection before it answered", absent, "", []string{"--resend", "unread"}},
		{"stall:3", "timeout", "--idle-timeout", 200, "", []string{"--idle-timeout", "10s"}},
		{"stall:3", "timeout", "--timeout", 200, "", []string{"--timeout", "10s"}},
		{"big-event:9000000", "bad_response", "", 200, "", nil},
		{"big-event:2000000", "ok", "usage", 200, "", nil},
		{"no-length", "ok", "usage", 200, "", []string{"--no-stream"}},
		{"no-usage", "ok", "chunks", 200, "", nil},
		{"short:2", "ok", "usage", 200, "ended short of the recorded length", nil},
	} {
		if testing.Short() && c.outcome == "ok" {
			continue // the goroutines are those of other tests
		}
		t.Run(strings.Join(append([]string{c.fault}, c.args...), " "), func(t *testing.T) {
			t.Parallel()
			m := startMock(t)
			// About half of the answers have the fault: of 32 all or none, once in 2 billion runs. Nothing is probed,
			// so that each line of the server's log is a request.
			kind, _, _ := strings.Cut(c.fault, ":")
			r := run(t, with(c.args, "--trace", load, "--url", m.url, "--no-probe", "-H", "X-Mock-Fault: "+c.fault+"@0.5")...)
			r.prove(t)
			log := m.stop(t)
			if c.outcome != "ok" {
				r.join(t, log)
			}
			r.only(t, "ok", c.outcome)
			if c.reason == "" {
				r.verdict(t)
			} else {
				r.verdict(t, c.reason)
			}
			committed := 0
			for _, l := range r.lines {
				if len(log[l.ID]) != 1 {
					t.Errorf("row %d came %d times, resent %d", l.Row, len(log[l.ID]), l.Resent)
					continue
				}
				s, want := log[l.ID][0], "ok"
				if s.Fault == kind {
					committed++
					want = c.outcome
				}
				switch {
				case l.Outcome != want:
					t.Errorf("row %d is %s (%s); the server committed %q", l.Row, l.Outcome, l.Error, s.Fault)
				case !l.ok() && (!strings.Contains(l.Error, c.error) || l.Status != c.status):
					t.Errorf("row %d: status %d, error %q; want %d and %q", l.Row, l.Status, l.Error, c.status, c.error)
				case l.ok() && s.Fault == kind && (l.TokensFrom != c.error || l.Completion != s.Completion):
					t.Errorf("row %d: %d completion tokens by %s, the server sent %d", l.Row, l.Completion, l.TokensFrom, s.Completion)
				}
			}
			if committed == 0 || !strings.Contains(r.stderr, c.outcome) {
				t.Errorf("%d requests met the fault, and the terminal shows no %s:\n%s", committed, c.outcome, r.stderr)
			}
		})
	}
}

// TestClosedIdle: a server that closes its connections after each answer, which it does not announce, costs no request
// by default.
func TestClosedIdle(t *testing.T) {
	t.Parallel()
	load := steady(t, 300, 2000, 2)
	for _, how := range [][]string{{"--concurrency", "3"}, nil} {
		m := startMock(t, "--fault", "idle-close:0s", "--ttft", "0s", "--itl", "0s")
		r := run(t, append(how, "--trace", load, "--url", m.url, "--no-probe")...)
		r.prove(t)
		r.join(t, m.stop(t))
		r.only(t, "ok")
		resent := int64(0)
		for _, l := range r.lines {
			resent += l.Resent
		}
		s, notes := r.summary, strings.Join(r.summary.Notes, "\n")
		if s.Servers != nil || s.Requests.Resent != resent || s.Connections.ClosedEarly == 0 || !strings.Contains(notes, "had not announced it") ||
			resent > 0 != strings.Contains(notes, "sent again") {
			t.Errorf("%d sent again, the summary counts %d, %+v; notes: %q", resent, s.Requests.Resent, s.Connections, s.Notes)
		}
	}
}

// lasting is so many requests that no machine is done with them before a test has seen what it waits for, and ends the
// run.
const lasting = 6000

// endedEarly interrupts a run that has shown what it should. What is in flight still ends.
func (r *replay) endedEarly(t *testing.T) *results {
	t.Helper()
	r.signal(t, os.Interrupt)
	res := r.finish(t)
	if res.code != 130 || !res.summary.Run.Partial || res.outcomes()["not_sent"] == 0 {
		t.Errorf("exit %d, %v", res.code, res.outcomes())
	}
	return res
}

// TestServerStalls: a stopped process takes requests and says nothing; after a while it goes on.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--itl", "20ms")
	r := startReplay(t, "--trace", steady(t, lasting, 50, 5), "--url", m.url, "--idle-timeout", "500ms")
	m.untilRunning(t, 2)
	m.signal(t, syscall.SIGSTOP)
	r.untilRecorded(t, 1, "timeout")
	m.signal(t, syscall.SIGCONT)
	r.untilRecorded(t, r.recorded(t, "ok")+40, "ok") // more than were in flight
	res := r.endedEarly(t)
	res.prove(t)
	log := m.stop(t)
	res.join(t, log)
	res.only(t, "ok", "timeout", "connect_error", "not_sent")
	t.Logf("outcomes %v", res.outcomes())
}

// TestGarbage: servers that speak no HTTP at all.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a login page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Please log in</html>") },
		"nothing":      func(http.ResponseWriter, *http.Request) {},
		"a redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, handler)
			r := run(t, with(chat, "--url", url, "--no-probe")...)
			r.prove(t)
			r.only(t, "bad_response", "http_error", "truncated")
			r.verdict(t, "none of 30 requests succeeded")
			refused(t, with(chat, "--url", url)...)
		})
	}
}
