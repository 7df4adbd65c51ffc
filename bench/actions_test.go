package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// actionsFile writes a file of actions.
func actionsFile(t *testing.T, lines ...string) string {
	t.Helper()
	return newFile(t, "actions.yaml", strings.Join(lines, "\n"))
}

// TestActions: during a run a server is killed and started again, another is stopped and goes on; one command fails,
// one hangs and one does nothing. Each has its story, on the screen, in the summary and on the page.
func TestActions(t *testing.T) {
	t.Parallel()
	mocks, urls := startMocks(t, 3)
	dying, slow := mocks[1], mocks[2]
	address := strings.TrimPrefix(dying.url, "http://")
	pid := filepath.Join(t.TempDir(), "pid")
	file := actionsFile(t,
		"- {at: 4s, run: "+fmt.Sprintf("kill -9 %d", dying.Process.Pid)+"}",
		"- {at: 5s, run: echo sk-0123456789abcdef is no key; exit 3, expect: 'false', timeout: 1s}",
		"- at: 7s",
		"  run: "+binary+" mock --listen "+address+" --ttft 4ms --itl 1ms >/dev/null 2>&1 & echo $! > "+pid,
		"  expect: curl -sf "+dying.url+"/v1/models || wget -qO- "+dying.url+"/v1/models",
		"  undo: kill $(cat "+pid+")",
		"- {at: 8s, run: "+fmt.Sprintf("kill -STOP %d, expect: ps -o stat= -p %d | grep -q T}", slow.Process.Pid, slow.Process.Pid),
		"- {at: 12s, run: "+fmt.Sprintf("kill -CONT %d, expect: '! ps -o stat= -p %d | grep -q T'}", slow.Process.Pid, slow.Process.Pid),
		"- {at: 13s, run: sleep 100, expect: 'false', timeout: 1s}",
	)
	res := run(t, with(urls, "--trace", steady(t, 900, 60, 8),
		"--header", "Authorization: Bearer sk-0123456789abcdef", "--at", file, "--at", "13500ms=exit 0", "--at", "1h=false")...)
	all := res.summary.Actions
	must.Equal(t, len(all), 8, "%+v", all)
	var stories []string
	for i := range all {
		stories = append(stories, all[i].Finding())
	}
	for i, want := range []string{
		"landed after", "it did not land: exit code 3", "landed after", "landed after", "landed after",
		"it did not land: killed after 1.", "", "not run: the run was over",
	} {
		expect.Contains(t, stories[i], want, "action %d of %q", i, stories)
	}
	expect.Contains(t, stories[0], dying.url, "who was killed")
	expect.Contains(t, stories[1], "*** is no key", "output")
	failed := 0
	for _, l := range res.lines {
		if !l.ok() && l.Target == dying.url && float64(l.Planned)/1e9 < all[2].Ran.StartedS {
			failed++
		}
	}
	expect.Equal(t, all[0].Cost.Failed, int64(failed), "failed since the kill")
	// a busy machine may begin others first
	again := slices.IndexFunc(all, func(a metrics.Action) bool { return strings.Contains(a.Run, "mock --listen") })
	if undo := all[again].Undo; undo == nil || !undo.OK() {
		t.Errorf("undone: %+v", undo)
	}
	if lives := must.Have(os.ReadFile(pid))(t); alivePID(strings.TrimSpace(string(lives))) {
		t.Error("the server that was started lives on")
	}
	page := string(readFile(t, filepath.Join(res.dir, "report.html")))
	for _, words := range []string{`"title":"Actions"`, "kill -STOP", `"k":2`} {
		expect.Contains(t, page, words, "the page")
	}
	for _, text := range []string{page, res.stderr, string(readFile(t, filepath.Join(res.dir, "summary.json")))} {
		expect.Lacks(t, text, "0123456789abcdef", "a credential")
	}
	expect.Equal(t, slices.ContainsFunc(res.summary.Outages, func(o metrics.Outage) bool { return o.Target == dying.url }), true, "an outage")
}

