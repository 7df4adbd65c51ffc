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
type compared struct{ stdout, stderr string }

func runCompare(t *testing.T, code int, args ...string) compared {
	t.Helper()
	p := start(t, nil, append([]string{"compare"}, args...)...)
	p.ends(t, code)
	return compared{p.stdout.String(), p.stderr.String()}
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

	const gate = " --fail-if ttft.paired:+10%"
	must.Do(t, os.Mkdir(dir("empty"), 0o755))
	must.Do(t, os.CopyFS(dir("broken"), os.DirFS(dir("a"))))
	writeFile(t, filepath.Join(dir("broken"), "requests.jsonl"), "{\"row\":0,\n[]\n")
	for _, c := range []struct {
		code int
		line string
		says []string
	}{
		{4, "a again" + gate, []string{"300 requests in one pair", "? UNDECIDED   ttft.paired:+10%"}},
		{0, "a again --undecided pass" + gate, nil},
		{3, "a again --undecided fail" + gate, nil},
		{0, "a again" + gate + " -- a2 again2", []string{"300 requests in 2 and 2 runs", "✓ PASSED"}},
		{3, "a again" + gate + " -- slower slower2", []string{"FAILED   ttft.paired:+10%"}},
		{0, "a seed --anyway", []string{"300 requests without pairs"}},
		{2, "a seed", []string{"--seed"}},
		{2, "a empty", []string{"no results"}},
		{2, "a broken", []string{"requests.jsonl"}},
		{2, "a seed/run.json", []string{"give its directory"}},
		{2, "a " + root, []string{"give the directory of one"}},
		{2, "a slower --floor a", []string{"are the same run"}},
		{2, "--interleave abba a again -- " + load, []string{"the directory of a run"}},
	} {
		p := startInDir(t, root, nil, append([]string{"compare"}, strings.Fields(c.line)...)...)
		expect.Equal(t, p.wait(t), c.code, "%s: exit code:\n%s", c.line, &p.stderr)
		for _, words := range c.says {
			expect.Contains(t, p.stdout.String()+p.stderr.String(), words, c.line)
		}
		if c.code == 2 {
			expect.Equal(t, strings.Count(p.stderr.String(), "\n"), 1, "%s: lines", c.line)
		}
	}
	page := filepath.Join(root, "page.html")
	worse := runCompare(t, 4, dir("a"), dir("slower"), "--floor", dir("again"), "--json", "--html", page, "--fail-if", "ttft.paired:+10%")
	verdicts, nameA, nameB := worse.verdicts(t)
	if verdicts["ttft.paired"] != "differs" || verdicts["ttft.p50"] != "differs" || verdicts["error_rate"] != "unclear" {
		t.Errorf("a slower server: %v\n%s", verdicts, worse.stderr)
	}
	expect.Contains(t, worse.stderr, "UNDECIDED   ttft.paired:+10%")
	expect.Equal(t, [2]string{nameA, nameB}, [2]string{a.url, urlB}, "names")
	for _, words := range []string{"worse or better (one run)", "B's TTFT p50 was "} {
		expect.Contains(t, string(readFile(t, page)), words, "the page")
	}
	both := runCompare(t, 0, dir("a"), dir("again"), dir("slower"), "--json")
	expect.Equal(t, strings.Count(both.stdout, `"schema"`), 2, "comparisons in %s", both.stdout)
}

// TestCompareRecorded: the trace of a run is read again, with the flags of that run, for what it recorded of itself.
func TestCompareRecorded(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := startReplay(t, "samples/weka.jsonl", "--scale", "60", "--url", m.url)
	r.ends(t, 0)
	_, a, b := runCompare(t, 0, "recorded", r.dir, "--json").verdicts(t)
	expect.Contains(t, a, "weka.jsonl")
	expect.Equal(t, b, m.url)
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
				p.wait(t)
				if late := lateFor(p.stderr.String()); late != "" {
					return late
				}
				p.ends(t, 0, "--restart before run 2 of "+map[string]string{"abba": "4", "together": "2"}[how]+": exit code 0 after ", "it said: ready")
				c := compared{p.stdout.String(), p.stderr.String()}
				verdicts, nameA, nameB := c.verdicts(t)
				expect.Equal(t, [2]string{nameA, nameB}, [2]string{a.url, b.url}, "names")
				expect.Contains(t, c.stdout, `"requests": 40`)
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
			expect.Contains(t, string(readFile(t, filepath.Join(dir, "compare.html"))), "same or not sure", "the page lacks pictures")
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
			p.ends(t, 130, "interrupted in run "+map[string]string{"abba": "2 of 4", "together": "1 of 2"}[how])
			expect.Equal(t, readResults(t, filepath.Join(dir, "b1")).summary.Run.Partial, true, "b1 is partial")
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
		c := runCompare(t, 2, append([]string{"--interleave", args[0], "--output", dir, args[1], args[2], "--"}, args[3:]...)...)
		expect.Contains(t, lastLine(c.stderr), want, "%v", args)
		expect.Refused(os.Stat(dir))(t, "", "%v: a directory is left", args)
	}
}

// TestInterleaveRestartFails: no further run is made, what is measured stays, and the command's exit code and words are
// told. What it leaves running does not hold anything up.
func TestInterleaveRestartFails(t *testing.T) {
	t.Parallel()
	a := startMock(t)
	dir := filepath.Join(t.TempDir(), "cmp")
	line := []string{"compare", "--interleave", "abba", "--restart", "sleep 20 & echo no GPU; exit 7", "--output", dir, a.url, a.url, "--", steady(t, 10, 100, 2)}
	start(t, nil, append(line, accepted...)...).ends(t, 1, "--restart before run 2 of 6: exit code 7", "it said: no GPU")
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
