package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/report"
)

// found is what `fastreplay capacity --json` prints.
type found struct {
	Sentence, Limiter string
	Answer            capacity.Answer
	Probes            []capacity.Outcome
}

// startSearch searches in a directory, which may be of a search that goes on.
func startSearch(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return start(t, nil, append([]string{"capacity", "--json", "--output", dir}, args...)...)
}

// answer waits for the end of a search.
func (p *process) answer(t testing.TB, code int) (f found) {
	t.Helper()
	if got := p.wait(t); got != code {
		t.Fatalf("exit %d, want %d:\n%s", got, code, p.stderr.String())
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &f); err != nil {
		t.Fatalf("%v:\n%s", err, p.stderr.String())
	}
	return f
}

// patient replays with limits that a busy machine cannot break.
var patient = []string{"--", "--max-drift", "1h", "--max-receive-lag", "1h"}

// fourSlots is a mock that ends 100 requests of 5 tokens a second at most, each after 40 ms.
func fourSlots(t testing.TB, args ...string) *mockServer {
	return startMock(t, append([]string{"--slots", "4", "--ttft", "20ms", "--itl", "5ms", "--spread", "0"}, args...)...)
}

func journal(dir string) []byte {
	text, _ := os.ReadFile(filepath.Join(dir, "probes.jsonl"))
	return text
}

// runs reports whether a process has this text in its command line.
func runs(t *testing.T, text string) bool {
	t.Helper()
	out, err := exec.Command("ps", "-axo", "command").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no ps")
	}
	return strings.Contains(string(out), text)
}