// TestActionOfSlowness: one of three servers is stopped for 900 ms of each second, five times. Its check proves that it
// landed; it fails nothing, and what it costs is what the records say.
func TestActionOfSlowness(t *testing.T) {
	t.Parallel()
	mocks, urls := startMocks(t, 3)
	slow := mocks[1].Process.Pid
	file := actionsFile(t,
		"- at: 6s",
		fmt.Sprintf("  run: for i in 1 2 3 4 5; do kill -STOP %d; sleep 0.9; kill -CONT %d; sleep 0.1; done", slow, slow),
		fmt.Sprintf("  expect: ps -o stat= -p %d | grep -q T", slow),
		fmt.Sprintf("  undo: kill -CONT %d", slow))
	res := run(t, with(urls, "--trace", steady(t, 900, 60, 8), "--at", file)...)
	must.Equal(t, len(res.summary.Actions), 1, "%+v", res.summary.Actions)
	a := res.summary.Actions[0]
	expect.Equal(t, a.Landed, true, "%s", a.Finding())
	expect.Contains(t, a.Finding(), "its check succeeded")
	expect.Equal(t, [2]any{a.Ran.OK(), a.Undo.OK()}, [2]any{true, true}, "%+v, %+v", a.Ran, a.Undo)
	expect.Equal(t, a.Cost.Failed, int64(0), "slow requests do not fail")
	must.Equal(t, a.Cost.BandMS != nil, true, "%+v", a.Cost)
	if *a.Cost.BandMS > 400 {
		t.Skip("this machine is as slow as the server")
	}
	must.Equal(t, a.Cost.Left != nil && *a.Cost.Left, true, "TTFT p95 left its band: %+v", a.Cost)
	untilS := a.Cost.UntilS
	if a.Cost.BackS != nil {
		untilS = *a.Cost.BackS
	}
	late, ofSlow := int64(0), int64(0)
	for _, l := range res.lines {
		sentS := float64(l.Sent) / 1e9
		if sentS >= *a.LandedS && sentS < untilS && float64(l.FirstToken-l.Sent)/1e6 > *a.Cost.BandMS {
			late++
			if l.Target == mocks[1].url {
				ofSlow++
			}
		}
	}
	expect.Equal(t, a.Cost.Late, late, "late requests")
	if ofSlow == 0 {
		t.Errorf("none of %d late requests was at the slow server", late)
	}
	if a.Cost.BackS != nil && *a.Cost.BackS < a.Ran.StartedS+1 {
		t.Errorf("back at %v s, while the server was stopped again and again from %v s on", *a.Cost.BackS, a.Ran.StartedS)
	}
}

// TestActionsThatScale: an action puts a server into the file of targets, and another takes one out. Each landed by
// what the run saw of it. The second comes so late that the first cannot have had that effect.
func TestActionsThatScale(t *testing.T) {
	t.Parallel()
	mocks, _ := startMocks(t, 3)
	targets := filepath.Join(t.TempDir(), "targets.txt")
	listTargets(t, targets, mocks[0].url, mocks[1].url)
	write := func(urls ...string) string {
		return fmt.Sprintf("run: printf '%%s\\n' %s > %s.new; mv %s.new %s", strings.Join(urls, " "), targets, targets, targets)
	}
	file := actionsFile(t, "- at: 1500ms", "  "+write(mocks[0].url, mocks[1].url, mocks[2].url), "- at: 18s", "  "+write(mocks[1].url, mocks[2].url))
	res := run(t, "--trace", steady(t, 1320, 60, 8), "--targets", "watch:"+targets, "--route", "least-inflight", "--at", file)
	res.only(t, "ok")
	must.Equal(t, len(res.summary.Actions), 2, "%+v", res.summary.Actions)
	for i, want := range []string{mocks[2].url + " joined", mocks[0].url + " left"} {
		a := &res.summary.Actions[i]
		expect.Equal(t, a.Landed, true, "%s", a.Finding())
		expect.Contains(t, a.Proof, want)
		expect.Equal(t, a.Cost.Failed, int64(0), "failed")
	}
}

// alivePID reports whether a process lives that is no zombie.
func alivePID(pid string) bool {
	state, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(state), ") Z ")
}
