package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/sched"
)

// binaries are the suite and the program under test, built once by TestMain.
var binaries struct{ suite, fastreplay string }

// TestMain builds as scripts/bench.sh does.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // starts no process
		os.Exit(m.Run())
	}
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

// long skips what starts processes.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("-short starts no process")
	}
}

// TestQuick runs every scenario in its short version, with two binaries that are the same. It asserts no time: each
// scenario measures something, or prints what it lacks, and nothing fails.
func TestQuick(t *testing.T) {
	if os.Getenv("FASTREPLAY_SUITE") == "" {
		t.Skip("FASTREPLAY_SUITE is not set: the quick suite takes a minute or more of both cores, and is left to `scripts/bench.sh --quick`")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binaries.suite, "--fastreplay", binaries.fastreplay, "--fastreplay", binaries.fastreplay, "--quick", "--output", dir, "1")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	must.Do(t, err, out)
	t.Logf("\n%s", out)
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %q, %v; want one for each binary", files, err)
	}
	for _, file := range files {
		text := must.Have(os.ReadFile(file))(t)
		for _, s := range allScenarios() {
			if !strings.Contains(string(text), "\nBenchmarkSuite/"+s.name+"/") && !strings.Contains(string(text), "# not measured: "+s.name+": ") {
				t.Errorf("%s: %s measured nothing and did not say why", file, s.name)
			}
		}
		if regexp.MustCompile(`(?m)^BenchmarkSuite/.*/fastreplay.* failed`).Match(text) {
			t.Errorf("%s: requests of fastreplay failed", file)
		}
	}
}

// TestRivalSendsTheSame: the rival's bodies and instants have the fingerprint that fastreplay prints.
func TestRivalSendsTheSame(t *testing.T) {
	long(t)
	path := filepath.Join("..", "samples", "mooncake.jsonl")
	out, err := exec.Command(binaries.fastreplay, "--trace", path, "--dry-run", "--model", "mock").CombinedOutput()
	must.Do(t, err, out)
	w := must.Have(openWorkload(path, true))(t)
	expect.Equal(t, w.fingerprint(), string(regexp.MustCompile("sha256:[0-9a-f]{64}").Find(out)))
}

// fingerprint is as the manual defines it (help prompts): over instants and digests of method, path and body, each
// after its length.
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

// TestWaiter: the floor's waiter is never early.
func TestWaiter(t *testing.T) {
	long(t)
	out, err := exec.Command(binaries.suite, waitCommand, "--realtime", "auto", "--duration", "10ms").Output()
	var late []int64
	if err == nil {
		err = json.Unmarshal(out, &late)
	}
	if err != nil || len(late) != 20 || slices.Min(late) < 0 {
		t.Errorf("got %v, %v; want 20 instants", late, err)
	}
}

// TestChunkLogs: fastreplay and the rival send everything, and log every chunk.
func TestChunkLogs(t *testing.T) {
	long(t)
	l := &lab{ctx: t.Context(), self: binaries.suite, fastreplay: binaries.fastreplay, work: t.TempDir(), made: map[string]string{}, log: os.Stderr}
	path := must.Have(l.trace(40, 400, 50, 5))(t)
	log := filepath.Join(t.TempDir(), "chunks.csv")
	clients := map[string]func(url string) (*outcome, error){"fastreplay": func(url string) (*outcome, error) {
		return l.replay(nil, url, "--trace", path, "--chunk-log", log)
	}}
	clients["the rival"] = func(url string) (*outcome, error) { return l.rival(url, path, "--chunk-log", log) }
	for who, client := range clients {
		m := must.Have((&round{lab: l}).serve("--ttft", "2ms", "--itl", "1ms", "--quirk", "stamp"))(t)
		o, err := client(m.url)
		if stopped := m.stop(); err == nil {
			err = stopped
		}
		must.Do(t, err)
		f := must.Have(os.Open(log))(t)
		chunks, err := readChunks(f)
		_ = f.Close()
		must.Do(t, err)
		first, gaps := errorsOf(chunks, o.Run.MonotonicStartNS, func(c chunk) int64 { return c.readNS })
		if o.Requests.OK != 40 || len(o.drifts()) != 40 || len(first) != 40 || len(gaps) != 40*4 {
			t.Errorf("%s: %d ok, %d drifts, %d first tokens, %d gaps", who, o.Requests.OK, len(o.drifts()), len(first), len(gaps))
		}
		if slices.Min(o.drifts()) < 0 || slices.Min(first) < 0 {
			t.Errorf("%s: drift of %d ns, first token read %d ns after it was sent; neither can be negative", who, slices.Min(o.drifts()), slices.Min(first))
		}
	}
}

