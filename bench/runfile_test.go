package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestRunAgain: a run's own file makes the same requests again, and not without the headers that it masks.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	key := newFile(t, "key", "s3cr3t-key")
	first := run(t, "--trace", "samples/mooncake-small.jsonl", "--url", m.url, "--limit", "40", "--rate", "200", "--arrival", "gamma:0.5",
		"--seed", "7", "--amplify", "1.5", "--api", "chat", "--extra-inputs", "temperature:0", "--header", "X-Team: s3cr3t", "--api-key-file", key,
		"--goodput", "ttft:1000 tpot:100", "--fields", "timestamp=timestamp", "--warmup", "2", "--chat-overhead", "0,0", "--no-probe", "--model", "m")
	file := filepath.Join(first.dir, "run.json")
	expect.Lacks(t, string(readFile(t, file)), "s3cr3t", "a secret")
	expect.Contains(t, refused(t, "--config", file), "that run sent the header X-Team", "without the header")
	expect.Contains(t, refused(t, "--config", file, "--header", "X-Team: other"), "give it again with OPENAI_API_KEY and --url, or with --api-key-file", "without the key")
	again := run(t, "--config", file, "--header", "X-Team: other", "--api-key-file", key)
	want, got := first.summary.Workload.Fingerprint, again.summary.Workload.Fingerprint
	if want == "" || want != got || !strings.Contains(again.stderr, "the same requests as those of "+file) || len(again.lines) != len(first.lines) {
		t.Errorf("fingerprints %s and %s, %d and %d lines:\n%s", want, got, len(first.lines), len(again.lines), again.stderr)
	}
	other := run(t, "--config", file, "--header", "X-Team: other", "--api-key-file", key, "--seed", "8")
	if other.summary.Workload.Fingerprint == want || !strings.Contains(other.stderr, "the requests are not those of "+file) {
		t.Errorf("with another seed: %s", other.stderr)
	}
}

// TestKeysInExtraInputs: a key that is also in a body, or only there, is in no file and on no terminal, and the file
// says what it lacks.
func TestKeysInExtraInputs(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	const key, other = "s3cr3t/key+0123456789", "an0ther-key-98765"
	extra := []string{"--extra-inputs", "user:" + key, "--extra-inputs", `{"metadata":{"who":"` + strings.ReplaceAll(key, "/", `\/`) + `"},"api_key":"` + other + `"}`}
	r := startReplay(t, with(extra, "--trace", steady(t, 5, 100, 2), "--url", m.url, "--header", "X-API-KEY: "+key, "--limit", "4")...)
	first, said := r.finish(t), r.told(t)
	for _, hidden := range []string{"s3cr3t", "an0ther", "0123456789"} {
		if at := strings.Index(said, hidden); at >= 0 {
			t.Errorf("%s is in …%s…", hidden, said[max(0, at-200):at+20])
		}
	}
	file := filepath.Join(first.dir, "run.json")
	expect.Contains(t, refused(t, "--config", file, "--header", "x-api-key: "+key), "a key in --extra-inputs is masked there; give all of --extra-inputs again", "without the extra inputs")
	again := run(t, with(extra, "--config", file, "--header", "x-api-key: "+key)...)
	if want := first.summary.Workload.Fingerprint; want == "" || again.summary.Workload.Fingerprint != want {
		t.Errorf("fingerprints %s and %s", want, again.summary.Workload.Fingerprint)
	}
}

// TestDemo: in a directory without anything, it ends well, says so last, and can be made again from its results.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startInDir(t, dir, nil, "demo", "--scale", "4")
	if code := p.wait(t); code != 0 || !strings.HasPrefix(lastLine(p.stderr.String()), "DEMO OK ") {
		t.Errorf("exit %d:\n%s", code, p.stderr.String())
	}
	shown := startInDir(t, dir, nil, "report")
	if code := shown.wait(t); code != 0 || !strings.Contains(shown.stdout.String(), "700 ok   0 failed") {
		t.Errorf("report of the newest: exit %d:\n%s%s", code, shown.stdout.String(), shown.stderr.String())
	}
	runs, err := filepath.Glob(filepath.Join(dir, "results", "*", "run.json"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	again := startInDir(t, dir, nil, "--config", runs[0], "--verbose")
	if code := again.wait(t); code > 1 || !strings.Contains(again.stderr.String(), "the same requests as those of") {
		t.Errorf("again: exit %d:\n%s", code, again.stderr.String())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(runs[0]), "report.html")); err != nil {
		t.Error(err)
	}
}
