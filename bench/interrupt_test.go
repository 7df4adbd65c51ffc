package bench

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// interrupted checks what an interrupted run leaves: complete files, marked partial, and a line for every planned
// request.
func (r *results) interrupted(t *testing.T, planned int, outcomes ...string) {
	t.Helper()
	r.prove(t)
	r.only(t, append(outcomes, "not_sent")...)
	by := r.outcomes()
	if len(r.lines) != planned || by["not_sent"] == 0 {
		t.Errorf("%d lines, %v; want %d, some of them not sent", len(r.lines), by, planned)
	}
	for _, outcome := range outcomes {
		if by[outcome] == 0 {
			t.Errorf("outcomes %v, want some %s", by, outcome)
		}
	}
	if r.code != 130 || !r.summary.Run.Partial || r.summary.Verdict.Valid || !strings.Contains(r.reasons()[0], "interrupted when") {
		t.Errorf("exit %d, partial %t, verdict %+v", r.code, r.summary.Run.Partial, r.summary.Verdict)
	}
}

// TestInterruptOnce: what is in flight is drained, what is not yet released never leaves.
func TestInterruptOnce(t *testing.T) {
	// Under nohup this process ignores SIGHUP, and so would the program. A signal that is caught here has its default
	// there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	load := steady(t, lasting, 100, 10)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--itl", "20ms")
			r := startReplay(t, "--trace", load, "--url", m.url)
			m.untilRunning(t, 8)
			r.signalAll(t, s)
			if s == syscall.SIGTERM { // as timeout(1) does
				time.Sleep(10 * time.Millisecond) // or the two become one
				r.signalAll(t, s)
			}
			if s == syscall.SIGHUP { // a terminal that closes sends several, which cut nothing
				r.untilSaid(t, "interrupted: ")
				r.signalAll(t, s)
			}
			res := r.finish(t)
			res.interrupted(t, lasting, "ok")
			log := m.stop(t)
			res.join(t, log)
			for _, l := range res.lines {
				if _, came := log[l.ID]; came != (l.Outcome != "not_sent") {
					t.Errorf("row %d is %s, but seen by the server: %t", l.Row, l.Outcome, came)
				}
			}
		})
	}
}

// TestInterruptClosedLoop: a closed loop releases nothing more either.
func TestInterruptClosedLoop(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--itl", "20ms")
	r := startReplay(t, "--trace", steady(t, lasting, 100, 10), "--url", m.url, "--concurrency", "4")
	m.untilRunning(t, 4)
	r.signal(t, os.Interrupt)
	res := r.finish(t)
	res.interrupted(t, lasting, "ok")
	res.join(t, m.stop(t))
}

// TestInterruptCutsOff: what is in flight is cut off by a second signal, however long the grace is, or at the grace's
// end. The server would never have answered.
func TestInterruptCutsOff(t *testing.T) {
	t.Parallel()
	for grace, twice := range map[string]bool{"1h": true, "50ms": false} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--fault", "stall:2")
			r := startReplay(t, "--trace", steady(t, lasting, 100, 10), "--url", m.url, "--no-probe", "--grace", grace, "--cold", "off")
			m.untilRunning(t, 8)
			r.signal(t, os.Interrupt)
			if twice {
				r.signal(t, syscall.SIGTERM) // a second SIGINT might melt into the first
			}
			r.finish(t).interrupted(t, lasting, "cancelled")
		})
	}
}

// TestInterruptBeforeTheStart: nothing is sent and nothing written, whatever the run was waiting for.
func TestInterruptBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		mock  []string
		args  []string
		ready func(t *testing.T, m *mockServer, r *replay)
	}{
		{
			"probing a server that never answers", []string{"--ttft", "1h"}, chat,
			func(t *testing.T, m *mockServer, _ *replay) { m.untilRunning(t, 1) },
		},
		{
			"building", nil, // if it is done before the signal comes, it waits for its start
			[]string{"--trace", generate(t, "--rows", "1000", "--rate", "100", "--input-tokens", "40000", "--output-tokens", "2"),
				"--start-at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
			func(t *testing.T, _ *mockServer, r *replay) {
				r.untilSaid(t, "on the wire")
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, c.mock...)
			r := startReplay(t, with(c.args, "--url", m.url)...)
			c.ready(t, m, r)
			r.signal(t, os.Interrupt)
			code := r.wait(t)
			if _, err := os.Stat(r.dir); code != 130 || err == nil {
				t.Errorf("exit %d, results written: %t\n%s", code, err == nil, r.stderr.String())
			}
			expect.Contains(t, lastLine(r.stderr.String()), "nothing was sent", "the last line")
		})
	}
}

// TestInterruptWithoutEffect: the second signal ends what does not notice the first, here a trace that never comes.
func TestInterruptWithoutEffect(t *testing.T) {
	t.Parallel()
	r := startReplay(t, "--trace", "-")
	until(t, "the signals end it", func() bool {
		_ = r.Process.Signal(os.Interrupt)
		return r.ended()
	})
}

// TestTerminalInterrupt: a Ctrl-C goes to the whole process group, and still the embedded mock drains with the run.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	r := startReplay(t, "samples/mooncake-small.jsonl", "--scale", "0.1") // so slow that it is not over before the signal
	r.untilRecorded(t, 1, "ok")
	r.signalAll(t, syscall.SIGINT)
	r.finish(t).interrupted(t, 240, "ok")
}

// signalAll sends a signal to the whole process group, as a terminal does.
func (p *process) signalAll(t *testing.T, s syscall.Signal) {
	t.Helper()
	must.Do(t, syscall.Kill(-p.Process.Pid, s))
}

// TestNohup: where SIGHUP is ignored, as under nohup, it stays ignored, in the sending process too.
func TestNohup(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	ignoring := []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}
	r := startReplayIn(t, ignoring, "--trace", steady(t, lasting, 50, 10), "--url", m.url)
	m.untilRunning(t, 1)
	r.signalAll(t, syscall.SIGHUP)
	r.untilRecorded(t, r.recorded(t, "ok")+20, "ok") // more than were in flight
	expect.Lacks(t, r.stderr.String(), "interrupted", "it said")
	r.endedEarly(t).only(t, "ok", "not_sent")
}

// TestReaderLeaves: whoever reads standard output or error may leave, and the run goes on to its end with complete
// files.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	load := steady(t, 300, 150, 10)
	for name, pipe := range map[string]string{
		"standard error":  `{ "$@"; echo "exit $?" >&3; } 2>&1 >&4 | head -n 1`,
		"standard output": `{ "$@"; echo "exit $?" >&3; } | true`,
		"both":            `{ "$@" 2>&1; echo "exit $?" >&3; } | head -n 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t)
			in := []string{"sh", "-c", "{ " + pipe + "; } 3>&2 4>&1", "sh"}
			res := startReplayIn(t, in, "--json", "--trace", load, "--url", m.url).finish(t)
			expect.Equal(t, lastLine(res.stderr), "exit 0", "it ended with")
			res.only(t, "ok")
			if len(res.lines) != 300 || res.summary.Requests.OK != 300 {
				t.Errorf("%d lines, %d ok in the summary; want 300", len(res.lines), res.summary.Requests.OK)
			}
		})
	}
}