func TestParseWrk(t *testing.T) {
	const report = `Running 3s test @ http://127.0.0.1:1
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms    2.03ms  40.11ms   95.00%
  97671 requests in 3.00s, 12.11MB read
  Socket errors: connect 0, read 1, write 20, timeout 300
  Non-2xx or 3xx responses: 4000
Requests/sec:  32517.25
Transfer/sec:      4.03MB
`
	if perS, failed, err := parseWrk(report); err != nil || perS != 32517.25 || failed != 4321 {
		t.Errorf("got %v, %d, %v", perS, failed, err)
	}
	if _, _, err := parseWrk("unable to connect to 127.0.0.1:1 Connection refused\n"); err == nil {
		t.Error("no error where there is no rate")
	}
}

func TestParseBenchmarks(t *testing.T) {
	got := parseBenchmarks(`goos: linux
BenchmarkNext/whole         	     100	      1234 ns/op	 567.89 MB/s	  15800000 events/s	       0 B/op
BenchmarkRead 	   3	 1000 ns/op	 283 MB/s
PASS
`)
	want := []lineOf{
		{goName, "Next/whole", []measure{{"ns/op", 1234}, {"MB/s", 567.89}, {"events/s", 15.8e6}, {"B/op", 0}}},
		{goName, "Read", []measure{{"ns/op", 1000}, {"MB/s", 283}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestBursts: the last of a burst is the one that was sent last, whatever its place in the file.
func TestBursts(t *testing.T) {
	lines := []record.Record{
		{PlannedNS: 100, SentNS: 160, WrittenNS: 165},
		{PlannedNS: 100, SentNS: 105, WrittenNS: 130},
		{PlannedNS: 100, SentNS: 130, WrittenNS: 155},
		{PlannedNS: 900, SentNS: 900, WrittenNS: 910},
	}
	ratios, err := burstsOf(lines)
	if err != nil || !slices.Equal(ratios, []float64{60.0 / 50}) {
		t.Errorf("got %v, %v", ratios, err)
	}
	lines[2].WrittenNS = record.None
	expect.Refused(burstsOf(lines))(t, "", "no error where a request was not written")
}

func TestLiveStreams(t *testing.T) {
	lines := []record.Record{
		{SentNS: 0, LastTokenNS: 10}, {SentNS: 5, LastTokenNS: 15}, {SentNS: 10, LastTokenNS: 20}, {SentNS: 1, LastTokenNS: record.None},
		{SentNS: 12, LastTokenNS: 13},
	}
	expect.Equal(t, liveStreams(lines), 3)
}

// TestErrorsOf: the client counts from its start, the server by the machine's clock.
func TestErrorsOf(t *testing.T) {
	chunks := must.Have(readChunks(strings.NewReader(chunkHead + "\n" +
		"7,0,100,130,1080\n7,1,150,160,1142\n7,2,200,260,1199\n3,0,300,310,1290\n")))(t)
	for _, c := range []struct {
		instant     func(chunk) int64
		first, gaps []int64
	}{
		{func(c chunk) int64 { return c.instantNS }, []int64{10, 20}, []int64{7, 12}},
		{func(c chunk) int64 { return c.readNS }, []int64{20, 50}, []int64{32, 43}},
	} {
		if first, gaps := errorsOf(chunks, 1000, c.instant); !slices.Equal(first, c.first) || !slices.Equal(gaps, c.gaps) {
			t.Errorf("got %v and %v, want %v and %v", first, gaps, c.first, c.gaps)
		}
	}
}

func TestParseChunksRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":             "",
		"another head":        "row,chunk\n",
		"a chunk not stamped": chunkHead + "\n1,0,2,3,\n",
		"too few cells":       chunkHead + "\n1,0,2,3\n",
		"no first chunk":      chunkHead + "\n1,1,2,3,4\n",
		"a gap":               chunkHead + "\n1,0,2,3,4\n1,2,2,3,4\n",
		"mixed rows":          chunkHead + "\n1,0,2,3,4\n2,1,2,3,4\n",
	} {
		expect.Refused(readChunks(strings.NewReader(text)))(t, "", "%s: and no error", what)
	}
}

// TestReadStream: token chunks count, the usage and the end do not; each has the server's stamp beside the reader's.
func TestReadStream(t *testing.T) {
	var stream strings.Builder
	for i := range 3 {
		fmt.Fprintf(&stream, `data: {"id":"x","choices":[{"index":0,"text":" a"}],"sent_ns":%d}`+"\n\n", 1_000_000*(i+1))
	}
	stream.WriteString(`data: {"choices":[],"usage":{"completion_tokens":3}}` + "\n\ndata: [DONE]\n\n")
	var l line
	must.Do(t, readStream(strings.NewReader(stream.String()), &l, sched.NewMonotonic()))
	if l.Chunks != 3 || len(l.stamped) != 3 || l.LastTokenNS != l.stamped[2].instantNS {
		t.Fatalf("got %+v", l)
	}
	for i, c := range l.stamped {
		if c.number != int64(i) || c.sentNS != 1_000_000*int64(i+1) || c.readNS != c.instantNS || i > 0 && c.instantNS < l.stamped[i-1].instantNS {
			t.Errorf("chunk %d is %+v", i, c)
		}
	}
}

// TestPercentile: against the definition, the smallest value with at least the share q of all at or below it.
func TestPercentile(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		values := make([]int64, 1+chance.IntN(40))
		for i := range values {
			values[i] = int64(chance.IntN(20))
		}
		slices.Sort(values)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			want := math.NaN()
			for _, v := range values {
				below := 0
				for _, w := range values {
					if w <= v {
						below++
					}
				}
				if float64(below) >= q*float64(len(values)) {
					want = float64(v)
					break
				}
			}
			must.Equal(t, percentile(values, q), want, "percentile(%v, %v)", values, q)
		}
	}
	if got := percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("percentile of nothing: %v, want NaN", got)
	}
}

