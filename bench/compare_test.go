package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// compared is what `fastreplay compare` said.
type compared struct {
	code           int
	stdout, stderr string
}

func runCompare(t *testing.T, args ...string) compared {
	t.Helper()
	p := start(t, nil, append([]string{"compare"}, args...)...)
	code := p.wait(t)
	return compared{code, p.stdout.String(), p.stderr.String()}
}

// verdicts are those of the metrics of a comparison as JSON, with A's and B's names.
func (c compared) verdicts(t *testing.T) (by map[string]string, a, b string) {
	t.Helper()
	var r struct {
		Paired  bool
		A, B    struct{ Name string }
		Metrics []struct {
			Name, Verdict string
			Change        *float64
		}
	}
	if err := json.Unmarshal([]byte(c.stdout), &r); err != nil || !r.Paired {
		t.Fatalf("%v, paired %t: %s%s", err, r.Paired, c.stdout, c.stderr)
	}
	by = map[string]string{}
	for _, m := range r.Metrics {
		by[m.Name] = m.Verdict
	}
	return by, r.A.Name, r.B.Name
}

// TestCompare: two runs against one server, one against a slower one, and one of another seed; and what is no run.
func TestCompare(t *testing.T) {
	t.Parallel()
	load := generate(t, "--rows", "300", "--rate", "200", "--input-tokens", "200:900", "--output-tokens", "4")
	root := t.TempDir()
	dir := func(name string) string { return filepath.Join(root, name) }
	one := func(name, url string, args ...string) {
		t.Helper()
		startReplayTo(t, nil, dir(name), append(args, "--trace", load, "--url", url)...).ends(t, 0)
	}
	a, urlB := startMock(t), "http://slower:1"
	one("measured", a.url)
	one("seed", a.url, "--seed", "7")
	// What a busy machine adds to a run would hide what is to be found, so the runs that are compared have made
	// latencies: 50 ms until the first token, and 3 ms more until the last one.
	made := func(name, url string, laterNS float64, jitters int64) {
		t.Helper()
		must.Do(t, os.CopyFS(dir(name), os.DirFS(dir("measured"))))
		var lines []byte
		for _, l := range readLines[map[string]any](t, requestsFile(dir("measured"))) {
			jitter := float64(int64(l["row"].(float64))*7919%13-6) * 1e5 * float64(jitters)
			for key, ns := range map[string]float64{"first_token_ns": 50e6, "first_text_ns": 50e6, "last_token_ns": 53e6, "done_ns": 53e6} {
				l[key] = l["sent_ns"].(float64) + ns + laterNS + jitter
			}
			l["request_id"] = name + "-" + l["request_id"].(string) // else it is a copy of the same run
			line, _ := json.Marshal(l)
			lines = append(append(lines, line...), '\n')
		}
		summary := map[string]json.RawMessage{}
		must.Do(t, json.Unmarshal(readFile(t, filepath.Join(dir("measured"), "summary.json")), &summary))
		delete(summary, "records") // these are others than the run wrote
		changed, _ := json.Marshal(summary)
		for file, text := range map[string][]byte{"requests.jsonl": lines, "summary.json": changed} {
			writeFile(t, filepath.Join(dir(name), file), strings.ReplaceAll(string(text), a.url, url))
		}
	}
	made("a", a.url, 0, 0)
	made("again", a.url, 0, 1)
	made("slower", urlB, 30e6, 1)
	made("slower2", urlB, 30e6, 2)
	made("a2", a.url, 0, 2)
	made("again2", a.url, 0, 1)

	gate := []string{"--fail-if", "ttft.paired:+10%"}
	if c := runCompare(t, append([]string{dir("a"), dir("again")}, gate...)...); c.code != 4 || !strings.Contains(c.stdout, "300 requests in one pair") || !strings.Contains(c.stderr, "? UNDECIDED   ttft.paired:+10%") {
		t.Errorf("the same server: exit %d\n%s%s", c.code, c.stdout, c.stderr)
	}
	for how, code := range map[string]int{"pass": 0, "fail": 3} {
		if c := runCompare(t, append([]string{dir("a"), dir("again"), "--undecided", how}, gate...)...); c.code != code {
			t.Errorf("undecided counts as %s: exit %d", how, c.code)
		}
	}
	if c := runCompare(t, append([]string{dir("a"), dir("again"), "--", dir("a2"), dir("again2")}, gate...)...); c.code != 0 || !strings.Contains(c.stdout, "300 requests in 2 and 2 runs") || !strings.Contains(c.stderr, "✓ PASSED") {
		t.Errorf("two runs a side: exit %d\n%s%s", c.code, c.stdout, c.stderr)
	}
	if c := runCompare(t, append([]string{dir("a"), dir("again"), "--", dir("slower"), dir("slower2")}, gate...)...); c.code != 3 || !strings.Contains(c.stderr, "FAILED   ttft.paired:+10%") {
		t.Errorf("two runs a side, one slower: exit %d\n%s%s", c.code, c.stdout, c.stderr)
	}
	page := filepath.Join(root, "page.html")
	worse := runCompare(t, append([]string{dir("a"), dir("slower"), "--floor", dir("again"), "--json", "--html", page}, gate...)...)
	verdicts, nameA, nameB := worse.verdicts(t)
	if worse.code != 4 || verdicts["ttft.paired"] != "differs" || verdicts["ttft.p50"] != "differs" || verdicts["error_rate"] != "unclear" || !strings.Contains(worse.stderr, "UNDECIDED   ttft.paired:+10%") {
		t.Errorf("a slower server: exit %d, %v\n%s", worse.code, verdicts, worse.stderr)
	}
	if nameA != a.url || nameB != urlB {
		t.Errorf("named %s and %s", nameA, nameB)
	}
	if text := string(readFile(t, page)); !strings.Contains(text, "noise floor") || !strings.Contains(text, "B's TTFT p50 is ") {
		t.Error("the page lacks pictures or sentences")
	}
	if both := runCompare(t, dir("a"), dir("again"), dir("slower"), "--json"); both.code != 0 || strings.Count(both.stdout, `"schema"`) != 2 {
		t.Errorf("two comparisons: exit %d\n%s", both.code, both.stdout)
	}
	if c := runCompare(t, dir("a"), dir("seed"), "--anyway"); c.code != 0 || !strings.Contains(c.stdout, "300 requests without pairs") {
		t.Errorf("another seed, anyway: exit %d\n%s%s", c.code, c.stdout, c.stderr)
	}

	empty, broken := dir("empty"), dir("broken")
	must.Do(t, os.Mkdir(empty, 0o755))
	must.Do(t, os.CopyFS(broken, os.DirFS(dir("a"))))
	writeFile(t, filepath.Join(broken, "requests.jsonl"), "{\"row\":0,\n[]\n")
	for want, args := range map[string][]string{
		"--seed": {dir("a"), dir("seed")}, "no results": {dir("a"), empty}, "requests.jsonl": {dir("a"), broken},
		"give its directory":        {dir("a"), filepath.Join(dir("seed"), "run.json")},
		"give the directory of one": {dir("a"), root},
		"are the same run":          {dir("a"), dir("slower"), "--floor", dir("a")},
		"the directory of a run":    {"--interleave", "abba", dir("a"), dir("again"), "--", load},
	} {
		c := runCompare(t, args...)
		if c.code != 2 || !strings.Contains(c.stderr, want) || strings.Count(c.stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, no %q in\n%s", args, c.code, want, c.stderr)
		}
	}
}

