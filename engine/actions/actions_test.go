package actions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/redact"
)

// TestParse: both forms are read, and what no action can mean is refused in one line that says what to do.
func TestParse(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, fmt.Sprint(len(text), ".yaml"))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	all := must.Have(Parse([]string{"90s=kill a=b", file("- at: 1m\n  every: 30s\n  run: x\n  undo: y\n  expect: z\n  timeout: 5s\n- {at: 0s, run: v}\n")}))(t)
	want := []Action{
		{At: 90 * time.Second, Run: "kill a=b", Timeout: time.Minute},
		{At: time.Minute, Every: 30 * time.Second, Run: "x", Undo: "y", Expect: "z", Timeout: 5 * time.Second},
		{Run: "v", Timeout: time.Minute},
	}
	expect.List(t, all, want)
	for _, c := range []struct{ value, words string }{
		{"5m=", "no command"},
		{"-5m=x", "0 or more"},
		{"soon=x", "want TIME=COMMAND"},
		{filepath.Join(dir, "none.yaml"), "no such file"},
		{file("- at: 1m\n  run: x\n  evry: 3s\n"), "evry"},
		{file("at: 1m\n"), "want a list of actions"},
		{file("- at: tomorrow\n  run: x\n"), "action 1"},
		{file("- at: 1m\n  run: x\n  every: 1ms\n"), "at least 1s"},
		{file("- at: 1m\n  undo: x\n"), "no command"},
	} {
		_, err := Parse([]string{c.value})
		if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(strings.TrimSuffix(err.Error(), "\n"), "--at: --at") {
			t.Errorf("%q: %v, want %q", c.value, err, c.words)
		}
	}
}

// play runs actions in a run that lasts until over says so, and returns what became of them and what was told.
func play(t *testing.T, all []Action, hide *redact.Redactor, over func() bool) (did []metrics.Action, told []string) {
	t.Helper()
	for i := range all {
		must.Do(t, all[i].complete())
	}
	begin := time.Now()
	now := func() (int64, bool) { return int64(time.Since(begin)), true }
	said := make(chan string, 100)
	r := Start(all, now, hide, func(text string) { said <- text })
	for !over() {
		time.Sleep(5 * time.Millisecond)
	}
	did = r.End(nil)
	close(said)
	for text := range said {
		told = append(told, text)
	}
	return did, told
}

// exists reports whether a file of this name is there.
func exists(name string) func() bool {
	return func() bool { _, err := os.Stat(name); return err == nil }
}

// alive reports whether the process lives whose number is in the file.
func alive(t *testing.T, name string) bool {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(must.Have(os.ReadFile(name))(t))))
	if err != nil { // which is not whole yet
		return true
	}
	state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !strings.Contains(string(state), ") Z ")
}

// reaped reports whether the process has ended and its parent has seen that: before, its group is killed with it.
func reaped(t *testing.T, name string) bool {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(must.Have(os.ReadFile(name))(t))))
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// TestCommands: a command that works, one that fails, one that hangs with a child, one that floods, and one whose time
// never comes each have their story. No credential is in it.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hide := redact.NewRedactor([]http1.Header{{Name: "Authorization", Value: "Bearer sk-secretsecretsecret"}})
	did, told := play(t, []Action{
		{Run: "echo fine", Timeout: time.Minute},
		{Run: "echo sk-secretsecretsecret is wrong >&2; exit 3"},
		{Run: "sleep 1000 & echo $! > " + at("child") + "; wait", Timeout: time.Second},
		{Run: "yes line | head -c 3000000; echo $$ > " + at("shell") + "; exec touch " + at("flood")},
		{At: time.Hour, Run: "touch " + at("never"), Undo: "touch " + at("undone")},
	}, hide, func() bool {
		return exists(at("flood"))() && !alive(t, at("shell")) && exists(at("child"))() && !alive(t, at("child"))
	})
	by := map[string]metrics.Action{}
	for _, d := range did {
		by[strings.Fields(d.Run)[0]+strings.Fields(d.Run)[1]] = d
	}
	fine, wrong, hung, flood, never := by["echofine"].Ran, by["echo***"].Ran, by["sleep1000"].Ran, by["yesline"].Ran, by["touch"+at("never")]
	if fine == nil || wrong == nil || hung == nil || flood == nil {
		t.Fatalf("%+v", did)
	}
	expect.Equal(t, fmt.Sprint(fine.OK(), fine.Output), "truefine", "a command that works")
	expect.Equal(t, fmt.Sprint(*wrong.ExitCode, wrong.Output), "3*** is wrong", "a command that fails")
	expect.Contains(t, hung.Error, "its time limit", "a command that hangs")
	if len(flood.Output) > shownBytes+len("…") || !strings.HasSuffix(flood.Output, "line") || !flood.OK() {
		t.Errorf("a command that floods: %d bytes, %v", len(flood.Output), flood.OK())
	}
	if never.Began() || exists(at("never"))() || exists(at("undone"))() {
		t.Errorf("a command whose time never comes: %+v", never)
	}
	expect.Equal(t, len(told), 2, "%q", told)
	for _, text := range told {
		expect.Lacks(t, text, "secretsecret", "a credential")
	}
}