// TestJudge: a bar is judged by the median of runs, a ratio within the runs that have both; lines are as benchstat
// reads them.
func TestJudge(t *testing.T) {
	var out strings.Builder
	r := &results{}
	must.Do(t, r.open(&out, "", ""))
	ours, other := key{"s/x", "fast replay", "drift-p50-ns"}, key{"s/x", "rival", "drift-p50-ns"}
	for run, v := range []float64{1000, 4000, 2000} {
		lines := []lineOf{{"s/x", ours.who, []measure{{ours.measure, v}, {"b", 1}}}}
		if run != 1 {
			lines = append(lines, lineOf{"s/x", other.who, []measure{{other.measure, float64(100_000 * (run + 1))}}})
		}
		r.add(lines)
	}
	for i, c := range []struct {
		bar
		runs int
		met  bool
	}{
		{bar{of: ours, limit: 2000}, 3, true},
		{bar{of: ours, limit: 1999}, 3, false},
		{bar{of: other, by: ours, limit: 125, atLeast: true}, 2, true}, // 100 and 150
		{bar{of: other, by: ours, limit: 126, atLeast: true}, 2, false},
		{bar{of: key{"s/x", "nobody", "x"}, limit: 1}, 0, false},
		{bar{of: other, by: key{"s/x", "nobody", "x"}, limit: 1}, 0, false},
	} {
		if values, met := r.judge(c.bar); len(values) != c.runs || met != c.met {
			t.Errorf("bar %d: %v, met %t", i, values, met)
		}
	}
	r.skip("s: no wrk")
	r.skip("s: no wrk") // once is enough
	r.printBars([]bar{{of: ours, limit: 1500}, {of: other, by: ours, limit: 50, atLeast: true}, {of: key{"s/x", "x", "y"}, limit: 3}, {of: key{"did not run", "x", "y"}}})
	_, lines, _ := strings.Cut(out.String(), "BenchmarkSuite")
	want := `/s/x/fast_replay 1 1000 drift-p50-ns 1 b
BenchmarkSuite/s/x/rival 1 100000 drift-p50-ns
BenchmarkSuite/s/x/fast_replay 1 4000 drift-p50-ns 1 b
BenchmarkSuite/s/x/fast_replay 1 2000 drift-p50-ns 1 b
BenchmarkSuite/s/x/rival 1 300000 drift-p50-ns
# not measured: s: no wrk
# bar no  s/x, fast replay: drift-p50-ns is 2µs (1µs to 4µs), bar <= 1.5µs
# bar yes s/x, rival: drift-p50-ns is 125 (100 to 150), bar >= 50 × that of fast replay
# bar ?   s/x, x: y is not measured (not measured to not measured), bar <= 3
`
	expect.Equal(t, lines, want)
}

