package bench

// The end-to-end proofs run the built binary as a user would, against `fastreplay mock` in a process of its own. They
// compare what the run wrote with what the server logged. They assert no absolute times: a busy machine may make a run
// late, never wrong. What needs a quiet machine is logged. With -race the binary is built with the race detector too.

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// patience bounds everything that must happen some time.
const patience = 2 * time.Minute

// binary is the program under test, built once by TestMain.
var binary string

// atOnce is how many tests run beside each other: they wait for their processes most of the time. With the race
// detector processes compute more, and in a long sweep nothing waits for long.
func atOnce() string {
	if raceFlag() != nil || os.Getenv(sweepLong) != "" {
		return "4"
	}
	return "8"
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if raceFlag() == nil && leftOut("") {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "fastreplay-proof-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	touchSources()
	binary = filepath.Join(dir, "fastreplay")
	build := exec.Command("go", append([]string{"build", "-o", binary}, append(raceFlag(), "../cmd/fastreplay")...)...)
	code := 1
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building fastreplay: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// touchSources reads what the binary is built from, so that `go test` knows on what a cached result depends.
func touchSources() {
	for _, part := range []string{"../cmd", "../engine", "../codec", "../sched", "mockllm"} {
		_ = filepath.WalkDir(part, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, "_test.go") {
				_, _ = os.ReadFile(path)
			}
			return nil
		})
	}
}

// raced are the proofs that -short keeps if the race detector is on: each kind of sender, reader, schedule, fault,
// server and end of a run. Others start the same goroutines with other options.
var raced = []string{
	"TestBackends", "TestCap", "TestEmbeddedMock", "TestExactAnswers", "TestFaults", "TestInstancesBehindAGateway",
	"TestInterruptClosedLoop", "TestKernelTimestamps", "TestLiveHistory", "TestNoRequestBeforeWhatItDependsOn",
	"TestReaderLeaves", "TestScrape", "TestSenderDies", "TestServerStalls", "TestTargetDies",
	"TestTargetsFile", "TestTerminalInterrupt", "TestWarmUp",
}

// TestRaced: each name in the list is a test of this package.
func TestRaced(t *testing.T) {
	files := must.Have(filepath.Glob("*_test.go"))(t)
	var all strings.Builder
	for _, file := range files {
		all.Write(readFile(t, file))
	}
	for _, name := range raced {
		expect.Contains(t, all.String(), "\nfunc "+name+"(t *testing.T)", "there is no %s", name)
	}
}

// leftOut reports whether a test may start no process: under -short, unless -run names tests or the race detector keeps
// it.
func leftOut(name string) bool {
	name, _, _ = strings.Cut(name, "/")
	return testing.Short() && flag.Lookup("test.run").Value.String() == "" && (raceFlag() == nil || !slices.Contains(raced, name))
}

func raceFlag() []string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return []string{"-race"}
		}
	}
	return nil
}

// process is a started program with what it has said so far.
type process struct {
	*exec.Cmd
	stdout, stderr output
	gone           chan struct{}
}

// output is a buffer that one goroutine fills while another one reads.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the binary behind a prefix such as `ip netns exec NAME`.
func start(t testing.TB, prefix []string, args ...string) *process {
	t.Helper()
	return startInDir(t, "", prefix, args...)
}

// startInDir is start in a directory; "" = this test's own.
func startInDir(t testing.TB, dir string, prefix []string, args ...string) *process {
	t.Helper()
	if leftOut(t.Name()) {
		t.Skip("-short starts no process")
	}
	line := append(append(append([]string(nil), prefix...), binary), args...)
	p := &process{Cmd: exec.Command(line[0], line[1:]...), gone: make(chan struct{})}
	p.Dir = dir
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.Env = append(os.Environ(), "OPENAI_API_KEY=", "GORACE=atexit_sleep_ms=0")
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell starts a job
	stdin := must.Have(p.StdinPipe())(t)
	must.Do(t, p.Start())
	go func() { _ = p.Wait(); close(p.gone) }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.gone
		_ = stdin.Close()
	})
	return p
}