// TestCompareRecorded: the trace of a run is read again, with the flags of that run, for what it recorded of itself.
func TestCompareRecorded(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := startReplay(t, "samples/weka.jsonl", "--scale", "60", "--url", m.url)
	r.ends(t, 0)
	c := runCompare(t, "recorded", r.dir, "--json")
	if _, a, b := c.verdicts(t); c.code != 0 || !strings.Contains(a, "weka.jsonl") || b != m.url {
		t.Errorf("exit %d, %s and %s\n%s", c.code, a, b, c.stderr)
	}
}

// interleaved is a comparison that makes its runs itself, of 40 requests in 0.4 s.
func interleaved(t *testing.T, dir, how, a, b string, args ...string) *process {
	t.Helper()
	load := steady(t, 40, 100, 4)
	return start(t, nil, append(append([]string{"compare", "--interleave", how, "--runs", "2", "--restart", "echo ready", "--output", dir, "--json", a, b, "--", load, "--no-probe", "--cold", "salt"}, accepted...), args...)...)
}

// TestInterleave: runs in their order, or at the same instants, and then both of each side compared.
func TestInterleave(t *testing.T) {
	for _, how := range []string{"abba", "together"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			a, b := startMock(t, "--ttft", "20ms"), startMock(t, "--ttft", "1s")
			var dir string
			quickEnough(t, func() string {
				dir = filepath.Join(t.TempDir(), "cmp")
				p := interleaved(t, dir, how, a.url, b.url)
				c := compared{p.wait(t), p.stdout.String(), p.stderr.String()}
				if late := lateFor(c.stderr); late != "" {
					return late
				}
				verdicts, nameA, nameB := c.verdicts(t)
				if c.code != 0 || nameA != a.url || nameB != b.url || !strings.Contains(c.stdout, `"requests": 40`) || !strings.Contains(c.stderr, "--restart before run 2 of "+map[string]string{"abba": "4", "together": "2"}[how]+": exit code 0 after ") || !strings.Contains(c.stderr, "it said: ready") {
					t.Errorf("exit %d, %s and %s\n%s", c.code, nameA, nameB, c.stderr)
				}
				if found := verdicts["ttft.p50"]; found != "worse" {
					return "between 20 ms and 1 s the answer is: " + found
				}
				return ""
			})
			began, sent := map[string]int64{}, map[string]string{}
			for _, name := range []string{"a1", "b1", "b2", "a2"} {
				res := readResults(t, filepath.Join(dir, name))
				began[name] = res.summary.Run.MonotonicStartNS
				sent[name] = res.summary.Workload.Fingerprint
				expect.Equal(t, len(res.lines), 40, "%s lines", name)
			}
			if how == "abba" && !(began["a1"] < began["b1"] && began["b1"] < began["b2"] && began["b2"] < began["a2"]) {
				t.Errorf("they began at %v", began)
			}
			for _, round := range [][2]string{{"a1", "b1"}, {"a2", "b2"}} { // at one moment, which each finds by its own readings of two clocks
				if apart := began[round[0]] - began[round[1]]; how == "together" && max(apart, -apart) > 1e9 {
					t.Errorf("%v began %d ns apart", round, apart)
				}
			}
			if sent["a1"] != sent["b1"] || sent["a2"] != sent["b2"] || sent["a1"] == sent["a2"] {
				t.Errorf("each pair has its own words: %v", sent)
			}
			expect.Contains(t, string(readFile(t, filepath.Join(dir, "compare.html"))), "noise floor", "the page lacks pictures")
		})
	}
}