// TestBarsNameWhatIsMeasured: each bar belongs to a scenario, and those of Go benchmarks to one that the repository
// has.
func TestBarsNameWhatIsMeasured(t *testing.T) {
	names := map[string]bool{"": true}
	for _, s := range allScenarios() {
		if names[s.name] {
			t.Errorf("two scenarios are called %s", s.name)
		}
		names[s.name] = true
	}
	for _, b := range allBars() {
		if !names[b.of.scenario] || !names[b.by.scenario] {
			t.Errorf("no scenario %q or %q", b.of.scenario, b.by.scenario)
		}
		if b.of.scenario != goName {
			continue
		}
		name, _, _ := strings.Cut(b.of.who, "/")
		if out, err := exec.Command("grep", "-rq", "^func Benchmark"+name+"(", "../../codec", "../../engine").CombinedOutput(); err != nil {
			t.Errorf("no BenchmarkXYZ for the bar on %s: %v %s", b.of.who, err, out)
		}
		if !regexp.MustCompile(goBenchmarks).MatchString("Benchmark" + name) {
			t.Errorf("%s is not run", name)
		}
	}
}

// TestParse: counts, beginnings of names and --bars choose what runs; --list names it.
func TestParse(t *testing.T) {
	for args, want := range map[string]int{"--quick 3 floor accuracy": 4, "": len(allScenarios()), "--bars": len(allScenarios()) - len(loads()) + 1} {
		if q, err := parse(strings.Fields(args), io.Discard); err != nil || len(q.scenarios) != want || (q.output == "") != q.quick || q.quick != (q.runs == 3) {
			t.Errorf("%q: %d scenarios, want %d: %+v, %v", args, len(q.scenarios), want, q, err)
		}
	}
	for _, args := range [][]string{{"0"}, {"nonsense"}, {"2", "floor", "nonsense"}, {"--nonsense"}, {"--bars", "punctuality/100-"}} {
		expect.Refused(parse(args, io.Discard))(t, "", "%q was taken", args)
	}
	var out strings.Builder
	if err := command(t.Context(), []string{"--list", "floor"}, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), floorName+" ") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
