package bench

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// actionInputs are the variables that action.yml gives to its step.
func actionInputs(t *testing.T) map[string]string {
	t.Helper()
	var action struct {
		Inputs map[string]struct{ Default *string }
		Runs   struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	must.Do(t, yaml.Unmarshal(readFile(t, "../action.yml"), &action))
	must.Equal(t, len(action.Runs.Steps), 1, "steps")
	step := action.Runs.Steps[0]
	expect.Equal(t, step.Run, `"$GITHUB_ACTION_PATH/scripts/action"`)
	values := map[string]string{}
	for name, value := range step.Env {
		input := strings.TrimSuffix(strings.TrimPrefix(value, "${{ inputs."), " }}")
		in, there := action.Inputs[input]
		if !there {
			t.Errorf("%s is %s, which is no input", name, value)
		}
		if in.Default != nil {
			values[name] = *in.Default
		}
	}
	return values
}

// TestActionInputs: the script reads every variable that action.yml sets, and no others of its own.
func TestActionInputs(t *testing.T) {
	inputs := actionInputs(t)
	script := string(readFile(t, "../scripts/action"))
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{?([A-Z_]+)`).FindAllStringSubmatch(script, -1) {
		used[m[1]] = true
	}
	for name := range inputs {
		if !used[name] {
			t.Errorf("scripts/action does not read %s", name)
		}
	}
	for _, name := range []string{"PATH", "RUNNER_TEMP", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "TRACE", "URL"} {
		delete(used, name)
	}
	for name := range used {
		if _, there := inputs[name]; !there {
			t.Errorf("scripts/action reads %s, which action.yml does not set", name)
		}
	}
}

// acted is what a step of the action left.
type acted struct {
	code            int
	summary, output string
}

// act runs the step as a runner would, with inputs over their defaults.
func act(t *testing.T, inputs ...string) acted {
	t.Helper()
	dir := t.TempDir()
	step := shell(t, dir, must.Have(filepath.Abs("../scripts/action"))(t))
	step.Env = append(step.Env, "GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"),
		"GITHUB_OUTPUT="+filepath.Join(dir, "output"))
	for name, value := range actionInputs(t) {
		step.Env = append(step.Env, name+"="+value)
	}
	step.Env = append(step.Env, inputs...)
	said, err := step.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%s", said)
	summary, _ := os.ReadFile(filepath.Join(dir, "summary"))
	return acted{step.ProcessState.ExitCode(), string(summary), string(readFile(t, filepath.Join(dir, "output")))}
}

// TestAction: a replay fails by its objectives, and comparisons by their gates; the summary has the tables.
func TestAction(t *testing.T) {
	t.Parallel()
	slow := startMock(t, "--ttft", "40ms")
	fast := startMock(t)
	load := steady(t, 60, 200, 4)
	root := t.TempDir()
	common := []string{"TRACE=" + load, "URL=" + slow.url, "RUNS=1",
		"ARGUMENTS=" + strings.Join(accepted, "\n") + "\n--no-probe\n--allow-warm"}
	with := func(more ...string) []string { return slices.Concat(common, more) }

	once := act(t, with("OUTPUT="+filepath.Join(root, "once", "1"), "REQUIRE=ttft.p50<10s\nttft.p50<39ms\n")...)
	expect.Equal(t, once.code, 3, once.summary)
	expect.Equal(t, once.output, "exit-code=3\n")
	expect.Contains(t, once.summary, "- ✓ ttft.p50&lt;10s", once.summary)
	expect.Contains(t, once.summary, "- ✗ ttft.p50&lt;39ms", once.summary)
	passed := act(t, with("OUTPUT="+filepath.Join(root, "passed"), "REQUIRE=ttft.p50<10s")...)
	expect.Equal(t, passed.code, 0, passed.summary)

	for name, baseline := range map[string]string{
		"turns": "BASELINE_URL=" + fast.url, "runs": "BASELINE=" + filepath.Join(root, "once"),
	} {
		got := act(t, with(baseline, "OUTPUT="+filepath.Join(root, name), "FAIL_IF=ttft.p50:+5%")...)
		expect.Equal(t, got.code, 4, "%s: one pair decides nothing: %s", name, got.summary)
		expect.Contains(t, got.summary, "| TTFT p50 |", name)
		expect.Contains(t, got.summary, "- **UNDECIDED** ttft.p50:+5%", name)
		page := must.Have(os.ReadFile(filepath.Join(root, name, "compare.html")))(t)
		expect.Equal(t, bytes.Contains(page, []byte("<html")), true, "%s: the page", name)
	}

	for _, more := range [][]string{{"FAIL_IF=ttft.p50:+5%"}, {"REQUIRE=ttft.p50<10s", "BASELINE_URL=" + fast.url}, {"REQUIRE=ttft.p50<10s", "BASELINE=" + root}} {
		got := act(t, with(append(more, "OUTPUT="+filepath.Join(root, "unasked"))...)...)
		expect.Equal(t, got.code, 2, "a gate of which nobody is asked: %q", more)
	}
	wrong := act(t, with("OUTPUT="+filepath.Join(root, "wrong"), "REQUIRE=ttft.p50<$(touch x)")...)
	expect.Equal(t, wrong.code, 2, "what no objective can be is refused, and run by no shell")
}
