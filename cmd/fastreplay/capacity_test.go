package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestDamagedJournal: what no search has noted is refused with its file and line, before anything is sent.
func TestDamagedJournal(t *testing.T) {
	const good = `{"number":1,"load":1,"slices":[{"requests":5,"beyond":[0],"in_flight":1}],"slice_s":1,"verdict":"holds","spent_s":3,"numbers":null,"directory":"probe-01"}`
	objectives := must.Have(capacity.ParseObjectives("ttft.p95<1s"))(t)
	goOnIn := func(dir, journal, settings string) (outcomes int, err error) {
		for name, text := range map[string]string{journalName: journal, settingsName: settings} {
			if text != "" {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
		}
		search := must.Have(capacity.New(capacity.Config{Objectives: objectives, WindowS: 60, Least: 1}))(t)
		s := &searching{o: &probingOptions{output: dir}, ui: &terminal{w: io.Discard, quiet: true}, objectives: objectives, prober: search, search: search}
		err = s.open(map[string]string{"--over": "rate"})
		return len(s.outcomes), err
	}
	goOn := func(journal, settings string) (outcomes int, err error) {
		return goOnIn(t.TempDir(), journal, settings)
	}
	const settings = `{"--over":"rate"}`
	pipe := t.TempDir()
	must.Do(t, syscall.Mkfifo(filepath.Join(pipe, settingsName), 0o600))
	expect.Refused(goOnIn(pipe, good+"\n", ""))(t, settingsName+" is a pipe", "settings that nobody writes")
	if n, err := goOn(good+"\n"+strings.Replace(good, `"number":1`, `"number":2`, 1)+"\n", settings); n != 2 || err != nil {
		t.Errorf("%d outcomes, %v; want 2", n, err)
	}
	for _, other := range []string{"null", "{}", `{"--over":"scale"}`} {
		expect.Refused(goOn(good+"\n", other))(t, "is of another search: --over was", "settings %s", other)
	}
	for name, change := range map[string][2]string{
		"null": {good, "null"}, "a list": {good, "[1]"}, "a number": {good, "5"}, "an empty object": {good, "{}"}, "cut": {`,"directory":"probe-01"}`, ""},
		"blank": {good, ""}, "a wrong number": {`"number":1`, `"number":2`}, "a negative one": {`"number":1`, `"number":-1`},
		"no load": {`"load":1`, `"load":0`}, "a negative load": {`"load":1`, `"load":-1`}, "an immense load": {`"load":1`, `"load":1e300`},
		"no such load": {`"load":1`, `"load":1e999`}, "a text": {`"load":1`, `"load":"1"`},
		"negative requests": {`"requests":5`, `"requests":-5`}, "immense requests": {`"requests":5`, `"requests":9000000000000000000`},
		"more beyond than requests": {`"beyond":[0]`, `"beyond":[6]`}, "negative beyond": {`"beyond":[0]`, `"beyond":[-1]`},
		"objectives of others": {`"beyond":[0]`, `"beyond":[0,0]`}, "no objectives": {`"beyond":[0]`, `"beyond":null`},
		"a null slice": {`{"requests":5,"beyond":[0],"in_flight":1}`, "null"}, "negative in flight": {`"in_flight":1`, `"in_flight":-1`},
		"negative time": {`"spent_s":3`, `"spent_s":-3`}, "immense time": {`"spent_s":3`, `"spent_s":1e300`}, "negative slices": {`"slice_s":1`, `"slice_s":-1`},
		"no verdict": {`"holds"`, `""`}, "another verdict": {`"holds"`, `"won"`},
	} {
		line := strings.Replace(good, change[0], change[1], 1)
		for _, end := range []string{"\n", ""} {
			if end == "" && (name == "cut" || name == "blank") { // as a write leaves it that was cut off: that probe is tried again
				continue
			}
			if _, err := goOn(line+end, settings); err == nil || !strings.Contains(err.Error(), journalName+":1: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestCapacityFlags: a search has few flags of its own.
func TestCapacityFlags(t *testing.T) {
	n := 0
	newCapacityCommand().Flags().VisitAll(func(*pflag.Flag) { n++ })
	if n > 15 {
		t.Errorf("%d flags, want at most 15", n)
	}
}

// TestProbeConfiguration: a probe has the load, the length and the objectives that the search gives, and the flags of
// the user. The third probe has the third seed.
func TestProbeConfiguration(t *testing.T) {
	objectives := must.Have(capacity.ParseObjectives("ttft.p95<1s ok>=99%"))(t)
	w := window{Span: capacity.Span{FromNS: 2e9, ForNS: 60e9, SliceNS: 250e6}}
	for over, want := range map[string]func(*options) bool{
		"rate":        func(o *options) bool { return o.Pacing.Arrivals.Rate.To == 2 },
		"scale":       func(o *options) bool { return o.Pacing.Scale == 2 },
		"amplify":     func(o *options) bool { return o.Amplify == 2 },
		"concurrency": func(o *options) bool { return o.Pacing.Closed() && o.Pacing.Concurrency == 2 },
		"instances":   func(o *options) bool { return slices.Equal(o.URLs, []string{"a:1", "b:2"}) },
	} {
		s := searching{objectives: objectives, o: &probingOptions{
			over: over, traces: []string{"x.jsonl"}, urls: []string{"a:1", "b:2", "c:3"}, seed: 7, replay: []string{"--api", "chat"},
		}}
		o, err := s.configure(capacity.Probe{Number: 3, Load: 2}, w, "dir")
		must.Do(t, err, over)
		if !want(o) || o.Pacing.Duration != 62*time.Second || o.Seed != 9 || o.Output != "dir" || o.API != "chat" ||
			!slices.Equal(o.Traces, s.o.traces) || !slices.Equal(o.Limits.Require, []string{"ttft.p95<1s"}) {
			t.Errorf("--over %s: %+v", over, o.Config)
		}
	}
}

// TestWarmed: a closed loop is warm once each slot has had three requests, by what one took at the load before.
func TestWarmed(t *testing.T) {
	// as many in flight as slots, and slots/took requests in a second
	loop := func(slots, took float64) capacity.Outcome {
		o := capacity.Outcome{Probe: capacity.Probe{Load: slots}, SliceS: 10}
		for range 6 {
			o.Slices = append(o.Slices, capacity.Slice{Requests: int64(10 * slots / took), InFlight: slots})
		}
		return o
	}
	for _, c := range []struct{ slots, took, load, want float64 }{
		{4, 2, 4, 6},    // three of 2 s
		{4, 2, 8, 12},   // which may take twice as long
		{8, 2, 4, 6},    // and are not taken to be faster
		{4, 0.1, 4, 5},  // so short that the clock decides
		{4, 20, 4, 30},  // no longer than the first
		{4, 0, 4, 30},   // none came
		{100, 1, 1, 5},  // few slots
		{4, 2, 100, 30}, // many
	} {
		before := loop(c.slots, c.took)
		if c.took == 0 {
			before.Slices = nil
		}
		expect.Equal(t, warmed(before, c.load), c.want, "%+v", c)
	}
	s := searching{spanS: 600, requests: 6000, o: &probingOptions{sweep: true, over: "concurrency", isSet: func(string) bool { return false }}}
	for i, want := range []float64{30, 12} {
		warm, _, _ := s.paces(8)
		expect.Equal(t, warm, want, "load %d", i+1)
		s.outcomes = append(s.outcomes, loop(4, 2))
	}
	s.o.over = "rate"
	warm, _, _ := s.paces(10)
	expect.Equal(t, warm, 30.0, "an open loop")
}

// TestTenantsOfProbes: whichever part of a trace a probe replays, each row has the tenant and the class that it has in a
// run of the whole trace.
func TestTenantsOfProbes(t *testing.T) {
	const path = "../../bench/samples/mooncake.jsonl" // without sessions: conversations are inferred
	owned := []string{"--tenants", "3", "--map", "tenant=tenant-1:gold,tenant-2:free"}
	whole := must.Have(trace.OpenAll([]string{path}, trace.Options{}))(t)
	one := must.Have(parseReplay(append([]string{"--trace", path, "--url", "a:1", "--seed", "7"}, owned...)))(t)
	all, _, err := one.Owning.Apply(whole, 7)
	must.Do(t, err)
	want, met := map[int64]rows.Owner{}, map[rows.Owner]bool{}
	for i := range all.Len() {
		want[int64(all.Row[i])] = all.OwnerOf(i)
	}
	s := searching{timeline: whole.ArrivalNS, o: &probingOptions{
		over: "scale", kind: loadKinds()[0], traces: []string{path}, urls: []string{"a:1"}, seed: 7, replay: owned,
	}}
	for part := range 5 {
		first := part * whole.Len() / 6
		stretch := capacity.Stretch{FromNS: whole.ArrivalNS[first], ToNS: whole.ArrivalNS[first+whole.Len()/6]}
		w := window{Span: capacity.Span{ForNS: 60e9}, part: &capacity.Part{Stretches: []capacity.Stretch{stretch}}}
		o := must.Have(s.configure(capacity.Probe{Number: part, Load: 1}, w, "dir"))(t)
		taken := must.Have(o.Open())(t)
		expect.Equal(t, taken.Len() > 10, true, "rows of part %d", part)
		taken, _, err = o.Owning.Apply(taken, o.Seed)
		must.Do(t, err)
		for i := range taken.Len() {
			expect.Equal(t, taken.OwnerOf(i), want[int64(taken.Row[i])], "row", taken.Row[i])
			met[taken.OwnerOf(i)] = true
		}
	}
	expect.Equal(t, len(met), 3, "tenants in the parts")
}

// TestCapacityLiveLine: while a probe runs, its line fits the terminal, and has what is known so far.
func TestCapacityLiveLine(t *testing.T) {
	objectives := must.Have(capacity.ParseObjectives("ttft.p95<1s tpot.p95<50ms ok>=99.9%"))(t)
	search := must.Have(capacity.New(capacity.Config{Objectives: objectives, WindowS: 60, Least: 1}))(t)
	slices := []capacity.Slice{{Requests: 400, Beyond: []int64{0, 0, 0}, InFlight: 3}}
	held := capacity.Outcome{Probe: capacity.Probe{Number: 1, Load: 1}, Slices: slices, SliceS: 60, Verdict: capacity.Holds}
	search.Add(held)
	s := searching{o: &probingOptions{over: "amplify", kind: loadKinds()[0], budget: time.Hour}, objectives: objectives, prober: search, search: search, outcomes: []capacity.Outcome{held}}
	var shown atomic.Pointer[capacity.Peek]
	v := s.view(capacity.Probe{Number: 2, Load: 2}, 30*time.Second, &shown)
	for _, peek := range []*capacity.Peek{nil, {SliceS: 1, WindowS: 60}, {SliceS: 1, WindowS: 60, Slices: slices}} {
		shown.Store(peek)
		for width, text := range map[int]string{80: v.screen(80, 24), 50: v.screen(50, 24), 78: v.line()} {
			if !strings.Contains(text, " left, ≥ 1.00: ×2, ") || strings.Contains(text, "ns") || width >= 78 && strings.Contains(text, "\n") {
				t.Errorf("the bracket is missing, or the time is odd:\n%s", text)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d columns of %d: %s", n, width, line)
				}
			}
		}
	}
}

// TestCapacityClient: a probe that the client ended names no second value of what the table has.
func TestCapacityClient(t *testing.T) {
	s := searching{o: &probingOptions{over: "rate", kind: loadKinds()[2]}, dir: t.TempDir()}
	value := 61.5
	summary := &metrics.Summary{Schema: metrics.Schema, Verdict: metrics.Verdict{Objectives: []metrics.Objective{{Text: "ttft.p95<50ms", Metric: "ttft.p95", Value: &value, EffectMS: 20, Unsure: true}}}}
	o := capacity.Outcome{Probe: capacity.Probe{Number: 1, Load: 1}, Directory: "probe-01"}
	_, err := s.judge(&o, summary, "probe 1", true)
	if want := "ttft.p95<50ms is missed, and the client's lateness of 20.0 ms may be why"; err != nil || o.Client != want {
		t.Errorf("%v: %q, want %q", err, o.Client, want)
	}
	summary.Verdict = metrics.Verdict{Reasons: []metrics.Reason{{Code: metrics.Models, Grade: metrics.Limited, What: "several models"}}}
	o = capacity.Outcome{Why: "1 % are beyond."}
	if _, err := s.judge(&o, summary, "probe 1", true); err != nil || o.Why != "several models: 1 % are beyond." {
		t.Errorf("of several models: %v, %q", err, o.Why)
	}
	expect.Equal(t, o.Limited, "several models")
	summary.Verdict.Reasons[0] = metrics.Reason{Code: metrics.EmptyFirst, Grade: metrics.Limited, What: "TTFT may be too short"}
	for text, limited := range map[string]string{"e2e.p95<1s": "", "tpot.p95<1s": "TTFT may be too short"} {
		s.objectives = must.Have(capacity.ParseObjectives(text))(t)
		o = capacity.Outcome{}
		_, err := s.judge(&o, summary, "probe 1", true)
		must.Do(t, err)
		expect.Equal(t, o.Limited, limited, text)
	}
}

// TestCapacityOfAnotherModel: a search does not go on with another model, in one process or in the next.
func TestCapacityOfAnotherModel(t *testing.T) {
	dir := t.TempDir()
	summary := metrics.Summary{Run: metrics.Run{Model: "a"}}
	must.Do(t, os.Mkdir(filepath.Join(dir, "probe-01"), 0o755))
	must.Do(t, report.WriteJSON(filepath.Join(dir, "probe-01", report.SummaryName), &summary))
	for model, refused := range map[string]bool{"a": false, "b": true} {
		s := searching{dir: dir, outcomes: []capacity.Outcome{{Directory: "probe-01"}}}
		expect.Equal(t, s.sameModel(model, "probe 2") != nil, refused, "on disk: %s", model)
		s = searching{}
		must.Do(t, s.sameModel("a", "probe 1"))
		expect.Equal(t, s.sameModel(model, "probe 2") != nil, refused, "in one process: %s", model)
	}
}

// TestCapacityOfWarmCaches: later probes may be easier if they send the words of the first, to caches that may hold them.
func TestCapacityOfWarmCaches(t *testing.T) {
	for number := range 3 {
		for _, cold := range []bool{true, false} {
			for verbatim := range int64(2) {
				for _, flag := range []any{nil, "salt", "off"} {
					p := probing{cold: cold, out: &capacity.Outcome{Probe: capacity.Probe{Number: number + 1}}}
					p.noteWarm(&metrics.Summary{Workload: metrics.Workload{Verbatims: verbatim}, Run: metrics.Run{Options: map[string]any{"cold": flag}}})
					want := number > 0 && !cold && (verbatim > 0 || flag == "off")
					expect.Equal(t, p.out.Limited != "", want, "probe %d, %v, %d verbatim, %v", number+1, cold, verbatim, flag)
				}
			}
		}
	}
}

// TestCapacityOfWholeAnswers: answers that come whole have no TTFT, which no load can be blamed for.
func TestCapacityOfWholeAnswers(t *testing.T) {
	for text, refused := range map[string]bool{"ttft.p95<1s": true, "tpot.p50<1s": true, "ntpot.p95<1s": false, "e2e.p95<1s ok>=99%": false} {
		for whole, some := range map[int64]bool{400: true, 8: false, 0: false} {
			s := searching{o: &probingOptions{over: "rate", kind: loadKinds()[2]}, objectives: must.Have(capacity.ParseObjectives(text))(t)}
			summary := &metrics.Summary{Requests: metrics.Requests{OK: 400}, Tokens: metrics.Tokens{Whole: whole}}
			values := new(stats.Percentiles)
			summary.TTFTMS, summary.TPOTMS, summary.NTPOTMS, summary.E2EMS = values, values, values, values
			_, err := s.judge(&capacity.Outcome{}, summary, "probe 1", true)
			if want := refused && some; (err != nil) != want || want && !strings.Contains(err.Error(), "400 of 400 answers came whole") {
				t.Errorf("%s, %d whole: %v", text, whole, err)
			}
		}
	}
}

// TestCapacityWithoutValues: an objective on what no answer has, as TPOT of one token each, is met by no load.
func TestCapacityWithoutValues(t *testing.T) {
	for _, c := range []struct {
		objective  string
		ok, atOnce int64
		has        *stats.Percentiles
		refused    bool
	}{
		{"tpot.p95<1s", 11, 0, nil, true},
		{"tpot.p95<1s", 10, 0, nil, false}, // others may have one
		{"tpot.p95<1s", 11, 0, new(stats.Percentiles), false},
		{"tpot.p95<1s", 11, 11, nil, false}, // E2E bounds it
		{"ok>=99%", 11, 0, nil, false},
	} {
		s := searching{o: &probingOptions{over: "rate", kind: loadKinds()[2]}, objectives: must.Have(capacity.ParseObjectives(c.objective))(t)}
		summary := &metrics.Summary{Requests: metrics.Requests{OK: c.ok}, Tokens: metrics.Tokens{AtOnce: c.atOnce}}
		summary.TPOTMS = c.has
		_, err := s.judge(&capacity.Outcome{}, summary, "probe 1", true)
		expect.Equal(t, err != nil, c.refused, "%+v: %v", c, err)
	}
}

// TestSearchOfAChangedTrace: a search does not go on with the probes of a trace that has been changed, though it has as many rows.
func TestSearchOfAChangedTrace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t.jsonl")
	settings := func(output int) map[string]string {
		row := fmt.Sprintf(`{"timestamp":0,"input_length":9,"output_length":%d,"hash_ids":[1]}`, output)
		must.Do(t, os.WriteFile(name, []byte(row), 0o600))
		s := &searching{o: &probingOptions{traces: []string{name}}, requests: 1}
		return s.settings(nil)
	}
	before := settings(10)
	must.Do(t, sameSettings("dir", before, settings(10)))
	err := sameSettings("dir", before, settings(90))
	expect.Error(t, err, name+" has been changed since then (its SHA-256 began with ", "of other bytes")
}

// TestReplicasOfAWithdrawnBound: where no load is known to hold, nobody knows what one instance carries.
func TestReplicasOfAWithdrawnBound(t *testing.T) {
	s := &searching{o: &probingOptions{over: "rate", urls: []string{"http://a:1"}}, spanS: 1, arrivals: capacity.Timeline{0, 1e9}}
	for low, words := range map[float64]string{0: "", 0.5: " (0.500 by the lower end of the interval), "} {
		r := s.replicas(capacity.Answer{Load: 1, Low: low, High: new(2.0), Part: new(capacity.Part)})
		if (r != nil) != (low > 0) || !strings.Contains(r.Words(1), words) {
			t.Errorf("bounded by %v: %q", low, r.Words(1))
		}
	}
}