// TestCapacity: a search that is killed in the middle of a probe leaves no replay behind and goes on to an answer; asked again it has the
// same answer without a probe. The server's slots bound what it can be.
func TestCapacity(t *testing.T) {
	t.Parallel()
	m, load, dir := fourSlots(t), steady(t, 600, 100, 5), filepath.Join(t.TempDir(), "search")
	args := append([]string{
		"--trace", load, "--url", strings.TrimPrefix(m.url, "http://"), "--slo", "ttft.p95<100ms ok>=90%", "--over", "rate", "--range", "50:", "--window", "1500ms", "--warm-in", "200ms", "--budget", "7s",
	}, patient...)
	killed := startSearch(t, dir, args...)
	until(t, "the second probe runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "probe-02", "requests.jsonl"))
		return err == nil || killed.ended()
	})
	if killed.ended() {
		t.Skip("this machine is too slow: the first probe has spent the budget")
	}
	killed.signal(t, os.Kill)
	killed.wait(t)
	until(t, "the probe ends with its search", func() bool { return !runs(t, dir) })
	before := journal(dir)
	if len(before) == 0 {
		t.Fatal("no probe is in the journal, and the second one ran")
	}
	writeFile(t, filepath.Join(dir, "probes.jsonl"), append(before[:len(before):len(before)], `{"number":9,"lo`...))
	first := startSearch(t, dir, args...).answer(t, 0)
	after := journal(dir)
	if !bytes.HasPrefix(after, before) || bytes.Count(after, []byte("\n")) != len(first.Probes) {
		t.Errorf("of the journal\n%s\nremains\n%s", before, after)
	}
	if a := first.Answer; a.Load > 200 || a.Probes != len(first.Probes) || a.Why == "" || !strings.Contains(first.Sentence, "requests/s") {
		t.Errorf("%s; %+v", first.Sentence, a)
	}
	for _, o := range first.Probes {
		if o.Load >= 200 && o.Verdict != capacity.Breaks {
			t.Errorf("a load of %v: %s", o.Load, o.Verdict)
		}
		if _, known := o.Numbers[capacity.PrefixHits]; !known { // of a target
			t.Errorf("a load of %v: %v", o.Load, o.Numbers)
		}
	}
	again := startSearch(t, dir, args...).answer(t, 0)
	if !bytes.Equal(journal(dir), after) || again.Sentence != first.Sentence {
		t.Errorf("asked again: %s\nbefore: %s", again.Sentence, first.Sentence)
	}
	t.Logf("the truth is 100; %s", first.Sentence)
	other := startSearch(t, dir, append([]string{"--seed", "5"}, args...)...)
	if code := other.wait(t); code != 2 || !strings.Contains(other.stderr.String(), `--seed was "0" there, and is "5" now`) {
		t.Errorf("exit %d: %s", code, other.stderr.String())
	}
	for _, name := range []string{"capacity.html", "capacity.json", "search.json"} {
		if len(readFile(t, filepath.Join(dir, name))) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestCapacityInterrupt: Ctrl-C ends the probe that runs, and gives what is known.
func TestCapacityInterrupt(t *testing.T) {
	t.Parallel()
	m, dir := fourSlots(t), filepath.Join(t.TempDir(), "search")
	p := startSearch(t, dir, "--trace", steady(t, lasting, 50, 5), "--url", m.url, "--slo", "ttft.p50<1s")
	m.untilRunning(t, 1)
	p.signal(t, os.Interrupt)
	f := p.answer(t, 130)
	if len(f.Probes) != 0 || f.Answer.Load != 0 || !strings.Contains(lastLine(p.stderr.String()), "goes on") || runs(t, dir) {
		t.Errorf("%+v\n%s", f, p.stderr.String())
	}
}

// TestCapacityOfAServerThatFails: too many failures are a loss, and no error.
func TestCapacityOfAServerThatFails(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--fault", "status:503@0.5")
	f := startSearch(t, filepath.Join(t.TempDir(), "search"), append([]string{"--trace", steady(t, 400, 200, 2), "--url", m.url, "--slo", "ok>=99%", "--budget", "1s"}, append(patient[:5:5], "--no-probe")...)...).answer(t, 0)
	if o := f.Probes[0]; o.Verdict != capacity.Breaks || o.Limiter != "failures" || o.Numbers["error_rate"] < 0.2 || f.Answer.Load != 0 {
		t.Errorf("%+v; %s", o, f.Sentence)
	}
}

// TestCapacityOfTheClient: a client that is late ends the search, and no capacity is the server's.
func TestCapacityOfTheClient(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	f := startSearch(t, filepath.Join(t.TempDir(), "search"), "--trace", steady(t, 100, 200, 2), "--url", m.url, "--slo", "ttft.p50<1s", "--", "--max-drift", "1ns").answer(t, 1)
	if len(f.Probes) != 1 || !strings.Contains(f.Probes[0].Client, "drift p99") || !strings.Contains(f.Answer.Why, "client") || f.Answer.Load != 0 {
		t.Errorf("%+v", f)
	}
}

// TestCapacities searches ten servers whose slots bound the requests that end in a second. Latencies may be longer by 400 ms than
// without a queue, so that only a queue breaks the objective. The truth beside the answer is by construction: what a server ends in a
// second, which a closed loop counts before and after the search, for it depends on how busy the machine is, and for arrivals by chance the
// load at which a simulated queue of that speed breaks the objective. It takes half an hour:
// FASTREPLAY_CAPACITY=1 go test ./bench -run TestCapacities -v -timeout 2h
func TestCapacities(t *testing.T) {
	if os.Getenv("FASTREPLAY_CAPACITY") == "" {
		t.Skip("FASTREPLAY_CAPACITY is not set")
	}
	only := os.Getenv("FASTREPLAY_CAPACITY_ONLY")
	chance := generate(t, "--rows", "60000", "--rate", "40", "--arrival", "poisson", "--input-tokens", "100:300", "--output-tokens", "6")
	even := steady(t, 60000, 40, 6)
	for i, c := range []struct {
		name, trace string
		slots       int
		ttft, itl   time.Duration
		instances   int
		per         float64 // requests a second at a load of 1; 0: the load is a number of slots, or of instances
		args        []string
	}{
		{"rate, 4 slots", even, 4, 20 * time.Millisecond, 4 * time.Millisecond, 1, 1, []string{"--over", "rate", "--range", "30:"}},
		{"rate, 8 slots", even, 8, 50 * time.Millisecond, 10 * time.Millisecond, 1, 1, []string{"--over", "rate", "--range", "30:"}},
		{"rate, 16 slots", even, 16, 60 * time.Millisecond, 8 * time.Millisecond, 1, 1, []string{"--over", "rate", "--range", "30:"}},
		{"rate, four instances of 2 slots", even, 2, 20 * time.Millisecond, 4 * time.Millisecond, 4, 1, []string{"--over", "rate", "--range", "50:"}},
		{"scale, 4 slots", even, 4, 20 * time.Millisecond, 4 * time.Millisecond, 1, 40, []string{"--over", "scale"}},
		{"scale, 8 slots, chance", chance, 8, 50 * time.Millisecond, 10 * time.Millisecond, 1, 40, []string{"--over", "scale", "--range", "0.5:"}},
		{"amplify, 8 slots, chance", chance, 8, 30 * time.Millisecond, 6 * time.Millisecond, 1, 40, nil},
		{"amplify, 16 slots, chance", chance, 16, 60 * time.Millisecond, 8 * time.Millisecond, 1, 40, nil},
		{"concurrency, 12 slots", even, 12, 60 * time.Millisecond, 8 * time.Millisecond, 1, 0, []string{"--over", "concurrency", "--window", "15s"}},
		{"instances of 1 slot", even, 1, 20 * time.Millisecond, 4 * time.Millisecond, 4, 0, []string{"--over", "instances", "--window", "20s"}},
	} {
		if only != "" && only != strconv.Itoa(i+1) {
			continue
		}
		m := startMock(t, "--slots", fmt.Sprint(c.slots), "--ttft", c.ttft.String(), "--itl", c.itl.String(), "--spread", "0", "--instances", fmt.Sprint(c.instances), "--log", filepath.Join(t.TempDir(), "{instance}"))
		var urls []string
		until(t, "all mocks listen", func() bool { return strings.Count(m.stdout.String(), "\n") == c.instances })
		for line := range strings.Lines(m.stdout.String()) {
			urls = append(urls, "--url", strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
		}
		allowed := 400 * time.Millisecond
		truth := func() float64 {
			perS := endsPerS(t, even, 4*c.slots*c.instances, urls)
			switch {
			case c.name[:4] == "conc": // slots end at the same instants, so requests wait whole rounds: 5 % may wait as many as are not allowed
				rounds := allowed / (c.ttft + 5*c.itl)
				return math.Floor(float64(rounds) * float64(c.slots) / 0.95)
			case c.per == 0:
				return math.Ceil(40 / (perS / float64(c.instances)))
			case c.trace == chance:
				perS *= edgeOfQueue(c.slots, float64(c.slots)/perS, allowed.Seconds())
			}
			return perS / c.per
		}
		before := truth()
		args := append(append([]string{"--trace", c.trace, "--slo", fmt.Sprintf("ttft.p95<%v ok>=99%%", c.ttft+allowed), "--budget", "2m", "--warm-in", "2s"}, c.args...), urls...)
		p := startSearch(t, filepath.Join(t.TempDir(), "search"), append(args, patient...)...)
		<-p.gone
		f := p.answer(t, 0)
		high := 0.0
		if f.Answer.High != nil {
			high = *f.Answer.High
		}
		after := truth()
		from, to := min(before, after), max(before, after)
		within := f.Answer.Low <= to*1.005 && high >= from/1.005
		t.Logf("%-32s truth %.4g to %.4g   answer %6.4g [%.4g, %.4g]   within: %-5v %s", c.name, from, to, f.Answer.Load, f.Answer.Low, high, within, f.Sentence)
		if off := f.Answer.Load / truth(); off < 0.85 || off > 1.15 {
			t.Errorf("%s: %+v\n%s", c.name, f.Answer, p.stderr.String())
		}
		m.signal(t, syscall.SIGTERM)
	}
}

// endsPerS is how many requests of a trace the servers of these flags end in a second, if so many are always in flight.
func endsPerS(t *testing.T, trace string, inFlight int, urls []string) float64 {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fmt.Sprint("ends-", time.Now().UnixNano()))
	args := append([]string{"--trace", trace, "--concurrency", fmt.Sprint(inFlight), "--duration", "8s", "--output", dir, "--quiet"}, urls...)
	p := start(t, nil, append(args, patient[1:]...)...)
	p.wait(t)
	from, to, n := math.Inf(1), 0.0, -1.0
	_, err := report.EachRecord(dir, func(r *record.Record) {
		if at := float64(r.DoneNS) / 1e9; r.Outcome == record.OK && at > 1 && at < 8 { // while all slots are busy
			from, to, n = min(from, at), max(to, at), n+1
		}
	})
	if err != nil || n < 10 {
		t.Fatalf("%v, %v requests ended:\n%s", err, n, p.stderr.String())
	}
	return n / (to - from)
}

// edgeOfQueue is the load, as a share of what so many servers can end, at which 5 % of requests that come by chance wait longer than allowed.
func edgeOfQueue(servers int, serviceS, allowedS float64) float64 {
	low, high := 0.3, 1.0
	for range 12 {
		load := (low + high) / 2
		rng, at, late := rand.New(rand.NewPCG(1, 2)), 0.0, 0
		free := make([]float64, servers) // when each is
		const n = 400_000
		for range n {
			at += rng.ExpFloat64() * serviceS / float64(servers) / load
			first := slices.Index(free, slices.Min(free))
			begins := max(at, free[first])
			free[first] = begins + serviceS
			if begins-at > allowedS {
				late++
			}
		}
		if late > n/20 {
			high = load
		} else {
			low = load
		}
	}
	return (low + high) / 2
}