// TestInterleaveInterrupted: an interrupt ends the run that is on, and no other begins. What is done stays, and no
// process.
func TestInterleaveInterrupted(t *testing.T) {
	for _, how := range []string{"abba", "together"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			a, b := startMock(t, "--ttft", "20ms"), startMock(t, "--fault", "stall:1")
			var p *process
			var dir string
			quickEnough(t, func() string {
				dir = filepath.Join(t.TempDir(), "cmp")
				p = interleaved(t, dir, how, a.url, b.url, "--grace", "50ms")
				until(t, "b has requests", func() bool { return b.running() >= 5 || p.ended() })
				_ = p.Process.Signal(os.Interrupt)
				p.wait(t)
				return lateFor(p.stderr.String())
			})
			code := p.wait(t)
			if want := "interrupted in run " + map[string]string{"abba": "2 of 4", "together": "1 of 2"}[how]; code != 130 || !strings.Contains(p.stderr.String(), want) {
				t.Errorf("exit %d, want 130 and %q:\n%s", code, want, p.stderr.String())
			}
			if res := readResults(t, filepath.Join(dir, "b1")); !res.summary.Run.Partial {
				t.Error("b1 is not marked partial")
			}
			for _, name := range []string{"a2", "b2"} {
				expect.Refused(os.Stat(filepath.Join(dir, name)))(t, "", "%s was begun", name)
			}
		})
	}
}

