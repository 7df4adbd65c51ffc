package main

import (
	gobytes "bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// binaries are the suite and the program under test, built once by TestMain.
var binaries struct{ suite, fastreplay string }

// TestMain builds as scripts/bench.sh does.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fastreplay-suite-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries.suite, binaries.fastreplay = filepath.Join(dir, "suite"), filepath.Join(dir, "fastreplay")
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/fastreplay", "./bench/suite")
	cmd.Dir = filepath.Join("..", "..")
	code := 1
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestQuick runs every scenario in its short version. It asserts no time: each scenario measures something, or says what
// it lacks, and nothing fails.
func TestQuick(t *testing.T) {
	if os.Getenv("FASTREPLAY_SUITE") == "" {
		t.Skip("FASTREPLAY_SUITE is not set: the quick suite takes a minute or more of both cores, and is left to `scripts/bench.sh --quick`")
	}
	suite, fastreplay := binaries.suite, binaries.fastreplay
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), suite, "--fastreplay", fastreplay, "--quick", "--output", dir, "1")
	cmd.Dir = filepath.Join("..", "..")
	var table, said gobytes.Buffer
	cmd.Stdout, cmd.Stderr = &table, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, said.String(), table.String())
	}
	t.Logf("\n%s", table.String())
	report := readReport(t, dir)
	told := map[string]bool{hotpathName: true} // `go test ./...` has those tests
	for _, m := range report.Measures {
		told[m.Scenario] = true
	}
	for _, s := range report.Skipped {
		name, _, _ := strings.Cut(s, ": ")
		told[name] = true
	}
	for _, s := range allScenarios() {
		if !told[s.name] {
			t.Errorf("%s measured nothing and did not say why", s.name)
		}
	}
	for _, m := range report.Measures {
		if m.Name == "failed requests" && strings.HasPrefix(m.Who, "fastreplay") {
			t.Errorf("%s: %s: %v failed requests", m.Scenario, m.Who, m.Median)
		}
	}
}

func readReport(t *testing.T, dir string) jsonReport {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("reports: %q, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var report jsonReport
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// TestRivalsSendTheSame: the rivals' bodies and instants have the fingerprint that fastreplay prints.
func TestRivalsSendTheSame(t *testing.T) {
	fastreplay := binaries.fastreplay
	path := filepath.Join("..", "samples", "mooncake.jsonl")
	out, err := exec.Command(fastreplay, "--trace", path, "--dry-run", "--model", "mock").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w, err := openWorkload(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.fingerprint(), string(regexp.MustCompile("sha256:[0-9a-f]{64}").Find(out)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// fingerprint is as the manual defines it (help prompts): over instants and digests of method, path and body, each after its length.
func (w *workload) fingerprint() string {
	all := sha256.New()
	number := func(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	for i, body := range w.bodies {
		one := sha256.New()
		for _, part := range [][]byte{[]byte("POST"), []byte(w.path), nil, body} { // nil: what comes before the cache salt
			one.Write(number(int64(len(part))))
			one.Write(part)
		}
		all.Write(number(w.releaseNS[i]))
		all.Write(one.Sum(nil))
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil))
}

// TestRefused: behind the filter nobody gets a placement.
func TestRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("system call filters are Linux's")
	}
	suite := binaries.suite
	run := func(line ...string) (waited, error) {
		var w waited
		out, err := exec.Command(line[0], line[1:]...).Output()
		if err == nil {
			err = json.Unmarshal(out, &w)
		}
		return w, err
	}
	w, err := run(suite, refuseCommand, suite, waitCommand, "--realtime", "auto", "--duration", "10ms")
	if err != nil {
		if said, ok := err.(*exec.ExitError); ok && gobytes.Contains(said.Stderr, []byte("seccomp")) {
			t.Skipf("this system takes no filters: %s", said.Stderr)
		}
		t.Fatal(err)
	}
	if w.Placement != "default scheduling" || len(w.LateNS) != 20 || slices.Min(w.LateNS) < 0 {
		t.Errorf("got %+v, want default scheduling and 20 instants", w)
	}
	if _, err := run(suite, refuseCommand, suite, waitCommand, "--realtime", "on"); err == nil {
		t.Error("SCHED_FIFO was granted")
	}
}

// TestChunkLogs: fastreplay and both rivals send everything, and log every chunk.
func TestChunkLogs(t *testing.T) {
	l := &lab{ctx: t.Context(), self: binaries.suite, fastreplay: binaries.fastreplay, work: t.TempDir(), made: map[string]string{}, log: os.Stderr}
	path, err := l.trace("--rows", "40", "--rate", "400", "--input-tokens", "50", "--output-tokens", "5")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "chunks.csv")
	clients := map[string]func(url string) (*outcome, error){"fastreplay": func(url string) (*outcome, error) {
		return l.replay(nil, url, "--trace", path, "--chunk-log", log)
	}}
	for _, kind := range rivalKinds() {
		clients[kind] = func(url string) (*outcome, error) { return l.rival(kind, url, path, "--chunk-log", log) }
	}
	for who, client := range clients {
		m, err := l.serve(nil, "--ttft", "2ms", "--itl", "1ms", "--quirk", "stamp")
		if err != nil {
			t.Fatal(err)
		}
		o, err := client(m.url)
		if stopped := m.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			t.Fatal(err)
		}
		chunks, err := readChunks(log)
		if err != nil {
			t.Fatal(err)
		}
		e := errorsOf(chunks, o.summary.Run.MonotonicStartNS, func(c chunk) int64 { return c.readNS })
		if o.summary.Requests.OK != 40 || len(o.drifts()) != 40 || len(e.first) != 40 || len(e.gaps) != 40*4 {
			t.Errorf("%s: %d ok, %d drifts, %d first tokens, %d gaps", who, o.summary.Requests.OK, len(o.drifts()), len(e.first), len(e.gaps))
		}
		if slices.Min(o.drifts()) < 0 || slices.Min(e.first) < 0 {
			t.Errorf("%s: drift of %d ns, first token read %d ns after it was sent; neither can be negative", who, slices.Min(o.drifts()), slices.Min(e.first))
		}
	}
}

// TestList names every scenario without measuring any.
func TestList(t *testing.T) {
	var out, said gobytes.Buffer
	if err := command(context.Background(), []string{"--list"}, &out, &said); err != nil {
		t.Fatal(err)
	}
	for _, s := range allScenarios() {
		if !strings.Contains(out.String(), s.name+" ") {
			t.Errorf("%s is not listed", s.name)
		}
	}
}