// ends waits for the end. It fails unless the exit code is this one and standard error has these words.
func (p *process) ends(t testing.TB, code int, words ...string) {
	t.Helper()
	must.Equal(t, p.wait(t), code, "%v: exit code:\n%s", p.Args, &p.stderr)
	for _, w := range words {
		expect.Contains(t, p.stderr.String(), w, "%v", p.Args)
	}
}

// interrupt ends what runs until it is interrupted.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	p.signal(t, os.Interrupt)
	p.ends(t, 0)
}

// succeeds runs a command that must succeed, and returns its standard output.
func succeeds(t testing.TB, args ...string) string {
	t.Helper()
	p := start(t, nil, args...)
	p.ends(t, 0)
	return p.stdout.String()
}

// untilSaid waits until standard error has these words.
func (p *process) untilSaid(t testing.TB, words string) {
	t.Helper()
	until(t, "it said "+words, func() bool { return strings.Contains(p.stderr.String(), words) })
}

// listening waits until a server listens, and returns its URL.
func (p *process) listening(t testing.TB) (url string) {
	t.Helper()
	until(t, "a server listens", func() bool {
		if p.ended() {
			t.Fatalf("%v ended:\n%s", p.Args, &p.stderr)
		}
		line, _, whole := strings.Cut(p.stdout.String(), "\n")
		url = strings.TrimPrefix(line, "listening on ")
		return whole
	})
	return url
}

// ended reports whether the process is over.
func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// signal sends a signal; a process that has ended already is a failure.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	must.Do(t, p.Process.Signal(s), "%v:\n%s", s, p.stderr.String())
}

// wait returns the exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Fatalf("%v still runs after %v; it said:\n%s", p.Args, patience, p.stderr.String())
	}
	if strings.Contains(p.stderr.String(), "DATA RACE") || strings.Contains(p.stderr.String(), "panic:") {
		t.Fatalf("%v:\n%s", p.Args, p.stderr.String())
	}
	return p.ProcessState.ExitCode()
}

// until waits for something that another process brings about.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// quickEnough calls try until this machine was quick enough for it, three times at most, and then skips the test. try
// returns why the machine was too slow; "" = it was not, and try has judged the rest.
func quickEnough(t *testing.T, try func() (tooSlow string)) {
	t.Helper()
	var tooSlow string
	for range 3 {
		if tooSlow = try(); tooSlow == "" {
			return
		}
		t.Logf("this machine was too slow: %s", tooSlow)
	}
	if quietMachine() { // then it is no excuse
		t.Fatal("this machine has nothing else to do, and still: ", tooSlow)
	}
	t.Skip("this machine is too slow: ", tooSlow)
}

// quietMachine reports whether on average less than one thread was ready to run in the last minute; false if unknown.
func quietMachine() bool {
	text, err := os.ReadFile("/proc/loadavg")
	var load float64
	_, unread := fmt.Sscan(string(text), &load)
	return err == nil && unread == nil && load < 1
}