// TestEndOfTheRun: what still runs is killed with its children, what began is undone, the last first, and what a
// command has left in the background lives on.
func TestEndOfTheRun(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	did, _ := play(t, []Action{
		{Run: "echo $$ > " + at("long") + "; sleep 1000", Undo: "echo first >> " + at("undone")},
		{At: 50 * time.Millisecond, Run: "sh -c 'while :; do echo tick; sleep 0.01; done' & echo $! > " + at("server") + "; echo $$ > " + at("begun"), Undo: "echo second >> " + at("undone")},
	}, nil, func() bool { return exists(at("long"))() && exists(at("begun"))() && reaped(t, at("begun")) })
	defer func() {
		pid, _ := strconv.Atoi(strings.TrimSpace(string(must.Have(os.ReadFile(at("server")))(t))))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	expect.Equal(t, alive(t, at("long")), false, "what ran is killed")
	expect.Contains(t, did[0].Ran.Error, "the run had ended")
	expect.Equal(t, string(must.Have(os.ReadFile(at("undone")))(t)), "second\nfirst\n", "undone, whichever command ended first")
	if did[0].Undo == nil || !did[1].Undo.OK() {
		t.Errorf("%+v", did)
	}
	time.Sleep(300 * time.Millisecond) // more than the wait for its output
	expect.Equal(t, alive(t, at("server")), true, "what a command left behind lives")
}

// TestUndoOfEach: of two actions with one command each has what became of its own undo.
func TestUndoOfEach(t *testing.T) {
	ends := map[int]int{}
	all := []Action{{Run: ":", Undo: "exit 3", Timeout: time.Hour}, {At: time.Nanosecond, Run: ":", Undo: "exit 4", Timeout: time.Hour}}
	r := Start(all, func() (int64, bool) { return 1, true }, nil, func(string) {})
	r.ended.Wait()
	for _, did := range r.End(nil) {
		ends[*did.Undo.ExitCode] = int(did.AtS * 1e9)
	}
	expect.Equal(t, fmt.Sprint(ends), "map[3:0 4:1]", "instants of actions by the exit codes of their undos")
}

// TestHurry: an undo that does not end is killed when the user is tired of it, and the next ones, too.
func TestHurry(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	all := []Action{{Run: "true", Undo: "sleep 1000"}, {Run: ":", Undo: "touch " + began + "; sleep 1000"}}
	for i := range all {
		all[i].Timeout = time.Hour
	}
	r := Start(all, func() (int64, bool) { return 1, true }, nil, func(string) {})
	r.ended.Wait()
	hurry := make(chan struct{})
	go func() {
		for !exists(began)() {
			time.Sleep(5 * time.Millisecond)
		}
		hurry <- struct{}{}
	}()
	for _, did := range r.End(hurry) {
		if did.Undo == nil || !strings.Contains(did.Undo.Error, "killed") {
			t.Errorf("%+v", did.Undo)
		}
	}
}

// TestChecks: a check proves something only if it fails before; one that never succeeds, or not before the end of the
// run, is told as such. A command with a deadline is run again and again.
func TestChecks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	did, _ := play(t, []Action{
		{Run: "sleep 0.3; touch " + at("a"), Expect: "test -e " + at("a")},
		{Run: "true", Expect: "true"},
		{Run: "false", Expect: "test -e " + at("none"), Timeout: 500 * time.Millisecond},
		{Run: "echo x >> " + at("x"), Expect: "test -e " + at("none")},
		{Every: time.Second, Run: "echo y >> " + at("y")},
	}, nil, func() bool {
		y, _ := os.ReadFile(at("y"))
		return len(y) >= 6
	})
	found := map[string]string{}
	times := 0
	for _, d := range did {
		found[strings.Fields(d.Run)[0]+" "+d.Check] += "."
		if strings.HasSuffix(d.Run, "y") && d.Began() {
			times++
		}
		if d.Check == metrics.CheckPassed && *d.CheckS < d.Ran.StartedS {
			t.Errorf("the check passed before: %+v", d)
		}
	}
	for _, want := range []string{"sleep passed", "true early", "false failed", "echo unfinished"} {
		expect.Equal(t, found[want], ".", "%s in %v", want, found)
	}
	expect.Equal(t, times, 3, "times that an action was run")
}