// TestInterleaveRefused: what a run refuses ends all, with its own message.
func TestInterleaveRefused(t *testing.T) {
	t.Parallel()
	a := startMock(t)
	load := steady(t, 10, 100, 2)
	for want, args := range map[string][]string{
		"b1: --tokenizer":      {"abba", a.url, a.url, load, "--model", "none", "--prompt", "text", "--tokenizer", "/no/such/file"},
		"b1: probe: ":          {"together", a.url, "127.0.0.1:1", load}, // before anything is sent, so nothing is left
		"127.0.0.1:1 does not": {"abba", a.url, "127.0.0.1:1", load},
	} {
		dir := filepath.Join(t.TempDir(), "cmp")
		c := runCompare(t, append([]string{"--interleave", args[0], "--output", dir, args[1], args[2], "--"}, args[3:]...)...)
		if lines := strings.Split(strings.TrimSpace(c.stderr), "\n"); c.code != 2 || !strings.Contains(lines[len(lines)-1], want) {
			t.Errorf("%v: exit %d, no %q in the end of\n%s", args, c.code, want, c.stderr)
		}
		expect.Refused(os.Stat(dir))(t, "", "%v: a directory is left", args)
	}
}

// TestInterleaveRestartFails: no further run is made, what is measured stays, and the command's exit code and words are
// told. What it leaves running does not hold anything up.
func TestInterleaveRestartFails(t *testing.T) {
	t.Parallel()
	a := startMock(t)
	dir := filepath.Join(t.TempDir(), "cmp")
	c := runCompare(t, append([]string{"--interleave", "abba", "--restart", "sleep 20 & echo no GPU; exit 7", "--output", dir, a.url, a.url, "--", steady(t, 10, 100, 2)}, accepted...)...)
	if c.code != 1 || !strings.Contains(c.stderr, "--restart before run 2 of 6: exit code 7") || !strings.Contains(c.stderr, "it said: no GPU") {
		t.Errorf("exit %d\n%s", c.code, c.stderr)
	}
	for name, stays := range map[string]bool{"a1": true, "b1": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStartAt: a run begins at the moment that was given, and one that comes too late sends nothing.
func TestStartAt(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	load := steady(t, 5, 100, 2)
	slow := startMock(t, "--ttft", "600ms")        // until its probe is answered no run is ready
	soon := time.Now().Add(400 * time.Millisecond) // it may be over when it is read
	if said := refused(t, "--trace", load, "--url", slow.url, "--start-at", soon.Format(time.RFC3339Nano)); !strings.Contains(said, " too late for its start at ") && !strings.Contains(said, "want a moment to come") {
		t.Error(said)
	}
	ahead := time.Second
	quickEnough(t, func() string {
		ahead *= 4 // a busy machine needs longer until it is ready
		at := time.Now().Add(ahead).UTC()
		res := run(t, "--trace", load, "--url", m.url, "--start-at", at.Format(time.RFC3339Nano), "--sender", "thread")
		if late := lateFor(res.stderr); late != "" {
			return late
		}
		if began := res.summary.Run.StartedAt; res.code != 0 || began.Sub(at).Abs() > time.Second || res.summary.Run.Options["start-at"] != nil {
			t.Errorf("exit %d, began at %v, want %v", res.code, began, at)
		}
		return ""
	})
}
