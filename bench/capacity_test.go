package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/capacity"
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
	p.ends(t, code)
	must.Do(t, json.Unmarshal([]byte(p.stdout.String()), &f), p.stderr.String())
	return f
}

// patient are the flags of replays with limits that a busy machine cannot break.
func patient(more ...string) []string { return slices.Concat([]string{"--"}, accepted, more) }

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

// TestCapacity: a search that is killed in the middle of a probe leaves no replay behind and goes on to an answer;
// asked again it has the same answer without a probe. The server's slots bound what it can be.
func TestCapacity(t *testing.T) {
	t.Parallel()
	m, load := fourSlots(t), steady(t, 600, 100, 5)
	args := append([]string{
		"--trace", load, "--url", strings.TrimPrefix(m.url, "http://"), "--slo", "ttft.p95<100ms ok>=90%", "--over", "rate", "--range", "50:", "--window", "1500ms", "--warm-in", "200ms", "--budget", "14s",
	}, patient()...)
	var dir string
	var killed *process
	quickEnough(t, func() string {
		dir = filepath.Join(t.TempDir(), "search")
		killed = startSearch(t, dir, args...)
		until(t, "the second probe runs", func() bool {
			_, err := os.Stat(filepath.Join(dir, "probe-02", "requests.jsonl"))
			return err == nil || killed.ended()
		})
		return map[bool]string{true: "the first probe has spent the budget"}[killed.ended()]
	})
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
	said := "Held "
	if first.Answer.Low == 0 { // on a machine that is busy with others
		said = ""
	}
	if a := first.Answer; a.Load > 200 || a.Probes != len(first.Probes) || a.Why == "" || !strings.Contains(first.Sentence, said) {
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
	startSearch(t, dir, append([]string{"--seed", "5"}, args...)...).ends(t, 2, `--seed was "0" there, and is "5" now`)
	for _, name := range []string{"capacity.html", "capacity.json", "search.json"} {
		if len(readFile(t, filepath.Join(dir, name))) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestSweepOfLoads: a sweep measures the loads that are given, in their order, and writes a table of them; asked again it
// measures nothing anew.
func TestSweepOfLoads(t *testing.T) {
	t.Parallel()
	m, load := fourSlots(t), steady(t, 2000, 100, 5)
	var out, table string
	var args []string
	var f found
	quickEnough(t, func() string {
		dir := t.TempDir()
		out, table = filepath.Join(dir, "sweep"), filepath.Join(dir, "sweep.csv")
		args = append([]string{
			"sweep", "--json", "--trace", load, "--url", m.url, "--over", "concurrency", "--at", "2,1", "--window", "1s", "--warm-in", "200ms", "--slo", "ttft.p50<600s goodput>=1%", "--output", out, "--csv", table,
		}, patient("--goodput", "e2e:600s")...)
		f = start(t, nil, args...).answer(t, 0)
		if slices.ContainsFunc(f.Probes, func(o capacity.Outcome) bool { return o.Verdict == capacity.Unsure }) {
			return "a second was too short for its answers"
		}
		return ""
	})
	if len(f.Probes) != 2 || f.Probes[0].Load != 2 || f.Probes[1].Load != 1 {
		t.Fatalf("%+v", f.Probes)
	}
	for _, o := range f.Probes {
		if o.Verdict != capacity.Holds || o.Numbers["requests_per_s"] <= 0 || o.Numbers[capacity.Goodput] <= 0 || o.Numbers["ttft.p50"] <= 0 {
			t.Errorf("%+v", o)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(readFile(t, table))), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "load,goodput_per_s,") || !strings.HasPrefix(lines[1], "2,") || !strings.HasSuffix(lines[2], ",holds") {
		t.Errorf("%q", lines)
	}
	before := journal(out)
	again := start(t, nil, args...).answer(t, 0)
	if !bytes.Equal(journal(out), before) || len(again.Probes) != 2 || len(readFile(t, filepath.Join(out, "sweep.html"))) == 0 {
		t.Errorf("asked again: %+v", again.Probes)
	}
}

// TestSweepOfAShortTrace: a trace that ends within the usual warm-in of a closed loop is measured all the same, and the
// sweep says before it begins how long it may take.
func TestSweepOfAShortTrace(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "20ms", "--itl", "2ms")
	p := start(t, nil, append([]string{"sweep", "--json", "--trace", steady(t, 200, 100, 5), "--url", m.url, "--over", "concurrency", "--at", "8,4", "--output", filepath.Join(t.TempDir(), "sweep")}, patient()...)...)
	f := p.answer(t, 0)
	expect.Contains(t, p.stderr.String(), "2 loads, each measured for 60.0 s: at most 3.10 min in all", p.stderr.String())
	for _, o := range f.Probes {
		if !(o.WarmInS < 2) || o.Numbers["requests_per_s"] <= 0 || o.Numbers["ttft.p50"] < 20 {
			t.Errorf("%+v", o)
		}
	}
	expect.Equal(t, len(f.Probes), 2)
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
	f := startSearch(t, filepath.Join(t.TempDir(), "search"), append([]string{"--trace", steady(t, 400, 200, 2), "--url", m.url, "--slo", "ok>=99%", "--budget", "8s", "--range", "1"}, patient("--no-probe")...)...).answer(t, 0)
	if o := f.Probes[0]; o.Verdict != capacity.Breaks || o.Limiter != "failures" || o.Numbers["error_rate"] < 0.2 || f.Answer.Load != 0 {
		t.Errorf("%+v; %s", o, f.Sentence)
	}
}

// TestProbesSendOtherWords: a cache that is neither flushed nor salted keeps what a probe sent, and the next probe does not
// hit it. With --cold off the probes send the same, and the second one is refused as warm.
func TestProbesSendOtherWords(t *testing.T) {
	t.Parallel()
	m, load := startMock(t), steady(t, 200, 200, 2)
	sweep := func(seed string, behind ...string) *process {
		return start(t, nil, append([]string{
			"sweep", "--trace", load, "--url", m.url, "--seed", seed, "--over", "rate", "--at", "100,200", "--window", "500ms", "--warm-in", "100ms", "--slo", "ok>=1%", "--output", filepath.Join(t.TempDir(), "sweep"),
		}, patient(append(behind, "--no-probe")...)...)...)
	}
	sweep("1").ends(t, 0)
	sweep("8", "--cold", "off").ends(t, 1, "probe 2 at 200 requests/s is INVALID: the cache was warm")
}

// TestSweepOfClasses: a server fails every request of the class free and none of gold. Objectives of each, the numbers
// of each and the table tell them apart; a class that no row has is refused.
func TestSweepOfClasses(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for i := range 200 {
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":20,"output_length":2,"class":%q}`+"\n", i*10, []string{"gold", "free", "free", ""}[i%4])
	}
	load := newFile(t, "classes.jsonl", rows.String())
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-class") == "free" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"text":"a b","finish_reason":"length"}],"usage":{"prompt_tokens":20,"completion_tokens":2}}`)
	})
	sweep := func(slo string) *process {
		return start(t, nil, append([]string{
			"sweep", "--trace", load, "--url", url, "--over", "rate", "--at", "100", "--window", "1500ms", "--warm-in", "100ms", "--slo", slo, "--output", filepath.Join(t.TempDir(), "sweep"),
		}, patient("--api", "completions", "--no-stream", "--no-probe", "--model", "m", "--header", "x-class: {class}")...)...)
	}
	p := sweep("class=gold ok>=90% class=free ok>=90%")
	p.ends(t, 0)
	for _, words := range []string{"class=gold", "class=free", "breaks", "100 %"} {
		expect.Contains(t, p.stdout.String(), words, "the table")
	}
	p = sweep("class=gold ok>=90%")
	p.ends(t, 0)
	expect.Contains(t, p.stdout.String(), "holds", "gold alone")
	sweep("class=silver ok>=90%").ends(t, 2, `no row of the trace has the class "silver"`)
}