// lateFor is what a process said if it was not ready for its start and was therefore refused; "" = it was ready.
func lateFor(said string) string {
	for line := range strings.Lines(said) {
		if strings.Contains(line, " too late for its start at ") || strings.Contains(line, " after the agreed start at ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// mockServer is a running `fastreplay mock`.
type mockServer struct {
	*process
	url string
	log string // file
}

// startMock starts a fast mock on a free port; args come last and win.
func startMock(t testing.TB, args ...string) *mockServer {
	t.Helper()
	return startMockIn(t, nil, filepath.Join(t.TempDir(), "mock.jsonl"), args...)
}

func startMockIn(t testing.TB, prefix []string, log string, args ...string) *mockServer {
	t.Helper()
	base := []string{"mock", "--log", log, "--ttft", "4ms", "--itl", "1ms", "--die-with-parent"}
	m := &mockServer{process: start(t, prefix, append(base, args...)...), log: log}
	m.url = m.listening(t)
	return m
}

// shell is a command in a directory where fastreplay is on the path.
func shell(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	if leftOut(t.Name()) {
		t.Skip("-short starts no process")
	}
	home := t.TempDir()
	must.Do(t, os.Symlink(binary, filepath.Join(home, "fastreplay")))
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+home+":"+os.Getenv("PATH"))
	return c
}

// startMocks starts so many mocks, and returns the flags that replay against all of them, too.
func startMocks(t testing.TB, n int, args ...string) (all []*mockServer, flags []string) {
	t.Helper()
	for range n {
		m := startMock(t, args...)
		all = append(all, m)
		flags = append(flags, "--url", m.url)
	}
	return all, flags
}

// stop ends the mock and returns its log.
func (m *mockServer) stop(t *testing.T) map[string][]served {
	t.Helper()
	m.interrupt(t)
	return readLog(t, m.log)
}

// untilRunning waits until the mock works on at least n requests at once.
func (m *mockServer) untilRunning(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d requests run", n), func() bool { return m.running() >= n })
}

// running is how many requests the mock works on; 0 if it does not say.
func (m *mockServer) running() (n int) {
	resp, err := http.Get(m.url + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	_, after, _ := strings.Cut(string(text), "\nvllm:num_requests_running{")
	_, value, _ := strings.Cut(after, "} ")
	_, _ = fmt.Sscan(value, &n)
	return n
}

// replay is one invocation of the main command.
type replay struct {
	*process
	dir string
}

// startReplay replays with limits that a busy machine cannot break; args come last and win.
func startReplay(t *testing.T, args ...string) *replay {
	t.Helper()
	return startReplayIn(t, nil, args...)
}

// startReplayIn is startReplay behind a prefix of the command line.
func startReplayIn(t *testing.T, prefix []string, args ...string) *replay {
	t.Helper()
	return startReplayTo(t, prefix, filepath.Join(t.TempDir(), "results"), args...)
}

// startReplayTo is startReplayIn with a directory for the results.
func startReplayTo(t *testing.T, prefix []string, dir string, args ...string) *replay {
	t.Helper()
	line := slices.Concat([]string{"--output", dir, "--full", "--verbose", "--connect-timeout", "2m"}, accepted, args)
	return &replay{start(t, prefix, line...), dir}
}

// accepted makes a busy machine's lateness no reason to refuse a run.
var accepted = []string{"--max-drift", "1h", "--max-receive-lag", "1h"}

// finish waits for the end and reads the results.
func (r *replay) finish(t *testing.T) *results {
	t.Helper()
	code := r.wait(t)
	res := readResults(t, r.dir)
	res.code, res.stdout, res.stderr = code, r.stdout.String(), r.stderr.String()
	if t.Failed() {
		t.Logf("exit %d\n%s", code, res.stderr)
	}
	return res
}

// run replays to the end.
func run(t *testing.T, args ...string) *results {
	t.Helper()
	return startReplay(t, args...).finish(t)
}

// refused replays what must be refused before anything is sent, and returns what was said.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	r := startReplay(t, args...)
	r.isRefused(t, "fastreplay: ")
	return r.stderr.String()
}

// isRefused fails unless a replay is refused in these words, and writes nothing.
func (r *replay) isRefused(t *testing.T, words ...string) {
	t.Helper()
	r.ends(t, 2, words...)
	if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("results were written (%v)", err)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// generate makes a trace with `fastreplay gen`.
func generate(t testing.TB, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	succeeds(t, append([]string{"gen", "--output", path}, args...)...)
	return path
}

// steady is a small open load: rows requests, rate a second, each with a prompt of its own.
func steady(t testing.TB, rows, rate, output int) string {
	t.Helper()
	return generate(t, "--rows", fmt.Sprint(rows), "--rate", fmt.Sprint(rate), "--arrival", "constant",
		"--input-tokens", "200:700", "--output-tokens", fmt.Sprint(output))
}

// newServer runs a server of net/http, for what the mock cannot do.
func newServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// serve is the URL of a new server.
func serve(t *testing.T, handler http.HandlerFunc) string { return newServer(t, handler).URL }

// writeFile writes a file that a test needs.
func writeFile[T string | []byte](t testing.TB, path string, text T) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// newFile writes a file of that name into a directory of its own.
func newFile[T string | []byte](t testing.TB, name string, text T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	writeFile(t, path, text)
	return path
}

// readFile reads a file that must be there.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	return must.Have(os.ReadFile(path))(t)
}

// unwrapped is a text without the line breaks of a screen.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }
